r"""Pooling: what is kept of a window, in any number of dimensions.

The same as `equinox.nn.MaxPool2d` and its relatives, whose stride is 1 unless it is given.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import one_of, real
from corollary.catalog import implements
from corollary.nets.convolutional._arguments import per_axis


@implements("E04.15", "B10.18")
def max_pool(x: Float[ArrayLike, "..."], window: int, *, stride: int | None = None) -> Float[Array, "..."]:
    r"""$I'[i]=\max\{I[si+k]:0\le k<r\}$ over windows of $r$ entries along the last axes.

    `window` is a number for an image of shape (channels, height, width) and the like, whose first axis is kept apart,
    or one number for each axis of space. The stride $s$ is the window unless given. The gradient goes to the greatest
    entry; of equal ones, to the first.
    """
    x, window, stride = _windows(x, window, stride)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, stride, "VALID")


@implements("B10.18")
def mean_pool(x: Float[ArrayLike, "..."], window: int, *, stride: int | None = None) -> Float[Array, "..."]:
    r"""The mean of every window: a convolution with the constant kernel $1/r^d$, at the stride of the window.

    Arguments as in `max_pool`.
    """
    x, window, stride = _windows(x, window, stride)
    total = jax.lax.reduce_window(x, 0.0, jax.lax.add, window, stride, "VALID")
    return total / jnp.prod(jnp.asarray(window)).astype(x.dtype)


@implements("B10.02")
def global_pool(x: Float[ArrayLike, "..."], kind: str = "max") -> Float[Array, "..."]:
    """The greatest entry, or the mean, of every channel of an image of shape (channels, *size)."""
    x = real("x", x, finite=False)
    one_of("kind", kind, ("max", "mean"))
    if x.ndim < 2 or x.size == 0:
        raise ValueError(f"x must be an image of shape (channels, *size) and not empty, got {x.shape}.")
    axes = tuple(range(1, x.ndim))
    return x.max(axes) if kind == "max" else x.mean(axes)


def _windows(x, window, stride):
    """Window and stride for every axis of the array, 1 where nothing is pooled."""
    x = real("x", x, finite=False)
    if x.ndim == 0 or x.size == 0:
        raise ValueError(f"x must be an array with axes to pool over and not empty, got shape {x.shape}.")
    window = per_axis("window", window, None if isinstance(window, tuple | list) else max(x.ndim - 1, 1))
    if len(window) > x.ndim:
        raise ValueError(f"window must have at most the {x.ndim} axes of x, got {window}.")
    stride = window if stride is None else per_axis("stride", stride, len(window))
    if any(n < r for n, r in zip(x.shape[-len(window) :], window, strict=True)):
        raise ValueError(f"window must be no larger than x, got {window} for shape {x.shape}.")
    apart = (1,) * (x.ndim - len(window))
    return x, apart + window, apart + stride
