"""Entries taken and put by their indices, sorted, and marked."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from corollary.onnx._table import OnnxError, affordable, integers, namespace, operator, static


def inside(indices, length, what):
    """Indices counted from the beginning of an axis, seen to be inside where they are known."""
    if isinstance(indices, np.ndarray):
        if indices.size and (indices.min() < -length or indices.max() >= length):
            raise OnnxError(f"{what} has indices outside its axis of length {length}.")
        return np.where(indices < 0, indices + length, indices)
    return jnp.where(indices < 0, indices + length, indices)


@operator("Gather")
def gather(node, x, indices):
    indices = inside(indices, x.shape[node["axis"]], "Gather")
    return namespace(x, indices).take(x, indices, axis=node["axis"])


@operator("GatherElements")
def gather_elements(node, x, indices):
    axis = node["axis"] % x.ndim
    return x[positions(inside(indices, x.shape[axis], "GatherElements"), axis)]


def positions(indices, axis):
    """The index of every entry of an array like `indices`, where along `axis` they say where it is."""
    grid = np.indices(indices.shape, sparse=True)
    return tuple(indices if i == axis else each for i, each in enumerate(grid))


@operator("GatherND")
def gather_nd(node, x, indices):
    """Slices at the positions in the last axis of the indices, for each of the leading `batch_dims` axes."""
    batch = node["batch_dims"] or 0
    return x[nd_positions(x, indices, batch)]


def nd_positions(x, indices, batch=0):
    depth = indices.shape[-1]
    index = tuple(inside(indices[..., i], x.shape[batch + i], "an operator ND") for i in range(depth))
    grid = np.indices(indices.shape[:batch], sparse=True)
    return tuple(g.reshape(g.shape + (1,) * (indices.ndim - 1 - batch)) for g in grid) + index


@operator("Scatter", "ScatterElements")
def scatter_elements(node, x, indices, updates):
    axis = node["axis"] % x.ndim
    place = positions(inside(indices, x.shape[axis], node.op), axis)
    return put(node, x, place, updates)


@operator("ScatterND")
def scatter_nd(node, x, indices, updates):
    return put(node, x, nd_positions(x, indices), updates)


def put(node, x, place, updates):
    """The array with the updates put, added, multiplied, … in at their places."""
    known = all(isinstance(each, np.ndarray) for each in (x, updates, *place))
    how = node["reduction"] or "none"
    if known and how == "none":
        result = x.copy()
        result[place] = updates
        return result
    at = jnp.asarray(x).at[place]
    methods = {"none": at.set, "add": at.add, "mul": at.multiply, "max": at.max, "min": at.min}
    if how not in methods:
        raise node.refuse(f"with the reduction {how!r}")
    return methods[how](updates)


@operator("OneHot")
def one_hot(node, indices, depth, values):
    """The second of `values` at each index along a new axis, the first elsewhere."""
    (depth,) = integers(depth, "the depth of OneHot")
    affordable((*indices.shape, depth), "OneHot")
    xp, axis = namespace(indices, values), node["axis"]
    axis = axis + indices.ndim + 1 if axis < 0 else axis
    indices = xp.expand_dims(xp.where(indices < 0, indices + depth, indices), axis)
    grid = np.arange(depth).reshape(-1, *(1 for _ in range(indices.ndim - 1 - axis)))
    return xp.where(indices == grid, values[1], values[0])


@operator("NonZero")
def non_zero(node, x):
    return np.stack(np.nonzero(static(x, "the input of NonZero"))).astype(np.int64)


@operator("Compress")
def compress(node, x, condition):
    keep = np.flatnonzero(static(condition, "the condition of Compress"))
    axis = node["axis"]
    return namespace(x).take(x.reshape(-1) if axis is None else x, keep, axis=axis or 0)


@operator("TopK")
def top_k_by_attribute(node, x):
    return top_k(node, x, np.asarray(node["k"]))


@operator("TopK", since=10)
def top_k(node, x, k):
    """The largest (smallest) entries along an axis in their order, and where they stood; of equal ones the first."""
    (k,) = integers(k, "the number of TopK")
    xp, axis = namespace(x), node["axis"] % x.ndim
    descending = node["largest"] is None or node["largest"]
    if xp is jnp:
        order = jnp.argsort(x, axis=axis, stable=True, descending=bool(descending))
    else:
        # from the end, so that equal entries keep their order when it is turned round
        turned = np.flip(x, axis) if descending else x
        order = np.argsort(turned, axis=axis, stable=True)
        order = np.flip(x.shape[axis] - 1 - order, axis) if descending else order
    order = xp.take(order, np.arange(k), axis=axis)
    return xp.take_along_axis(x, order, axis=axis), order


@operator("Trilu")
def triangle(node, x, k=None):
    k = 0 if k is None else int(static(k, "the diagonal of Trilu").reshape(()))
    xp = namespace(x)
    return xp.triu(x, k) if node["upper"] else xp.tril(x, k)


@operator("EyeLike")
def eye_like(node, x):
    from onnx import helper

    dtype = x.dtype if node["dtype"] is None else helper.tensor_dtype_to_np_dtype(node["dtype"])
    return np.eye(*affordable(x.shape, "EyeLike"), k=node["k"], dtype=dtype)


@operator("ReverseSequence")
def reverse_sequence(node, x, lengths):
    """The first entries in time of each example in the opposite order, as many as its length says."""
    batch, time = node["batch_axis"], node["time_axis"]
    steps = np.arange(x.shape[time])
    turned = namespace(lengths).where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    turned = turned if batch < time else turned.T
    turned = turned.reshape(turned.shape + (1,) * (x.ndim - 2))
    return namespace(x, turned).take_along_axis(x, turned, axis=time)


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(node, x, indices):
    """Columns of the last axis."""
    x = x.reshape(1, -1) if x.ndim == 1 else x
    return namespace(x, indices).take(x, indices.reshape(-1), axis=-1)
