"""Attention, and positions as rotations."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from corollary._engine.operators.attention import masked, probabilities, scores
from corollary.onnx._table import operator


def _heads(x, heads):
    """(batch, heads, positions, features) of an array that may have its heads side by side."""
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def _seen(node, queries, keys, past, lengths):
    """Which keys each query may see by their positions alone, (batch or 1, 1, queries, keys); None if all."""
    offset = np.reshape(past, (1, 1, 1, 1))
    if lengths is not None:
        offset = jnp.reshape(lengths, (-1, 1, 1, 1)) - (queries if past == 0 else queries - past)
    key, query = np.arange(keys), np.arange(queries)[:, None] + offset
    left, right = node["left_window_size"], node["right_window_size"]
    rules = []
    if node["is_causal"]:
        rules.append(key <= query)
    if left is not None and left >= 0:
        rules.append(query - key <= left)
    if right is not None and right >= 0:
        rules.append(key - query <= right)
    if lengths is not None:
        rules.append(key < jnp.reshape(lengths, (-1, 1, 1, 1)))
    seen = None
    for rule in rules:
        seen = rule if seen is None else seen & rule
    return seen


def _widened(mask, keys):
    """A mask for fewer keys than there are hides the others."""
    missing = keys - mask.shape[-1]
    if missing <= 0:
        return mask
    hidden = False if mask.dtype == bool else -np.inf
    return jnp.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=hidden)


@operator("Attention")
def attention(node, query, key, value, mask=None, past_key=None, past_value=None, lengths=None):
    """Scaled dot product attention; the present keys and values are those of the past with these behind them."""
    flat = query.ndim == 3
    query = _heads(query, node["q_num_heads"])
    key, value = _heads(key, node["kv_num_heads"]), _heads(value, node["kv_num_heads"])
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        key, value = jnp.concatenate([past_key, key], 2), jnp.concatenate([past_value, value], 2)
    present = key, value
    if (each := query.shape[1] // key.shape[1]) > 1:
        key, value = jnp.repeat(key, each, 1), jnp.repeat(value, each, 1)

    raw = scores(query, key, node["scale"])
    cap = node["softcap"]
    capped = cap * jnp.tanh(raw / cap) if cap else raw
    biased = masked(capped, None if mask is None else _widened(mask, key.shape[2]))
    seen = _seen(node, query.shape[2], key.shape[2], past, lengths)
    biased = biased if seen is None else jnp.where(seen, biased, -jnp.inf)
    weights = probabilities(biased)
    y = weights @ value
    if flat:
        y = y.swapaxes(1, 2).reshape(y.shape[0], y.shape[2], -1)
    return y, *present, (raw, capped, biased, weights)[node["qk_matmul_output_mode"]]


@operator("RotaryEmbedding")
def rotary_embedding(node, x, cosines, sines, positions=None):
    """Pairs of features turned by an angle that grows with the position."""
    flat = x.ndim == 3
    heads = _heads(x, node["num_heads"])
    size = node["rotary_embedding_dim"] or heads.shape[-1]
    if positions is not None:
        cosines, sines = jnp.asarray(cosines)[positions], jnp.asarray(sines)[positions]
    cosines, sines = cosines[:, None], sines[:, None]  # the same for all heads
    turned, rest = heads[..., :size], heads[..., size:]
    if node["interleaved"]:
        a, b = turned[..., ::2], turned[..., 1::2]
    else:
        a, b = jnp.split(turned, 2, axis=-1)
    a, b = a * cosines - b * sines, a * sines + b * cosines
    turned = jnp.stack([a, b], -1).reshape(turned.shape) if node["interleaved"] else jnp.concatenate([a, b], -1)
    y = jnp.concatenate([turned, rest], -1)
    return y.swapaxes(1, 2).reshape(x.shape) if flat else y
