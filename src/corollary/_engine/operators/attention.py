"""Scaled dot product attention."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def attend(query, key, value, mask=None, *, causal=False, offset=0, scale=None, softcap=None):
    """The values (..., heads, keys, features) averaged by the softmax of the scores of `query`.

    Queries are (..., heads, queries, features). Heads of keys and values are repeated where there are fewer of them
    than of queries. `mask` meets the scores (..., heads, queries, keys): booleans say which count, numbers are added.
    `causal` lets query i see the keys up to i + `offset`. A query that sees no key gets zeros.
    """
    key, value = (_repeated(a, query.shape[-3]) if a.ndim > 2 else a for a in (key, value))
    found = masked(scores(query, key, scale, softcap), mask, causal, offset)
    sees_one = mask is None and (not causal or offset >= 0)
    return (jax.nn.softmax(found) if sees_one else probabilities(found)) @ value


def scores(query, key, scale=None, softcap=None):
    """Inner products of queries and keys times `scale`, 1/√features if that is none, bent to less than `softcap`."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    found = (query * scale) @ key.swapaxes(-1, -2)
    return found if softcap is None else softcap * jnp.tanh(found / softcap)


def masked(found, mask=None, causal=False, offset=0):
    """The scores, -∞ where a mask of booleans says no or the key comes later than the query, plus a mask of numbers."""
    if mask is not None:
        mask = jnp.asarray(mask)
        found = jnp.where(mask, found, -jnp.inf) if mask.dtype == bool else found + mask
    if causal:
        queries, keys = found.shape[-2:]
        found = jnp.where(np.arange(keys) <= np.arange(queries)[:, None] + offset, found, -jnp.inf)
    return found


def probabilities(found):
    """The softmax over the last axis; zeros where every score is -∞."""
    largest = lax.stop_gradient(jnp.max(found, -1, keepdims=True))
    weights = jnp.exp(found - jnp.where(jnp.isfinite(largest), largest, 0))
    total = jnp.sum(weights, -1, keepdims=True)
    return weights / jnp.where(total == 0, 1, total)


def _repeated(a, heads):
    return a if a.shape[-3] in (1, heads) else jnp.repeat(a, heads // a.shape[-3], axis=-3)
