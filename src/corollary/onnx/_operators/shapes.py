"""Arrays cut, joined, padded and brought into other shapes."""

from __future__ import annotations

import numpy as np

from corollary.onnx._table import OnnxError, affordable, integers, namespace, operator, static


def setting(node, value, name):
    """The integers of an input, or of the attribute that it was in older versions; None if neither is given."""
    return node[name] if value is None else integers(value, f"the {name} of {node.op}")


@operator("Shape")
def shape(node, x):
    start, end = node["start"] or 0, node["end"]
    return np.asarray(x.shape[start:end], np.int64)


@operator("Size")
def size(node, x):
    return np.asarray(x.size, np.int64)


@operator("Reshape")
def reshape(node, x, shape=None):
    """To a shape in which 0 keeps an axis, unless `allowzero` is set, and -1 is what is left."""
    shape = setting(node, shape, "shape")
    if not node["allowzero"]:
        shape = [x.shape[i] if n == 0 else n for i, n in enumerate(shape)]
    return x.reshape(shape)


@operator("Flatten")
def flatten(node, x):
    axis = node["axis"] + (x.ndim if node["axis"] < 0 else 0)
    return x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))


@operator("Transpose")
def transpose(node, x):
    return x.transpose(node["perm"] or range(x.ndim)[::-1])


@operator("Squeeze")
def squeeze(node, x, axes=None):
    axes = setting(node, axes, "axes")
    axes = [i for i, n in enumerate(x.shape) if n == 1] if axes is None else axes
    return namespace(x).squeeze(x, tuple(axes))


@operator("Unsqueeze")
def unsqueeze(node, x, axes=None):
    return namespace(x).expand_dims(x, tuple(setting(node, axes, "axes")))


@operator("Concat")
def concat(node, *xs):
    return namespace(*xs).concatenate(xs, axis=1 if node["axis"] is None else node["axis"])


@operator("Split")
def split(node, x, lengths=None):
    """Into the given lengths, or into as many equal parts as there are outputs, a shorter one at the end."""
    axis = node["axis"]
    lengths = setting(node, lengths, "split")
    if lengths is None:
        parts = node["num_outputs"] or len(node.outputs)
        length = -(-x.shape[axis] // parts)
        lengths = [length] * (parts - 1) + [x.shape[axis] - length * (parts - 1)]
    if sum(lengths) != x.shape[axis]:
        raise OnnxError(f"Split into {lengths} does not fit an axis of length {x.shape[axis]}.")
    return tuple(namespace(x).split(x, np.cumsum(lengths)[:-1].tolist(), axis=axis))


@operator("Slice")
def slice_by_attributes(node, x):
    return cut(x, node["starts"], node["ends"], node["axes"], None)


@operator("Slice", since=10)
def slice_by_inputs(node, x, starts, ends, axes=None, steps=None):
    given = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    return cut(x, *(None if v is None else integers(v, f"the {k} of Slice") for k, v in given.items()))


def cut(x, starts, ends, axes, steps):
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    slices = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        slices[axis] = bounds(start, end, step, x.shape[axis])
    return x[tuple(slices)]


def bounds(start, end, step, length):
    """Python's slice for ONNX's: ends beyond the axis stand for its ends, whichever way it is read."""
    start, end = (i + length if i < 0 else i for i in (start, end))
    if step > 0:
        return slice(min(max(start, 0), length), min(max(end, 0), length), step)
    start, end = min(max(start, 0), length - 1), min(max(end, -1), length - 1)
    return slice(start, end if end >= 0 else None, step)


@operator("Pad")
def pad_by_attributes(node, x):
    return padded(node, x, node["pads"], node["value"])


@operator("Pad", since=11)
def pad_by_inputs(node, x, pads, value=None, axes=None):
    pads = integers(pads, "the pads of Pad")
    if axes is not None:
        axes = [axis % x.ndim for axis in integers(axes, "the axes of Pad")]
        full = [0] * (2 * x.ndim)
        for i, axis in enumerate(axes):
            full[axis], full[x.ndim + axis] = pads[i], pads[len(axes) + i]
        pads = full
    return padded(node, x, pads, 0 if value is None else value.reshape(()))


def padded(node, x, pads, value):
    """Padded at both ends of each axis; a negative amount cuts."""
    xp, pairs = namespace(x), list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    x = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, x.shape, strict=True))]
    pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    affordable(np.add(x.shape, np.sum(pairs, axis=1)) if pairs else (), "Pad")
    if node["mode"] == "constant":
        return xp.pad(x, pairs, constant_values=value)
    if node["mode"] not in ("reflect", "edge", "wrap"):
        raise node.refuse(f"with the mode {node['mode']!r}")
    return xp.pad(x, pairs, mode=node["mode"])


@operator("CenterCropPad")
def center_crop_pad(node, x, shape):
    """Cut or padded with zeros about the centre, to the given lengths of the axes."""
    lengths = integers(shape, "the shape of CenterCropPad")
    axes = node["axes"] if node["axes"] is not None else range(x.ndim)
    slices, pairs = [slice(None)] * x.ndim, [(0, 0)] * x.ndim
    for axis, length in zip(axes, lengths, strict=True):
        more = length - x.shape[axis]
        if more >= 0:
            pairs[axis] = (more // 2, more - more // 2)
        else:
            slices[axis] = slice(-more // 2, -more // 2 + length)
    affordable([max(n, a + n + b) for n, (a, b) in zip(x.shape, pairs, strict=True)], "CenterCropPad")
    return namespace(x).pad(x[tuple(slices)], pairs)


@operator("Tile")
def tile(node, x, repeats):
    repeats = integers(repeats, "the repeats of Tile")
    affordable([n * times for n, times in zip(x.shape, repeats, strict=True)], "Tile")
    return namespace(x).tile(x, repeats)


@operator("Expand")
def expand(node, x, shape):
    shape = np.broadcast_shapes(x.shape, tuple(integers(shape, "the shape of Expand")))
    return namespace(x).broadcast_to(x, affordable(shape, "Expand"))


@operator("ConstantOfShape")
def constant_of_shape(node, shape):
    value = np.zeros(1, np.float32) if node["value"] is None else node["value"]
    shape = affordable(integers(shape, "the shape of ConstantOfShape"), "ConstantOfShape")
    return np.full(shape, value.reshape(()), value.dtype)


@operator("Range")
def arange(node, start, limit, delta):
    start, limit, delta = (static(v, "the bounds of Range").reshape(()) for v in (start, limit, delta))
    if not delta or not all(map(np.isfinite, (start, limit, delta))):
        raise OnnxError(f"Range from {start} to {limit} in steps of {delta} has no end.")
    count = max(int(np.ceil((limit - start) / delta)), 0)
    affordable((count,), "Range")
    return (start + np.arange(count) * delta).astype(start.dtype)


@operator("SpaceToDepth")
def space_to_depth(node, x):
    """Blocks of pixels as channels; the block counts slower than the channel, or faster in the mode CRD."""
    n, c, h, w = x.shape
    b = node["blocksize"]
    order = (0, 1, 3, 5, 2, 4) if node["mode"] == "CRD" else (0, 3, 5, 1, 2, 4)
    return x.reshape(n, c, h // b, b, w // b, b).transpose(order).reshape(n, c * b * b, h // b, w // b)


@operator("DepthToSpace")
def depth_to_space(node, x):
    """Channels as blocks of pixels; the block counts slower than the channel, or faster in the mode CRD."""
    n, c, h, w = x.shape
    b = node["blocksize"]
    if node["mode"] == "CRD":
        blocks = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        blocks = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    return blocks.reshape(n, c // (b * b), h * b, w * b)
