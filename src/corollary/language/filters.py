"""The laws that sampling draws from: all tokens, the `k` most probable ones, or the smallest set of enough mass."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import real, whole, within
from corollary.catalog import implements
from corollary.language._laws import law


@implements("B10.53", "T15.16")
def top_k_filter(p: Float[ArrayLike, "..."], k: int) -> jax.Array:
    """`p` (last axis) with only its `k` largest entries, normalised again; of equal ones the first stay."""
    p = law("p", p)
    return _normalised(p, _largest(p, whole("k", k, 1, p.shape[-1])))


@implements("B10.54", "T15.17")
def top_p_filter(p: Float[ArrayLike, "..."], mass: Scalar) -> jax.Array:
    """`p` (last axis) on the smallest set of tokens whose probabilities sum to `mass` or more, and normalised again.

    The text asks that the sum exceed `mass`; the two differ only where it is met exactly. The most probable token
    always stays, so that a mass of 0 is greedy; a mass of 1 keeps everything.

    >>> print(top_p_filter([0.5, 0.3, 0.2], 0.7))
    [0.625 0.375 0.   ]
    """
    p, mass = law("p", p), within("mass", real("mass", mass, ""), 0.0, 1.0)
    return _normalised(p, _nucleus(p, mass))


@implements("T15.18")
def tempered(p: Float[ArrayLike, "..."], temperature: Scalar) -> jax.Array:
    r"""$p_i^{1/t}/\sum_jp_j^{1/t}$ (last axis): sharper below temperature 1, flatter above; zeros stay.

    >>> print(tempered([0.75, 0.25], 0.5).round(2))
    [0.9 0.1]
    """
    p = law("p", p)
    temperature = within("temperature", real("temperature", temperature, ""), 0.0, open="low")
    return jax.nn.softmax(jnp.log(p) / temperature)


def truncated(logits, k: int | None, mass) -> jax.Array:
    """Logits with minus infinity for the tokens that the two rules discard, one after the other."""
    kept = jnp.ones(logits.shape, bool) if k is None else _largest(logits, k)
    if mass is not None:
        kept &= _nucleus(jax.nn.softmax(jnp.where(kept, logits, -jnp.inf)), mass)
    return jnp.where(kept, logits, -jnp.inf)


def _largest(values, k):
    order = jnp.argsort(-values, axis=-1, stable=True)
    return _in_place(jnp.broadcast_to(jnp.arange(values.shape[-1]) < k, values.shape), order)


def _nucleus(p, mass):
    order = jnp.argsort(-p, axis=-1, stable=True)
    sums = jnp.cumsum(jnp.take_along_axis(p, order, -1), -1)
    before = jnp.concatenate([jnp.zeros_like(sums[..., :1]), sums[..., :-1]], -1)  # mass of the more probable tokens
    return _in_place((before < mass) | (jnp.arange(p.shape[-1]) == 0) | (mass >= 1), order)


def _in_place(kept, order):
    """What is kept in sorted order, where it was before."""
    return jnp.put_along_axis(jnp.zeros_like(kept), order, kept, -1, inplace=False)


def _normalised(p, kept):
    p = jnp.where(kept, p, 0.0)
    return p / jnp.sum(p, -1, keepdims=True)
