r"""Invariance and equivariance of functions of sets: how far a function is from them, over given permutations.

A permutation is an array $\pi$ of the numbers $0..M-1$; it takes $X$ to $PX$, whose row $i$ is row $\pi_i$ of $X$.
"""

from collections.abc import Callable
from itertools import permutations as orders

import jax
import jax.numpy as jnp
import numpy as np

from corollary._validate import concrete, labels, real, whole
from corollary.catalog import implements


@implements("E07.02")
def invariance_defect(f: Callable, x, permutations):
    r"""$\max_\pi\|f(PX)-f(X)\|$ over the rows of `permutations`; zero for all of them if $f$ is order-invariant."""
    x, permutations = _set(x, permutations)
    plain = f(x)
    return jnp.max(jax.vmap(lambda p: _norm(f(x[p]) - plain))(permutations))


@implements("E07.03")
def equivariance_defect(f: Callable, x, permutations):
    r"""$\max_\pi\|P^\top f(PX)-f(X)\|$ over the rows of `permutations`; zero if $f$ is equivariant.

    $f$ maps the $M$ rows of `x` to $M$ rows (or numbers).
    """
    x, permutations = _set(x, permutations)
    plain = f(x)
    if plain.ndim == 0 or plain.shape[0] != x.shape[0]:
        raise ValueError(f"f must give one output for each of the {x.shape[0]} rows of x, it gives {plain.shape}.")
    return jnp.max(jax.vmap(lambda p: _norm(f(x[p])[jnp.argsort(p)] - plain))(permutations))


@implements("E07.02")
def generators(size: int):
    r"""The exchange of the first two and the cycle $i\mapsto i+1$, as rows: all other permutations are made of these.

    A function that is invariant (equivariant) under both for every $X$ is so under all $M!$.
    """
    size = whole("size", size, 2)
    exchange = np.arange(size)
    exchange[:2] = 1, 0
    return jnp.asarray(np.stack([exchange, np.roll(np.arange(size), -1)]))


@implements("E07.02")
def all_permutations(size: int):
    """All permutations as rows (size!, size), in lexicographic order; at most 8 elements."""
    return jnp.asarray(list(orders(range(whole("size", size, 1, 8)))))


def random_permutations(key, size: int, count: int):
    """`count` permutations drawn evenly, as rows (count, size)."""
    size, count = whole("size", size), whole("count", count)
    return jax.vmap(lambda k: jax.random.permutation(k, size))(jax.random.split(key, count))


def as_permutations(permutations, size: int):
    """`permutations` as an array (p, size) whose rows are permutations of 0..size-1."""
    out = labels("permutations", permutations, size, f"p {size}")
    if concrete(permutations) and not np.array_equal(
        np.sort(np.asarray(permutations), axis=1), np.broadcast_to(np.arange(size), out.shape)
    ):
        raise ValueError(f"permutations must hold each of 0 to {size - 1} once in every row.")
    return out


def _set(x, permutations):
    x = real("x", x, finite=False)
    if x.ndim == 0:
        raise ValueError("x must hold the elements of a set along its first axis, got a number.")
    return x, as_permutations(permutations, x.shape[0])


def _norm(a):
    return jnp.linalg.norm(jnp.ravel(a))
