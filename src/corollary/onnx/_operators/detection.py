"""Regions of images: pooled, and chosen among those that overlap."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from corollary.onnx._table import NotStatic, affordable, known, operator, static


@operator("RoiAlign")
def roi_align_unshifted(node, x, rois, batch):
    return _roi_align(node, x, rois, batch, shift=0.0)


@operator("RoiAlign", since=16)
def roi_align(node, x, rois, batch):
    return _roi_align(node, x, rois, batch, 0.5 if node["coordinate_transformation_mode"] == "half_pixel" else 0.0)


def _roi_align(node, x, rois, batch, shift):
    """Regions as images of one size, each pixel the mean (or maximum) over points inside it."""
    x, rois = jnp.asarray(x), rois * node["spatial_scale"] - shift
    out = node["output_height"], node["output_width"]
    affordable((*rois.shape[:1], x.shape[1], *(size * max(node["sampling_ratio"], 1) for size in out)), "RoiAlign")

    def one(roi, image, counts):
        left, top, right, bottom = roi
        taps = []
        for (start, end), size, n, length in zip(((top, bottom), (left, right)), out, counts, x.shape[2:], strict=True):
            extent = end - start if shift else jnp.maximum(end - start, 1.0)
            taps.append(_taps(start + (np.arange(size * n) + 0.5) / (size * n) * extent, length))
        # the four pixels around each point, times their weights
        corners = jnp.stack([wy[:, None] * wx * image[:, y][..., xs] for y, wy in taps[0] for xs, wx in taps[1]])
        corners = corners.reshape(4, -1, out[0], counts[0], out[1], counts[1])
        if node["mode"] == "max":
            return corners.max((0, 3, 5))
        return corners.sum(0).mean((2, 4))

    images = x[jnp.asarray(batch)]
    if node["sampling_ratio"] > 0:
        counts = (node["sampling_ratio"],) * 2
        return jax.vmap(lambda roi, image: one(roi, image, counts))(jnp.asarray(rois), images)
    if not known(rois):
        raise NotStatic(
            "RoiAlign without a sampling ratio has as many points as its regions ask for, so these must be constants."
        )
    made = []
    for roi, image in zip(np.asarray(rois), images, strict=True):
        spans = roi[3] - roi[1], roi[2] - roi[0]
        spans = spans if shift else [max(span, 1.0) for span in spans]
        made.append(
            one(jnp.asarray(roi), image, [max(int(np.ceil(s / size)), 1) for s, size in zip(spans, out, strict=True)])
        )
    return jnp.stack(made)


def _taps(at, length):
    """The two pixels around each coordinate with their weights; none if it lies more than a pixel outside."""
    counts = (at >= -1) & (at <= length)
    at = jnp.clip(at, 0, length - 1)
    low = jnp.minimum(jnp.floor(at), max(length - 2, 0)).astype(jnp.int32)
    part = at - low
    return [(low, jnp.where(counts, 1 - part, 0)), (jnp.minimum(low + 1, length - 1), jnp.where(counts, part, 0))]


@operator("MaxRoiPool")
def max_roi_pool(node, x, rois):
    """The maxima over a grid of whole pixels in each region, zero where a cell of it has none."""
    edges = jnp.floor(rois[:, 1:] * node["spatial_scale"] + 0.5)
    cells = []
    for axis, size in enumerate(node["pooled_shape"]):
        start, end = edges[:, 1 - axis], edges[:, 3 - axis]
        extent = jnp.maximum(end - start + 1, 1) / size
        pixel, k = np.arange(x.shape[2 + axis]), np.arange(size)[:, None]
        low = jnp.floor(k * extent[:, None, None]) + start[:, None, None]
        high = jnp.ceil((k + 1) * extent[:, None, None]) + start[:, None, None]
        cells.append((pixel >= low) & (pixel < high))  # regions, cells, pixels

    def one(image, rows, columns):
        found = jnp.max(jnp.where(columns[:, None, :], image[:, None], -jnp.inf), -1)  # channels, cells, rows
        found = jnp.max(jnp.where(rows[:, None], found[:, None], -jnp.inf), -1)
        return jnp.where(jnp.isfinite(found), found, 0)

    images = jnp.asarray(x)[jnp.asarray(rois)[:, 0].astype(jnp.int32)]
    return jax.vmap(one)(images, *cells)


@operator("NonMaxSuppression", since=10)
def non_max_suppression(node, boxes, scores, most=None, overlap=None, lowest=None):
    """The boxes with the largest scores, less those that overlap with one chosen before: (example, class, box)."""
    boxes, scores = static(boxes, "the boxes of NonMaxSuppression"), static(scores, "the scores of NonMaxSuppression")

    def number(value, default):
        return default if value is None else np.ravel(static(value, "the bounds of NonMaxSuppression"))[0]

    most, overlap, lowest = int(number(most, 0)), number(overlap, 0.0), number(lowest, -np.inf)
    corners = boxes
    if node["center_point_box"]:
        centre, half = boxes[..., :2], boxes[..., 2:] / 2
        corners = np.concatenate([centre - half, centre + half], -1)
    low = np.minimum(corners[..., :2], corners[..., 2:])
    high = np.maximum(corners[..., :2], corners[..., 2:])
    found = []
    for example, classes in enumerate(scores):
        for label, values in enumerate(classes):
            chosen: list[int] = []
            for box in np.argsort(-values, kind="stable"):
                if len(chosen) == most or values[box] <= lowest:
                    break
                if all(_overlap(low[example], high[example], box, other) <= overlap for other in chosen):
                    chosen.append(int(box))
            found += [(example, label, box) for box in chosen]
    return np.array(found, np.int64).reshape(-1, 3)


def _overlap(low, high, a, b):
    """The area of the intersection of two boxes over that of their union."""
    common = np.prod(np.maximum(np.minimum(high[a], high[b]) - np.maximum(low[a], low[b]), 0))
    return common / max(np.prod(high[a] - low[a]) + np.prod(high[b] - low[b]) - common, np.finfo(float).tiny)
