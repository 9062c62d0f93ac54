r"""Permutations of the elements of a set, and how far a function is from respecting them.

A permutation is an array $\pi$ of the numbers $0..M-1$; it takes $X$ to $PX$, whose row $i$ is row $\pi_i$ of $X$.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations as orders

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._validate import concrete, labels, real, whole
from corollary.catalog import implements


@implements("M13.37")
def permutation_matrix(order: Int[ArrayLike, "..."]) -> Float[Array, "... n n"]:
    r"""$L(\pi)$ with rows $e_{\pi_1},\dots,e_{\pi_n}$: row $i$ of $L(\pi)X$ is row $\pi_i$ of $X$."""
    order = as_permutations(order, np.shape(order)[-1] if np.ndim(order) else 1)
    return jnp.eye(order.shape[-1])[order]


@implements("E07.02", "M13.37")
def invariance_defect(f: Callable, x: Float[ArrayLike, "..."], permutations: Int[ArrayLike, "..."]) -> Array:
    r"""$\max_\pi\|f(PX)-f(X)\|$ over one or several `permutations` (rows); zero if the order of `x` does not matter.

    Where $f$ gives several arrays, the one that is farthest off counts.
    """
    x, permutations = _set(f, x, permutations)
    plain = f(x)
    return worst(lambda p: farthest(f(x[p]), plain), permutations)


@implements("E07.03", "M13.37")
def equivariance_defect(f: Callable, x: Float[ArrayLike, "..."], permutations: Int[ArrayLike, "..."]) -> Array:
    r"""$\max_\pi\|P^\top f(PX)-f(X)\|$ over one or several `permutations` (rows); zero if the outputs move with `x`.

    $f$ maps the $M$ rows of `x` to $M$ rows (or numbers). Where it gives several arrays, the farthest off counts.
    """
    x, permutations = _set(f, x, permutations)
    plain = f(x)
    one_for_each(plain, x.shape[0], "rows of x")
    return worst(lambda p: farthest(moved_back(f(x[p]), p), plain), permutations)


@implements("E07.02")
def generators(size: int) -> Array:
    r"""The exchange of the first two and the cycle $i\mapsto i+1$, as rows: all other permutations are made of these.

    A function that is invariant (equivariant) under both for every $X$ is so under all $M!$.
    """
    size = whole("size", size, 2)
    exchange = np.arange(size)
    exchange[:2] = 1, 0
    return jnp.asarray(np.stack([exchange, np.roll(np.arange(size), -1)]))


@implements("E07.02")
def all_permutations(size: int) -> Array:
    """All permutations as rows (size!, size), in lexicographic order; at most 8 elements."""
    return jnp.asarray(list(orders(range(whole("size", size, 1, 8)))))


def random_permutations(size: int, count: int, *, key: PRNGKeyArray) -> Int[Array, "count size"]:
    """`count` permutations drawn evenly, as rows (count, size)."""
    size, count = whole("size", size), whole("count", count)
    return jax.vmap(lambda k: jax.random.permutation(k, size))(jax.random.split(key, count))


def as_permutations(permutations, size: int):
    """`permutations` as an array (size,) or (p, size) whose rows are permutations of 0..size-1."""
    out = labels("permutations", permutations, size, str(size) if np.ndim(permutations) == 1 else f"p {size}")
    if concrete(permutations) and not np.array_equal(
        np.sort(np.asarray(permutations), axis=-1), np.broadcast_to(np.arange(size), out.shape)
    ):
        raise ValueError(f"permutations must hold each of 0 to {size - 1} once in every row.")
    return out


def worst(defect: Callable, permutations):
    """The largest `defect` of a permutation; NaN if one is."""
    return jnp.max(jax.vmap(defect)(jnp.atleast_2d(permutations)))


def farthest(outputs, others):
    """The largest Euclidean distance between two arrays of the same place."""
    distances = jax.tree.map(lambda a, b: jnp.linalg.norm(jnp.ravel(a - b)), outputs, others)
    return jnp.max(jnp.stack(jax.tree.leaves(distances)))


def moved_back(outputs, permutation):
    r"""$P^\top$ times each array of `outputs`."""
    return jax.tree.map(lambda out: out[jnp.argsort(permutation)], outputs)


def one_for_each(outputs, size: int, of: str):
    """Refuse `outputs` that do not have one row for each element."""
    for out in jax.tree.leaves(outputs):
        if jnp.ndim(out) == 0 or out.shape[0] != size:
            raise ValueError(f"f must give one output for each of the {size} {of}, it gives {jnp.shape(out)}.")


def _set(f, x, permutations):
    if not callable(f):
        raise TypeError(f"f must be a function of a set, got {f!r}.")
    x = real("x", x, finite=False)
    if x.ndim == 0:
        raise ValueError("x must hold the elements of a set along its first axis, got a number.")
    return x, as_permutations(permutations, x.shape[0])
