"""Normalisation: by statistics of channels, or by those of each example over groups of them or over the last axes."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from corollary._engine.operators.convolution import per_channel

EXAMPLES = "examples"  # the axis of a batch that a network is mapped over, where examples see each other


def batch_norm(x, mean, variance, scale=None, bias=None, eps=1e-5):
    """Normalisation of each channel by statistics that were stored in training."""
    factor = lax.rsqrt(variance + eps)
    factor = factor if scale is None else factor * scale
    y = (x - per_channel(mean, x.ndim)) * per_channel(factor, x.ndim)
    return y if bias is None else y + per_channel(bias, x.ndim)


def batch_statistics(x, axes):
    """Mean and variance over `axes`, and over all examples of the axis `EXAMPLES` that the program is mapped over."""
    mean = lax.pmean(jnp.mean(x, axes, keepdims=True), EXAMPLES)
    variance = lax.pmean(jnp.mean(jnp.square(x - mean), axes), EXAMPLES)
    return jnp.squeeze(mean, axes), variance


def group_norm(x, groups, scale=None, bias=None, eps=1e-5):
    """Each example, in each group of neighbouring channels, with mean 0 and variance 1; then a scale per channel."""
    parts = x.reshape(x.shape[0], groups, -1)
    y = standardised(parts, -1, eps)[0].reshape(x.shape)
    y = y if scale is None else y * per_channel(scale, x.ndim)
    return y if bias is None else y + per_channel(bias, x.ndim)


def instance_norm(x, scale=None, bias=None, eps=1e-5):
    """Group normalisation in which each channel is a group."""
    return group_norm(x, x.shape[1], scale, bias, eps)


def layer_norm(x, axes, scale=None, bias=None, eps=1e-5):
    """Mean 0 and variance 1 over `axes`; also that mean, and the inverse of that deviation, with axes of length 1."""
    y, mean, inverse = standardised(x, axes, eps)
    y = y if scale is None else y * scale
    return y if bias is None else y + bias, mean, inverse


def rms_norm(x, axes, scale=None, eps=1e-5):
    """The entries over their root mean square over `axes`."""
    y = x * lax.rsqrt(jnp.mean(jnp.square(x), axes, keepdims=True) + eps)
    return y if scale is None else y * scale


def standardised(x, axes, eps):
    """`x` less its mean, over its deviation; the mean; and one over the deviation."""
    mean = jnp.mean(x, axes, keepdims=True)
    centred = x - mean
    inverse = lax.rsqrt(jnp.mean(jnp.square(centred), axes, keepdims=True) + eps)
    return centred * inverse, mean, inverse
