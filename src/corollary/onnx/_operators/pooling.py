"""Maxima, means and norms over windows, and over everything."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from corollary._engine.operators import pooling
from corollary.onnx._operators.windows import rounded_up, windows
from corollary.onnx._table import operator


def _windows(node, x):
    """The windows with and without those that rounding up adds."""
    found = windows(node, x.shape[2:], node["kernel_shape"])
    return rounded_up(found, x.shape[2:]) if node["ceil_mode"] else found, found


@operator("MaxPool")
def max_pool(node, x):
    found, _ = _windows(node, x)
    if len(node.outputs) == 1:
        return pooling.max_pool(x, *found)
    y, place = pooling.max_pool_with_indices(x, *found)
    space = x.shape[2:]
    if node["storage_order"]:  # column by column
        place = np.ravel_multi_index(np.unravel_index(np.arange(math.prod(space)), space)[::-1], space[::-1])[place]
    channel = np.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *(1 for _ in space))
    return y, jnp.asarray(place + channel * math.prod(space))


@operator("AveragePool")
def average_pool(node, x):
    found, given = _windows(node, x)
    return pooling.average_pool(x, *found, counted=given.padding if node["count_include_pad"] else None)


@operator("LpPool")
def lp_pool(node, x):
    found, _ = _windows(node, x)
    return pooling.lp_pool(x, node["p"], *found)


def _space(x) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@operator("GlobalAveragePool")
def global_average_pool(node, x):
    return jnp.mean(x, _space(x), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(node, x):
    return pooling.adaptive_max_pool(x, (1,) * (x.ndim - 2))[0]


@operator("GlobalLpPool")
def global_lp_pool(node, x):
    return pooling.root(jnp.sum(jnp.abs(x) ** node["p"], _space(x), keepdims=True), node["p"])
