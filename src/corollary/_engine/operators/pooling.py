"""Maxima, means and norms over windows; a maximum that is reached twice belongs to the first, as in PyTorch."""

from __future__ import annotations

import functools
import math

import jax.numpy as jnp
import numpy as np
from jax import lax


def max_pool(x, window, strides=None, padding=None, dilation=None):
    """The maximum over each window; padding counts for nothing."""
    n = len(window)
    strides, padding, dilation = _filled(n, strides, padding, dilation)
    # JAX has no derivative for maxima over windows with holes in them, or between them
    if max(dilation) > 1 or any(s > w for s, w in zip(strides, window, strict=True)):
        return max_pool_with_indices(x, window, strides, padding, dilation)[0]
    return lax.reduce_window(
        x, _lowest(x.dtype), lax.max, (1, 1, *window), (1, 1, *strides), [(0, 0), (0, 0), *padding]
    )


def max_pool_with_indices(x, window, strides=None, padding=None, dilation=None):
    """The maxima, and where in its flattened channel each was found, the first one of several."""
    n = len(window)
    strides, padding, dilation = _filled(n, strides, padding, dilation)
    space = x.shape[2:]
    place = jnp.broadcast_to(jnp.arange(math.prod(space), dtype=jnp.int32).reshape(space), x.shape)
    # last axis first: of the maxima in a window the first row's first column wins, which is the first in memory
    for axis in reversed(range(n)):
        x, place = _max_along(x, place, axis + 2, window[axis], strides[axis], padding[axis], dilation[axis])
    return x, place


def _max_along(x, place, axis, width, stride, pair, dilation):
    x = _padded(x, axis, pair, _lowest(x.dtype))
    place = _padded(place, axis, pair, np.int32(0))
    stop = x.shape[axis] - dilation * (width - 1)
    best = at = None
    for k in range(width):
        here = lax.slice_in_dim(x, k * dilation, k * dilation + stop, stride, axis)
        where = lax.slice_in_dim(place, k * dilation, k * dilation + stop, stride, axis)
        if best is None:
            best, at = here, where
        else:
            larger = (here > best) | jnp.isnan(here)
            best, at = jnp.where(larger, here, best), jnp.where(larger, where, at)
    return best, at


def average_pool(x, window, strides=None, padding=None, dilation=None, counted=None, divisor=None):
    """The sum over each window, over the number of its entries.

    Of the padding, zeros, only the part `counted` (pairs like those of `padding`, none by default) counts as entries;
    `divisor` is a number to divide by instead.
    """
    n = len(window)
    strides, padding, dilation = _filled(n, strides, padding, dilation)
    total = sum_pool(x, window, strides, padding, dilation)
    if divisor is not None:
        return total / divisor
    axes = zip(x.shape[2:], window, strides, padding, dilation, counted or ((0, 0),) * n, strict=True)
    counts = [_entries(*axis) for axis in axes]
    return total / functools.reduce(np.multiply.outer, counts).astype(x.dtype)


def sum_pool(x, window, strides=None, padding=None, dilation=None):
    """The sum over each window; padding is zero."""
    n = len(window)
    strides, padding, dilation = _filled(n, strides, padding, dilation)
    return lax.reduce_window(
        x,
        np.zeros((), x.dtype),
        lax.add,
        (1, 1, *window),
        (1, 1, *strides),
        [(0, 0), (0, 0), *padding],
        window_dilation=(1, 1, *dilation),
    )


def lp_pool(x, p, window, strides=None, padding=None, dilation=None):
    """The p-norm of each window."""
    return root(sum_pool(jnp.abs(x) ** p, window, strides, padding, dilation), p)


def root(total, p):
    """The p-th root of what is not negative, with the derivative 0 at 0."""
    positive = total > 0
    return jnp.where(positive, jnp.where(positive, total, 1) ** (1 / p), 0)


def adaptive_average_pool(x, sizes):
    """The means over `sizes` windows per axis, which cover the axis and overlap where its length is no multiple."""
    for axis, size in enumerate(sizes, start=2):
        length = x.shape[axis]
        if length % size == 0:
            x = x.reshape(*x.shape[:axis], size, length // size, *x.shape[axis + 1 :]).mean(axis + 1)
        else:
            weights = np.zeros((size, length))
            for row, (start, stop) in zip(weights, _bins(length, size), strict=True):
                row[start:stop] = 1 / (stop - start)
            x = jnp.moveaxis(jnp.tensordot(x, weights.astype(x.dtype), ([axis], [1])), -1, axis)
    return x


def adaptive_max_pool(x, sizes):
    """The maxima over the windows of `adaptive_average_pool`, and where in its flattened channel each was found."""
    space = x.shape[2:]
    place = jnp.broadcast_to(jnp.arange(math.prod(space), dtype=jnp.int32).reshape(space), x.shape)
    for axis in reversed(range(2, x.ndim)):
        bins = _bins(x.shape[axis], sizes[axis - 2])
        widest = max(stop - start for start, stop in bins)
        # a narrower window repeats its last entry, which changes neither the maximum nor which one is the first
        rows = np.array([[min(start + k, stop - 1) for k in range(widest)] for start, stop in bins])
        x, place = (jnp.take(a, rows, axis=axis) for a in (x, place))
        first = jnp.expand_dims(jnp.argmax(lax.stop_gradient(x), axis + 1), axis + 1)
        x, place = (jnp.take_along_axis(a, first, axis + 1).squeeze(axis + 1) for a in (x, place))
    return x, place


def _bins(length, size):
    return [(i * length // size, -(-(i + 1) * length // size)) for i in range(size)]


def _filled(n, strides, padding, dilation):
    return tuple(strides or (1,) * n), tuple(map(tuple, padding or ((0, 0),) * n)), tuple(dilation or (1,) * n)


def _lowest(dtype):
    if jnp.issubdtype(dtype, jnp.floating):
        return np.array(-np.inf, dtype)
    return np.array(jnp.iinfo(dtype).min, dtype)


def _padded(x, axis, pair, value):
    config = [(0, 0, 0)] * x.ndim
    config[axis] = (*pair, 0)
    return lax.pad(x, jnp.asarray(value, x.dtype), config)


def _entries(length, width, stride, pair, dilation, counted):
    """How many entries each window of one axis has."""
    inside = np.zeros(pair[0] + length + pair[1])
    inside[pair[0] - counted[0] : pair[0] + length + counted[1]] = 1
    starts = np.arange(0, len(inside) - dilation * (width - 1), stride)
    return sum(inside[starts + k * dilation] for k in range(width))
