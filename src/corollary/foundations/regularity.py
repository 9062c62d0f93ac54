r"""Lipschitz and smoothness constants: bounded from below by samples, from above by certificates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import concrete, positive, real, whole, within
from corollary.catalog import implements


@implements("B01.14")
def pair_slopes(f: Callable, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\|f(x)-f(y)\|/\|x-y\|$ of every pair of rows of `x` and `y` (n, ...): each is at most the Lipschitz constant.

    Pairs that coincide get slope 0: they say nothing.
    """
    f, x, y = _function(f), real("x", x), real("y", y)
    if x.ndim < 1 or x.shape != y.shape:
        raise ValueError(f"x and y must hold the same number of points, got shapes {x.shape} and {y.shape}.")
    rise = jax.vmap(lambda u, v: jnp.linalg.norm(jnp.ravel(f(u) - f(v))))(x, y)
    run = jnp.linalg.norm((x - y).reshape(x.shape[0], -1), axis=1)
    return jnp.where(run > 0, rise / jnp.where(run > 0, run, 1), 0)


@implements("B01.14")
def lipschitz_lower_bound(
    f: Callable, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."], rounds: int = 0
) -> Float[Array, ""]:
    r"""The largest slope over the pairs of `x` and `y`: a lower bound of the Lipschitz constant.

    In each of `rounds` every pair moves to that half of its segment over which the slope is larger. That never
    lowers it: by the triangle inequality the slope of a segment is at most the mean of those of its halves.
    """
    f, x, y, rounds = _function(f), real("x", x), real("y", y), whole("rounds", rounds, 0)

    def narrow(pair, _):
        a, b = pair
        middle = (a + b) / 2
        left = pair_slopes(f, a, middle) >= pair_slopes(f, middle, b)
        left = left.reshape(-1, *[1] * (a.ndim - 1))
        return (jnp.where(left, a, middle), jnp.where(left, middle, b)), None

    first = jnp.max(pair_slopes(f, x, y))
    (x, y), _ = jax.lax.scan(narrow, (x, y), length=rounds)
    return jnp.maximum(first, jnp.max(pair_slopes(f, x, y)))


@implements("B01.14", "B01.15")
def lipschitz_upper_bound(
    f: Callable, low: Float[ArrayLike, "..."], high: Float[ArrayLike, "..."], smoothness: Scalar, cells: int = 100
) -> Float[Array, ""]:
    r"""$\max_c\|\nabla f(c)\|+Mr$ over the centres $c$ of a grid of cells of half-diagonal $r$: a certificate.

    For a real `f` on the box from `low` to `high` (numbers, or vectors of at most a few entries) whose gradient is
    `smoothness`-Lipschitz there: no gradient in a cell is larger, and a bounded gradient on a convex set is a
    Lipschitz constant. Exact in the limit of many cells.
    """
    f, low, high = _function(f), real("low", low), real("high", high)
    if low.ndim > 1 or low.shape != high.shape:
        raise ValueError(f"low and high must both be numbers or both be vectors, got {low.shape} and {high.shape}.")
    if concrete(low) and concrete(high) and (np.asarray(low) >= np.asarray(high)).any():
        raise ValueError(f"low must be below high, got {low} and {high}.")
    smoothness, cells = within("smoothness", real("smoothness", smoothness, ""), 0.0), whole("cells", cells)
    if (count := cells ** max(low.size, 1)) > 10**7:
        raise ValueError(f"cells must give at most 10 million in all, got {count}.")
    middle = (jnp.arange(cells, dtype=low.dtype) + 0.5) / cells
    axes = [a + (b - a) * middle for a, b in zip(low.reshape(-1), high.reshape(-1), strict=True)]
    centres = jnp.stack([g.ravel() for g in jnp.meshgrid(*axes, indexing="ij")], -1).reshape(-1, *low.shape)
    slopes = jax.vmap(lambda c: jnp.linalg.norm(jnp.ravel(jax.grad(f)(c))))(centres)
    return jnp.max(slopes) + smoothness * jnp.linalg.norm(jnp.ravel(high - low)) / (2 * cells)


@implements("B01.14")
def network_lipschitz_bound(weights: Sequence, slope: Scalar = 1.0) -> Float[Array, ""]:
    r"""$s^{k-1}\prod_i\|W_i\|_2$: a Lipschitz constant of $W_k\phi(\cdots\phi(W_1x))$ for an $s$-Lipschitz $\phi$."""
    if not isinstance(weights, Sequence) or not weights:
        raise ValueError("weights must be a sequence of at least one matrix.")
    slope = positive("slope", real("slope", slope, ""))
    matrices = [real(f"weights[{i}]", w, "m n") for i, w in enumerate(weights)]
    for i, (first, second) in enumerate(pairwise(matrices)):
        if second.shape[1] != first.shape[0]:
            raise ValueError(f"weights[{i + 1}] must have {first.shape[0]} columns, got shape {second.shape}.")
    norms = jnp.stack([jnp.linalg.svd(w, compute_uv=False)[0] for w in matrices])
    return slope ** (len(matrices) - 1) * jnp.prod(norms)


@implements("B01.16", "E03.04", "M17.06", "T02.06", "T07.01")
def smoothness_lower_bound(f: Callable, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."]) -> Float[Array, ""]:
    r"""$\max\|\nabla f(x)-\nabla f(y)\|/\|x-y\|$ over the pairs of rows: a lower bound of the smoothness constant."""
    return jnp.max(pair_slopes(jax.grad(_function(f)), x, y))


@implements("B01.16", "E03.04", "M17.06", "T02.06")
def quadratic_smoothness(hessian: Float[ArrayLike, "d d"]) -> Float[Array, ""]:
    r"""$\max_i|\lambda_i(H)|$: the smoothness constant of $\frac12x^\top Hx$, exactly; 2 for $x^2$."""
    hessian = real("hessian", hessian, "d d")
    return jnp.max(jnp.abs(jnp.linalg.eigvalsh((hessian + hessian.T) / 2)))


#: The smoothness constant of the logistic function, the largest value of its second derivative.
SIGMOID_SMOOTHNESS = 1 / (6 * 3**0.5)


def _function(f):
    if not callable(f):
        raise TypeError(f"f must be a function of a point, got {type(f).__name__}.")
    return f
