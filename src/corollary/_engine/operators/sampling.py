"""Images read at points that the network itself computes."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
from jax import lax


def grid_sample(x, grid, mode="linear", padding="zeros", align_corners=False):
    """The image `x` (batch, channels, *space) at the points `grid` (batch, *new space, dimensions).

    A point lists its last axis first, from -1 to 1: the middles of the outermost pixels with `align_corners`, and their
    outer edges without. `mode` is "nearest", "linear" or "cubic", `padding` is "zeros", "border" or "reflection".
    """
    space = x.shape[2:]
    points = jnp.moveaxis(grid[..., ::-1], -1, 1)
    at = [_from_unit(points[:, k], length, align_corners) for k, length in enumerate(space)]
    if mode == "cubic":  # the pixels are continued, not the points
        return _gathered(x, [_cubic(a) for a in at], _continuation(padding, space, align_corners))
    if padding != "zeros":
        into = _continuation(padding, space, align_corners)
        at = [into(k, a)[0] for k, a in enumerate(at)]
    taps = _nearest if mode == "nearest" else _linear
    return _gathered(x, [taps(a) for a in at], _continuation("zeros", space, align_corners))


def sample(x, at):
    """The image `x` (batch, channels, *space) at the pixel coordinates `at`, one array (batch, *points) per axis.

    Between pixels it is linear, outside it is zero.
    """
    return _gathered(x, [_linear(a) for a in at], _continuation("zeros", x.shape[2:], True))


def affine_grid(theta, space, align_corners=False):
    """The points of an image of the shape `space` under the maps `theta` (batch, dimensions, dimensions + 1)."""
    theta = jnp.asarray(theta)
    axes = []
    for length in space:
        if align_corners:
            axes.append(jnp.linspace(-1, 1, length, dtype=theta.dtype) if length > 1 else jnp.zeros(1, theta.dtype))
        else:
            axes.append((2 * jnp.arange(length, dtype=theta.dtype) + 1) / length - 1)
    points = jnp.meshgrid(*axes, indexing="ij")[::-1]
    points = jnp.stack([*points, jnp.ones_like(points[0])], -1)
    return jnp.einsum("...j,nij->n...i", points, theta)


def _from_unit(a, length, align_corners):
    return (a + 1) / 2 * (length - 1) if align_corners else ((a + 1) * length - 1) / 2


def _nearest(a):
    return [(jnp.round(lax.stop_gradient(a)), jnp.ones_like(a))]


def _linear(a):
    low = jnp.floor(lax.stop_gradient(a))
    return [(low, low + 1 - a), (low + 1, a - low)]


def _cubic(a):
    low = jnp.floor(lax.stop_gradient(a))
    c = -0.75  # as PyTorch and ONNX have it

    def weight(d):
        near = ((c + 2) * d - (c + 3)) * d**2 + 1
        far = c * (((d - 5) * d + 8) * d - 4)
        return near, far

    t = a - low
    return [
        (low - 1, weight(1 + t)[1]),
        (low, weight(t)[0]),
        (low + 1, weight(1 - t)[0]),
        (low + 2, weight(2 - t)[1]),
    ]


def _continuation(padding, space, align_corners):
    """What stands for a coordinate of an axis that may lie outside: one inside, and whether it counts."""

    def into(k, a):
        length = space[k]
        if padding == "reflection":
            a = _reflected(a, length, align_corners)
        counts = ((a >= 0) & (a <= length - 1)) if padding == "zeros" else True
        inside = (a > 0) & (a < length - 1)
        # the derivative of what was moved to the border is zero, also at the border itself
        return jnp.where(inside, a, lax.stop_gradient(jnp.clip(a, 0, length - 1))), counts

    return into


def _reflected(a, length, align_corners):
    low, high = (0.0, length - 1.0) if align_corners else (-0.5, length - 0.5)
    span = high - low
    if span == 0:
        return jnp.zeros_like(a)
    away = jnp.abs(a - low)
    flips = jnp.floor(lax.stop_gradient(away) / span)
    rest = away - flips * span
    return low + jnp.where(flips % 2 == 0, rest, span - rest)


def _gathered(x, taps, into):
    """The sum over all combinations of one tap per axis of the entry there, times the product of the weights."""
    space = x.shape[2:]
    flat = x.reshape(*x.shape[:2], math.prod(space))
    total = 0
    for combination in itertools.product(*taps):
        index, weight = 0, 1
        for k, (a, w) in enumerate(combination):
            place, counts = into(k, a)
            index = index * space[k] + place.astype(jnp.int32)
            weight = weight * jnp.where(counts, w, 0)
        total = total + _taken(flat, index) * weight[:, None].astype(x.dtype)
    return total


def _taken(flat, index):
    """(batch, channels, *points): entries of each example's channels."""
    return jax.vmap(lambda channels, places: channels[:, places])(flat, index)
