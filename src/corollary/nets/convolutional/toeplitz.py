"""Convolutions as matrices: constant along diagonals, mostly zero, and with few different entries.

All are filled by their indices: no convolution is computed to make them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import one_of, real
from corollary.catalog import implements
from corollary.nets.convolutional._arguments import MODES, per_axis, plain_layer
from corollary.nets.convolutional.sizes import output_size


@implements("E04.11", "B10.06", "B10.66")
def toeplitz_matrix(h: Float[ArrayLike, "..."], size: int, mode: str = "full") -> Float[Array, "_ _"]:
    r"""The matrix $H$ with `convolve(f, h, mode)` $=Hf$, flattened, for signals of this size: $H_{ij}=h[i-j]$.

    In two and three dimensions its blocks, and theirs, are again constant along diagonals.
    """
    h = real("h", h)
    one_of("mode", mode, MODES)
    if h.ndim not in (1, 2, 3) or h.size == 0:
        raise ValueError(f"h must be a kernel with one to three axes and not empty, got shape {h.shape}.")
    size = per_axis("size", size, h.ndim)
    if mode in ("valid", "circular") and any(m > n for m, n in zip(h.shape, size, strict=True)):
        raise ValueError(f"size must be no smaller than the kernel {h.shape} in mode {mode!r}, got {size}.")
    taps = _joined([_taps(n, m, mode) for n, m in zip(size, h.shape, strict=True)], h.shape)
    return jnp.where(taps >= 0, h.ravel()[taps], 0)


@implements("B10.06")
def is_toeplitz(matrix: Float[ArrayLike, "m n"]) -> bool:
    """Whether every entry of a matrix equals its neighbour down the diagonal, exactly."""
    a = np.asarray(real("matrix", matrix, "m n"))
    return np.array_equal(a[1:, 1:], a[:-1, :-1])


@implements("M14.20", "E04.13")
def dense_matrix(layer: Callable, size: int) -> Float[Array, "_ _"]:
    r"""The matrix $W$ with `layer(x)` $=Wx+b$, flattened, for images of this size: the layer, fully connected.

    `layer` is an `equinox.nn.Conv` in one group, with zeros around the image.
    """
    layer = plain_layer(layer)
    size = per_axis("size", size, layer.num_spatial_dims)
    tables = []
    for n, m, s, p, d in zip(size, layer.kernel_size, layer.stride, layer.padding, layer.dilation, strict=True):
        count = output_size(n, m, stride=s, padding=p, dilation=d)
        tap, rest = np.divmod(np.arange(n) + p[0] - s * np.arange(count)[:, None], d)
        tables.append(np.where((rest == 0) & (tap >= 0) & (tap < m), tap, -1))
    taps = _joined(tables, layer.kernel_size)
    kernels = layer.weight.reshape(layer.out_channels, layer.in_channels, -1)
    blocks = jnp.where(taps >= 0, kernels[:, :, taps], 0)
    return blocks.transpose(0, 2, 1, 3).reshape(layer.out_channels * taps.shape[0], -1)


def _taps(n: int, m: int, mode: str) -> np.ndarray:
    """Which tap of the kernel joins output i with input j along one axis, -1 for none."""
    first, count = {
        "full": (0, n + m - 1),
        "same": ((m - 1) // 2, n),
        "valid": (m - 1, n - m + 1),
        "circular": (0, n),
    }[mode]
    tap = first + np.arange(count)[:, None] - np.arange(n)
    tap = tap % n if mode == "circular" else tap
    return np.where((tap >= 0) & (tap < m), tap, -1)


def _joined(tables, window) -> np.ndarray:
    """One table of taps for all axes, from those of every axis: flat outputs by flat inputs, -1 for none."""
    axes, flat, joined = len(tables), 0, True
    for axis, (table, m) in enumerate(zip(tables, window, strict=True)):
        shape = [1] * (2 * axes)
        shape[axis], shape[axes + axis] = table.shape
        table = table.reshape(shape)
        flat, joined = flat * m + table, joined & (table >= 0)
    return np.where(joined, flat, -1).reshape(math.prod(t.shape[0] for t in tables), -1)
