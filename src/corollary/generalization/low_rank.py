r"""Matrices without their small singular values, and networks of such matrices."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, ArrayLike, Float, PyTree

from corollary._show import shown
from corollary._types import NetworkLike, Scalar
from corollary._validate import concrete, positive, real, whole, within
from corollary.catalog import implements
from corollary.generalization.compression import (
    MOST_LEVELS,
    Compressed,
    Description,
    float_nats,
    on_grid,
    whole_number_nats,
)
from corollary.network.apart import require_apart
from corollary.network.batches import each, pair
from corollary.network.parts import require_network, split

#: The relative sizes below which singular values are left out: 1, 2^(-1/4), ..., 2^(-20), and at last none.
LEVELS = np.append(2.0 ** (-np.arange(81) / 4), 0.0)


class LowRank(NamedTuple):
    """A `matrix` and its `rank`."""

    matrix: Array
    rank: Array

    __repr__ = shown


@implements("T05.33")
def truncate_singular_values(a: Float[ArrayLike, "m n"], delta: Scalar) -> LowRank:
    r"""$\hat A$: `a` without its singular values below $\delta\|A\|_2$.

    $\|\hat A-A\|_2\le\delta\|A\|_2$, and the rank is at most $\|A\|_F^2/(\delta^2\|A\|_2^2)$, the stable rank of $A$
    over $\delta^2$. A matrix of rank $r$ is a product of two with $r(m+n)$ numbers.

    >>> truncate_singular_values(jnp.diag(jnp.array([4.0, 2.0, 1.0])), 0.3).rank.item()
    2
    """
    a = real("a", a, "m n")
    delta = within("delta", real("delta", delta, ""), 0.0, 1.0, open="low")
    u, s, vt = jnp.linalg.svd(a, full_matrices=False)
    stays = (s >= delta * s[0]) & (s > 0)
    return LowRank((u * jnp.where(stays, s, 0)) @ vt, jnp.sum(stays))


@implements("T05.34")
def truncation_level(norms: Float[ArrayLike, "d"], margin: Scalar, radius: Scalar) -> Float[Array, ""]:
    r"""$\delta=\gamma/(3d\,R\prod_i\|A_i\|_2)$: no layer truncated at it moves an output by more than $\gamma/3d$.

    For $A_d\phi(A_{d-1}\cdots\phi(A_1x))$ with $|\phi(a)-\phi(b)|\le|a-b|$ and $\phi(0)=0$, the spectral `norms` of the
    $d$ matrices, inputs of length at most $R$ = `radius` and $\gamma$ = `margin`. All together move it by $\gamma/3$
    at most, because truncation does not make norms larger.
    """
    norms = positive("norms", real("norms", norms, "d"))
    margin, radius = positive("margin", real("margin", margin, "")), positive("radius", real("radius", radius, ""))
    return margin / (3 * len(norms) * radius * jnp.prod(norms))


@implements("T05.34")
def truncate(
    network: NetworkLike,
    margin: Scalar,
    data: PyTree,
    *,
    levels: int | None = None,
    trainable: PyTree = None,
    batch_size: int = 1000,
) -> Compressed:
    r"""The network with as few singular values as leave every output on `data` within `margin` of what it was.

    Any network: arrays with two axes are matrices, those with more are taken as one row per entry of the first axis,
    and the rest stays whole. Singular values below $\delta$ times the largest are left out, with one $\delta$ for all,
    and the largest of a grid is found by halving. A matrix is written down as two factors, or whole where that is
    shorter: `levels` values for each number, or, without, numbers as they are stored. Inputs and targets are the pair
    `data`. On it the 0-1 error of the truncated network is at most the share of margins up to twice `margin`.

    >>> truncate(network, 1e-3, data).description.parameters <= quantise(network, 2).description.parameters
    Array(True, dtype=bool)
    """
    require_network(network)
    parts, (x, _) = split(network, trainable), pair("data", data)
    margin = positive("margin", real("margin", margin, ""))
    levels = None if levels is None else whole("levels", levels, 2, MOST_LEVELS)
    require_apart(parts.join(), x)
    found = _search(parts, x, margin, levels, whole("batch_size", batch_size))
    if concrete(found.moved) and np.asarray(found.moved) > np.asarray(margin):
        raise ValueError(
            f"levels must be more for this margin: rounding alone moves an output by {float(found.moved):.3g}, where "
            f"{float(margin):.3g} is allowed."
        )
    return Compressed(found.network, found.description)


class _Found(NamedTuple):
    network: PyTree
    description: Description
    moved: Array


@eqx.filter_jit
def _search(parts, x, margin, levels, batch_size) -> _Found:
    leaves, form = jax.tree.flatten(parts.params)
    factored = [_factors(leaf) for leaf in leaves]

    def outputs(network):
        return each(lambda batch: jax.vmap(network)(batch), x, batch_size)

    before = outputs(parts.join())

    def at(index):
        delta = jnp.asarray(LEVELS, margin.dtype)[index]
        pieces = [_written(leaf, f, delta, levels) for leaf, f in zip(leaves, factored, strict=True)]
        return parts.join(form.unflatten([p[0] for p in pieces])), pieces

    def moved(index):
        return jnp.max(jnp.abs(outputs(at(index)[0]) - before))

    def halve(_, ends):
        low, high = ends  # `high` is near enough, or the last one
        middle = (low + high + 1) // 2
        enough = moved(middle) <= margin
        return jnp.where(enough, low, middle), jnp.where(enough, middle, high)

    last = len(LEVELS) - 1
    steps = int(np.ceil(np.log2(last + 1)))
    high = lax.fori_loop(0, steps, halve, (jnp.asarray(-1), jnp.asarray(last)))[1]
    network, pieces = at(high)
    parameters = sum(p[1] for p in pieces)
    per_number = float_nats(parts.params) if levels is None else float(np.log(levels))
    nats = {"values": parameters * per_number, "ranks": sum(p[2] for p in pieces)}
    if levels is not None:
        scales = sum(1 if f is None else 2 for f in factored)
        nats |= {"scales": jnp.asarray(scales * float_nats(parts.params)), "levels": whole_number_nats(levels)}
    return _Found(network, Description(parameters, nats), moved(high))


def _factors(leaf):
    """The singular value decomposition of an array with two axes or more; None for the others."""
    return jnp.linalg.svd(leaf.reshape(len(leaf), -1), full_matrices=False) if leaf.ndim > 1 else None


def _written(leaf, factors, delta, levels):
    """An array as it is written down at the level `delta`, how many numbers that are, and the nats of its rank."""
    rounded = (lambda a: a) if levels is None else (lambda a: on_grid(a, levels))
    size = jnp.asarray(float(leaf.size))
    if factors is None:
        return rounded(leaf), size, jnp.zeros(())
    u, s, vt = factors
    stays = (s >= delta * s[0]) & (s > 0)
    root = jnp.where(stays, jnp.sqrt(s), 0)
    # a column that is left out stays 0 where the grid has no 0
    product = (rounded(u * root) * stays) @ (rounded(root[:, None] * vt) * stays[:, None])
    rank = jnp.sum(stays, dtype=size.dtype)
    numbers = rank * (u.shape[0] + vt.shape[1])
    shorter = (numbers < size) & (delta > 0)  # at 0 nothing moves at all, not even by rounding
    array = jnp.where(shorter, product.reshape(leaf.shape), rounded(leaf))
    # whether it is factored is one bit more
    return array, jnp.where(shorter, numbers, size), jnp.log(2.0) + jnp.where(shorter, whole_number_nats(rank + 1), 0.0)
