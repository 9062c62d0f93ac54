"""Images resized, and read at computed points."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from corollary._engine.operators import interpolation, sampling
from corollary.onnx._table import affordable, integers, operator, static


@operator("Upsample", since=7)
def upsample_by_attribute(node, x):
    return _scaled(node, x, node["scales"])


@operator("Upsample", since=9)
def upsample(node, x, scales):
    return _scaled(node, x, static(scales, "the scales of Upsample"))


@operator("Resize", since=10)
def resize_by_scales(node, x, scales):
    return _scaled(node, x, static(scales, "the scales of Resize"))


def _scaled(node, x, scales):
    """As it was before version 11: coordinates are divided by the scale, and the nearest one is the one before."""
    scales = [float(s) for s in np.ravel(scales)]
    affordable([math.floor(n * scale) for n, scale in zip(x.shape, scales, strict=False)], node.op)
    for axis, scale in enumerate(scales):
        size = math.floor(x.shape[axis] * scale)
        if node["mode"] == "nearest":
            at = interpolation.coordinates("asymmetric", x.shape[axis], size, scale, dtype=np.float32)
            x = interpolation.nearest(x, axis, at, "ceil" if scale < 1 and node.op == "Resize" else "floor")
        elif scale != 1:
            at = interpolation.coordinates("asymmetric", x.shape[axis], size, scale)
            x = interpolation.linear(x, axis, np.clip(at, 0, x.shape[axis] - 1))
    return x


@operator("Resize", since=11)
def resize(node, x, roi=None, scales=None, sizes=None):
    axes = [axis % x.ndim for axis in node["axes"] or range(x.ndim)]
    mode = node["coordinate_transformation_mode"]
    rois = [(0.0, 1.0)] * len(axes)
    if mode == "tf_crop_and_resize":
        ends = np.ravel(static(roi, "the region of Resize")).astype(float)
        rois = list(zip(ends[: len(axes)], ends[len(axes) :], strict=True))
    outside = np.zeros((1,) * x.ndim, bool)
    targets = _targets(node, x, axes, rois, scales, sizes)
    lengths = dict(zip(axes, (size for _, size in targets), strict=True))
    affordable([lengths.get(axis, n) for axis, n in enumerate(x.shape)], "Resize")
    for axis, part, (scale, size) in zip(axes, rois, targets, strict=True):
        length = x.shape[axis]
        if size == length and scale == 1 and mode != "tf_crop_and_resize":
            continue
        x, at = _resized(node, x, axis, scale, size, part)
        if mode == "tf_crop_and_resize":
            beyond = (at < 0) | (at > length - 1)
            outside = outside | beyond.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    return jnp.where(outside, node["extrapolation_value"], x).astype(x.dtype) if outside.any() else x


def _targets(node, x, axes, rois, scales, sizes):
    """The factor and the new length of each axis."""
    lengths = [x.shape[axis] for axis in axes]
    if sizes is None or np.size(static(sizes, "the sizes of Resize")) == 0:
        factors = [float(s) for s in np.ravel(static(scales, "the scales of Resize"))]
        found = zip(lengths, factors, rois, strict=True)
        return [(s, math.floor(length * (end - start) * s)) for length, s, (start, end) in found]
    sizes = integers(sizes, "the sizes of Resize")
    factors = [size / length for size, length in zip(sizes, lengths, strict=True)]
    policy = node["keep_aspect_ratio_policy"] or "stretch"
    if policy == "stretch":
        return list(zip(factors, sizes, strict=True))
    factor = min(factors) if policy == "not_larger" else max(factors)
    return [(factor, math.floor(factor * length + 0.5)) for length in lengths]


def _resized(node, x, axis, scale, size, part):
    """One axis with its new length, and where its entries came from."""
    length, mode = x.shape[axis], node["coordinate_transformation_mode"]
    if node["mode"] == "nearest":  # in single precision, as elsewhere: what is nearest hangs on roundings
        at = interpolation.coordinates(mode, length, size, scale, part, np.float32)
        return interpolation.nearest(x, axis, at, node["nearest_mode"]), at
    at = interpolation.coordinates(mode, length, size, scale, part)
    options = {"stretch": max(1.0, 1 / scale) if node["antialias"] else 1.0, "outside": bool(node["exclude_outside"])}
    if node["mode"] == "cubic":
        return interpolation.cubic(x, axis, at, node["cubic_coeff_a"], **options), at
    return interpolation.linear(x, axis, at, **options), at


@operator("GridSample")
def grid_sample(node, x, grid):
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(node["mode"], node["mode"])
    return sampling.grid_sample(
        jnp.asarray(x), jnp.asarray(grid), mode, node["padding_mode"], bool(node["align_corners"])
    )


@operator("AffineGrid")
def affine_grid(node, theta, size):
    size = affordable(integers(size, "the size of AffineGrid"), "AffineGrid")
    return sampling.affine_grid(theta, size[2:], bool(node["align_corners"]))
