"""Images resized, axis by axis: each new entry is a weighted sum of old ones, with weights known when tracing."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np


def coordinates(mode, length, size, scale=None, roi=(0.0, 1.0), dtype=np.float64):
    """Where the `size` new entries of an axis lie among its `length` old ones, in ONNX's words for the ways to say so.

    `scale` is how much longer the axis becomes, `size / length` if not given; `roi` is the part of the axis that
    "tf_crop_and_resize" looks at. PyTorch's `align_corners=False` is "half_pixel", and "asymmetric" for nearest.
    """
    x = np.arange(size, dtype=dtype)
    scale = dtype(size / length if scale is None else scale)
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and size > 1):
        return (x + dtype(0.5)) / scale - dtype(0.5)
    if mode == "pytorch_half_pixel":
        return np.zeros_like(x)
    if mode == "half_pixel_symmetric":  # centred, although the size had to be rounded
        centre = dtype(length / 2 * (1 - size / (float(scale) * length)))
        return centre + (x + dtype(0.5)) / scale - dtype(0.5)
    if mode == "align_corners":  # of whole pixels, as PyTorch and onnxruntime have it; one of ONNX's own tests has not
        return x * dtype((length - 1) / (size - 1)) if size > 1 else np.zeros_like(x)
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_half_pixel_for_nn":
        return (x + dtype(0.5)) / scale
    if mode == "tf_crop_and_resize":
        start, end = roi
        if size == 1:
            return np.full(1, 0.5 * (start + end) * (length - 1), dtype)
        return dtype(start * (length - 1)) + x * dtype((end - start) * (length - 1) / (size - 1))
    raise ValueError(f"the coordinates {mode!r} are not known")


def nearest(x, axis, at, rounding="floor"):
    """The entries of `x` along an axis that are nearest to the coordinates `at`."""
    length = x.shape[axis]
    rounded = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda a: np.ceil(a - a.dtype.type(0.5)),
        "round_prefer_ceil": lambda a: np.floor(a + a.dtype.type(0.5)),
    }[rounding](np.asarray(at))
    rows = np.clip(rounded, 0, length - 1).astype(np.int32)
    factor = len(rows) // length
    if len(rows) == factor * length and np.array_equal(rows, np.repeat(np.arange(length), factor)):
        return jnp.repeat(x, factor, axis)  # whose derivative is a sum instead of a scatter
    return jnp.take(x, rows, axis=axis)


def linear(x, axis, at, stretch=1.0, outside=False):
    """The entries of `x` along an axis at the coordinates `at`, with the hat as the weight.

    `stretch` widens the hat (against aliases in smaller images); `outside` leaves weights outside the axis out, and the
    others then sum to 1; if it is false the entry at the border stands for those beyond.
    """
    return _weighted(x, axis, at, lambda d: np.maximum(0, 1 - np.abs(d)), 1, stretch, outside)


def cubic(x, axis, at, a=-0.75, stretch=1.0, outside=False):
    """Like `linear`, with Keys' cubic of the coefficient `a` as the weight."""

    def weight(d):
        d = np.abs(d)
        near = ((a + 2) * d - (a + 3)) * d**2 + 1
        far = a * (((d - 5) * d + 8) * d - 4)
        return np.where(d <= 1, near, np.where(d < 2, far, 0))

    return _weighted(x, axis, at, weight, 2, stretch, outside)


def _weighted(x, axis, at, weight, reach, stretch, outside):
    length = x.shape[axis]
    at = np.asarray(at, np.float64)
    reach = reach * stretch
    first = np.floor(at - reach).astype(int) + 1
    rows = first[:, None] + np.arange(int(np.ceil(2 * reach)) + (stretch > 1))
    weights = weight((rows - at[:, None]) / stretch)
    if outside:
        weights = weights * ((rows >= 0) & (rows < length))
    if outside or stretch > 1:
        weights = weights / weights.sum(1, keepdims=True)
    rows = np.clip(rows, 0, length - 1)
    if rows.shape[1] > 4:  # many terms: one product
        matrix = np.zeros((len(at), length))
        np.add.at(matrix, (np.arange(len(at))[:, None], rows), weights)
        return jnp.moveaxis(jnp.tensordot(x, matrix.astype(x.dtype), ([axis], [1])), -1, axis)
    shape = [1] * x.ndim
    shape[axis] = len(at)
    terms = zip(rows.T, weights.T, strict=True)
    return sum(jnp.take(x, row, axis=axis) * w.reshape(shape).astype(x.dtype) for row, w in terms)
