"""Normalisation."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from corollary._engine.operators import normalisation
from corollary._engine.operators.pooling import root
from corollary.onnx._table import operator


@operator("BatchNormalization")
def batch_normalization(node, x, scale, bias, mean, variance):
    """By stored statistics; before version 9 `spatial=0` has them per entry instead of per channel."""
    training = node["training_mode"] or (node.version < 7 and not node["is_test"])
    if training or len([name for name in node.outputs if name]) > 1:
        raise node.refuse("in training mode: export the network in inference mode")
    if node["spatial"] == 0:
        return (x - mean) * lax.rsqrt(variance + node["epsilon"]) * scale + bias
    return normalisation.batch_norm(x, mean, variance, scale, bias, node["epsilon"])


def by_the_batch(node, x, scale, bias, *stored):
    """Batch normalisation by the statistics of all examples that a graph is mapped over, as it is in training."""
    axes = (0,) if node["spatial"] == 0 else (0, *range(2, x.ndim))
    return batch_normalization(node, x, scale, bias, *normalisation.batch_statistics(x, axes))


@operator("InstanceNormalization")
def instance_normalization(node, x, scale, bias):
    return normalisation.instance_norm(x, scale, bias, node["epsilon"])


@operator("GroupNormalization")
def group_normalization_by_groups(node, x, scale, bias):
    """As it was before version 21: one scale and one bias per group."""
    each = x.shape[1] // node["num_groups"]
    return group_normalization(node, x, jnp.repeat(scale, each), jnp.repeat(bias, each))


@operator("GroupNormalization", since=21)
def group_normalization(node, x, scale, bias):
    return normalisation.group_norm(x, node["num_groups"], scale, bias, node["epsilon"])


def _from(axis, x) -> tuple[int, ...]:
    return tuple(range(axis % x.ndim, x.ndim))


@operator("LayerNormalization")
def layer_normalization(node, x, scale, bias=None):
    return normalisation.layer_norm(x, _from(node["axis"], x), scale, bias, node["epsilon"])


@operator("RMSNormalization")
def rms_normalization(node, x, scale):
    return normalisation.rms_norm(x, _from(node["axis"], x), scale, node["epsilon"])


@operator("LpNormalization")
def lp_normalization(node, x):
    """The entries over their norm along an axis; zeros stay zeros."""
    norm = root(jnp.sum(jnp.abs(x) ** node["p"], node["axis"], keepdims=True), node["p"])
    return x / jnp.where(norm == 0, 1, norm)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(node, x):
    """Mean 0 and variance 1 over `axes`, by default those of the examples and of space."""
    axes = tuple(node["axes"] or (0, 2, 3))
    centred = x - jnp.mean(x, axes, keepdims=True)
    return centred / (root(jnp.mean(jnp.square(centred), axes, keepdims=True), 2) + 1e-9)


@operator("LRN")
def local_response_normalization(node, x):
    """The entries over a power of the mean square of the channels around theirs."""
    size = node["size"]
    around = lax.reduce_window(
        jnp.square(x),
        np.zeros((), x.dtype),  # known while tracing, or there is no derivative
        lax.add,
        (1, size, *(1 for _ in x.shape[2:])),
        (1,) * x.ndim,
        [(0, 0), ((size - 1) // 2, size // 2), *((0, 0) for _ in x.shape[2:])],
    )
    return x / (node["bias"] + node["alpha"] / size * around) ** node["beta"]
