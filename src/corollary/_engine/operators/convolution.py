"""Convolutions as networks have them, cross-correlations in truth, their transposes, and the patches they look at."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax


def convolve(x, w, bias=None, strides=None, padding=None, dilation=None, groups=1):
    """The convolution of `x` (batch, channels in, *space) with `w` (channels out, channels in / groups, *window)."""
    n = x.ndim - 2
    x, w = alike(x, w)
    y = lax.conv_general_dilated(
        x,
        w,
        window_strides=tuple(strides or (1,) * n),
        padding=[tuple(pair) for pair in padding or ((0, 0),) * n],
        rhs_dilation=tuple(dilation or (1,) * n),
        feature_group_count=groups,
    )
    return y if bias is None else y + per_channel(bias, y.ndim)


def convolve_transposed(x, w, bias=None, strides=None, padding=None, dilation=None, groups=1, output_padding=None):
    """The transpose of `convolve` with respect to its input, with `w` (channels in, channels out / groups, *window).

    `padding` is what the transposed convolution pads, so that it crops here; `output_padding` adds to the far side.
    """
    n = x.ndim - 2
    strides, dilation = tuple(strides or (1,) * n), tuple(dilation or (1,) * n)
    output_padding = output_padding or (0,) * n
    window = w.shape[2:]
    x, w = alike(x, w)
    # each output is reached by the window turned around: channels in and out change places within their group
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    w = jnp.flip(w.reshape(-1, *w.shape[2:]), tuple(range(2, n + 2)))
    reach = [d * (k - 1) for d, k in zip(dilation, window, strict=True)]
    pairs = zip(reach, padding or ((0, 0),) * n, output_padding, strict=True)
    y = lax.conv_general_dilated(
        x,
        w,
        window_strides=(1,) * n,
        padding=[(r - low, r - high + more) for r, (low, high), more in pairs],
        lhs_dilation=strides,
        rhs_dilation=dilation,
        feature_group_count=groups,
    )
    return y if bias is None else y + per_channel(bias, y.ndim)


def unfold(x, window, strides=None, padding=None, dilation=None):
    """The patches of `x` as columns: (batch, channels · entries of a window, number of windows)."""
    n = x.ndim - 2
    patches = lax.conv_general_dilated_patches(
        x,
        tuple(window),
        tuple(strides or (1,) * n),
        [tuple(pair) for pair in padding or ((0, 0),) * n],
        rhs_dilation=tuple(dilation or (1,) * n),
    )
    return patches.reshape(*patches.shape[:2], -1)


def fold(columns, space, window, strides=None, padding=None, dilation=None):
    """The transpose of `unfold`: columns added up where they come from, in an image of the shape `space`."""
    shape = (columns.shape[0], columns.shape[1] // math.prod(window), *space)
    to_columns = jax.linear_transpose(
        lambda x: unfold(x, window, strides, padding, dilation), jax.ShapeDtypeStruct(shape, columns.dtype)
    )
    return to_columns(columns)[0]


def alike(x, w):
    """Both in the wider of their types, as products of arrays are, and convolutions are not by themselves."""
    dtype = jnp.result_type(x, w)
    return x.astype(dtype), w.astype(dtype)


def per_channel(a, ndim):
    """A vector with one entry per channel, ready to meet an array (batch, channels, *space)."""
    return jnp.reshape(a, (1, -1) + (1,) * (ndim - 2))
