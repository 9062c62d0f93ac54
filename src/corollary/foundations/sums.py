"""Exact laws of sums of independent variables, to hold the tail bounds against.

Every entry is a sum of products of probabilities, without a subtraction: the smallest tails are as accurate,
relatively, as the largest.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import real, within


def poisson_binomial(p: Float[ArrayLike, "n"]) -> Float[Array, "_"]:
    r"""The probabilities of $0,\dots,n$ for the sum of independent 0-1 variables with $P\{X_i=1\}=p_i$: (n + 1,)."""
    p = within("p", real("p", p, "n"), 0.0, 1.0)
    start = jnp.zeros(p.shape[0] + 1, p.dtype).at[0].set(1)

    def add(law, one):
        return (1 - one) * law + one * jnp.roll(law, 1).at[0].set(0), None

    return jax.lax.scan(add, start, p)[0]


def upper_tail(law: Float[ArrayLike, "... k"]) -> Float[Array, "..."]:
    r"""$P\{X\ge k\}$ for $k=0,\dots,n$ from the probabilities of $0,\dots,n$, summed from the far end."""
    law = within("law", real("law", law, "... k"), 0.0)
    return jnp.flip(jnp.cumsum(jnp.flip(law, -1), -1), -1)


def signed_sums(weights: Float[ArrayLike, "n"]) -> Float[Array, "_"]:
    r"""All $2^n$ values of $\sum_i\pm w_i$, each of probability $2^{-n}$, for $n\le24$ weights."""
    weights = real("weights", weights, "n")
    if weights.shape[0] > 24:
        raise ValueError(f"weights must hold at most 24 numbers, got {weights.shape[0]}: there are 2^n sums.")
    # every sum of the first half with every sum of the second: no (2^n, n) array of signs is needed
    half = weights.shape[0] // 2
    return (_all(weights[:half])[:, None] + _all(weights[half:])).ravel()


def _all(weights):
    bits = jnp.arange(2 ** weights.shape[0])[:, None] >> jnp.arange(weights.shape[0]) & 1
    return (2 * bits - 1).astype(weights.dtype) @ weights
