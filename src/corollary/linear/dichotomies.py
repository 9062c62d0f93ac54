r"""All the ways in which hyperplanes can divide given points: counted one by one, without any formula."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from math import comb

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from corollary._validate import whole
from corollary.catalog import implements
from corollary.linear._shapes import extended, features
from corollary.linear.max_margin import linearly_separable

# labellings tried at once: enough to keep the CPU busy, few enough to fit into memory
BATCH = 4096


@implements("E01.17")
def labelings(s: int) -> Float[Array, "_ _"]:
    """All of $\\{-1,+1\\}^s$, in the order of binary numbers with -1 for 0: (2^s, s)."""
    s = whole("s", s, 1, 20)
    return jnp.asarray(2.0 * ((np.arange(2**s)[:, None] >> np.arange(s)[::-1]) & 1) - 1)


@implements("E01.17")
def realisable(x: Float[ArrayLike, "n *d"], *, bias: bool = False) -> Bool[Array, "_"]:
    r"""For each of `labelings(s)`, whether some $w$ has $y_iw\cdot x_i>0$ for all $i$ (some $(w,b)$ with `bias`).

    Each is decided by itself, except that $-w$ does for $-y$ what $w$ does for $y$. Points are (s, n), $s\le20$.
    """
    x = _points(x, bias)
    if x.shape[0] > 20:
        raise ValueError(f"x must hold at most 20 points, since all 2^s labellings are tried, got {x.shape[0]}.")
    return _realisable(x, labelings(x.shape[0]).astype(x.dtype))


@implements("E01.17")
def count_dichotomies(x: Float[ArrayLike, "n *d"], *, bias: bool = False) -> Int[Array, ""]:
    r"""$\mathcal C(S,n)$: how many of the $2^s$ labellings of the points `x` (s, n) are linear."""
    return jnp.sum(realisable(x, bias=bias))


@implements("E01.18")
def in_general_position(x: Float[ArrayLike, "n *d"], *, bias: bool = False) -> Bool[Array, ""]:
    r"""Whether any $n$ of the points `x` (s, n), or all if there are fewer, are linearly independent.

    With `bias` the points are taken as $(x,1)$: no $n+1$ of them lie in a common hyperplane. Points of length one whose
    smallest singular value is below rounding count as dependent.
    """
    x = _points(x, bias)
    s, n = x.shape
    size = min(s, n)
    if comb(s, size) > 1_000_000:
        raise ValueError(f"x has too many subsets to look at: {comb(s, size)} of {size} points, at most a million.")
    subsets = np.array(list(combinations(range(s), size)))
    return _independent(x, jnp.asarray(subsets))


def _points(x, bias):
    x = features(x, {})
    return extended(x) if bias else x


@jax.jit
def _realisable(x, y):
    half = y[: y.shape[0] // 2]
    verdict = jax.lax.map(partial(linearly_separable, x, bias=False), half, batch_size=BATCH)
    return jnp.concatenate([verdict, verdict[::-1]])


@jax.jit
def _independent(x, subsets):
    length = jnp.linalg.norm(x, axis=1, keepdims=True)
    unit = x / jnp.where(length > 0, length, 1)
    least = jnp.linalg.svd(unit[subsets], compute_uv=False)[:, -1]
    return jnp.all(least > 16 * x.shape[1] * jnp.finfo(x.dtype).eps)
