"""Operators that put entries elsewhere: shapes, order of axes, parts, joins, padding."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from corollary.network._aten.table import aten


@aten("clone", "contiguous", "alias", "lift_fresh_copy", "lift_fresh", "positive", "resolve_conj", "resolve_neg")
def identity(self):
    return self


@aten("detach")
def detach(self):
    return lax.stop_gradient(self)


@aten("view", "reshape", "_unsafe_view", "view_copy", "_reshape_alias")
def reshape(self, size=None, shape=None):
    return self.reshape(size if size is not None else shape)


@aten("view_as", "reshape_as")
def view_as(self, other):
    return self.reshape(other.shape)


@aten("flatten")
def flatten(self, start_dim=0, end_dim=-1):
    if self.ndim == 0:
        return self.reshape(1)
    start, end = start_dim % self.ndim, end_dim % self.ndim
    return self.reshape(*self.shape[:start], math.prod(self.shape[start : end + 1]), *self.shape[end + 1 :])


@aten("unflatten")
def unflatten(self, dim, sizes):
    dim %= self.ndim
    known = math.prod(size for size in sizes if size != -1)
    sizes = tuple(self.shape[dim] // known if size == -1 else size for size in sizes)
    return self.reshape(*self.shape[:dim], *sizes, *self.shape[dim + 1 :])


@aten("unsqueeze")
def unsqueeze(self, dim):
    return jnp.expand_dims(self, dim)


@aten("squeeze")
def squeeze(self, dim=None):
    dims = range(self.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return jnp.squeeze(self, tuple(d % self.ndim for d in dims if self.shape[d] == 1)) if self.ndim else self


@aten("transpose", "swapaxes", "swapdims")
def transpose(self, dim0=None, dim1=None, axis0=None, axis1=None):
    return jnp.swapaxes(self, *((dim0, dim1) if dim0 is not None else (axis0, axis1))) if self.ndim else self


@aten("t", "mT", "adjoint")
def matrix_transpose(self):
    return jnp.swapaxes(self, -1, -2) if self.ndim > 1 else self


@aten("numpy_T")
def numpy_t(self):
    return self.T


@aten("permute")
def permute(self, dims):
    return jnp.transpose(self, dims)


@aten("movedim", "moveaxis")
def movedim(self, source, destination):
    return jnp.moveaxis(self, source, destination)


@aten("expand")
def expand(self, size):
    known = (1,) * (len(size) - self.ndim) + self.shape
    return jnp.broadcast_to(self, tuple(n if s == -1 else s for s, n in zip(size, known, strict=True)))


@aten("expand_as")
def expand_as(self, other):
    return jnp.broadcast_to(self, other.shape)


@aten("broadcast_to")
def broadcast_to(self, size):
    return expand(self, size)


@aten("repeat", "tile")
def repeat(self, repeats=None, dims=None):
    return jnp.tile(self, repeats if repeats is not None else dims)


@aten("repeat_interleave.self_int")
def repeat_interleave(self, repeats, dim=None):
    return jnp.repeat(self, repeats, axis=dim)


@aten("cat", "concat", "concatenate")
def cat(tensors, dim=0):
    tensors = [a for a in tensors if a.shape != (0,)]  # PyTorch joins these with anything
    return jnp.concatenate(tensors, axis=dim)


@aten("stack")
def stack(tensors, dim=0):
    return jnp.stack(tensors, axis=dim)


@aten("split", "split_with_sizes", "unsafe_split", "split_copy", "split_with_sizes_copy")
def split(self, split_size=None, split_sizes=None, dim=0):
    sizes = split_sizes if split_sizes is not None else split_size
    stops = range(sizes, self.shape[dim], sizes) if isinstance(sizes, int) else np.cumsum(sizes)[:-1].tolist()
    return tuple(jnp.split(self, list(stops), axis=dim))


@aten("chunk", "unsafe_chunk")
def chunk(self, chunks, dim=0):
    return split(self, max(-(-self.shape[dim] // chunks), 1), dim=dim)


@aten("tensor_split")
def tensor_split(self, sections=None, indices=None, dim=0):
    return tuple(jnp.array_split(self, sections if sections is not None else list(indices), axis=dim))


@aten("unbind")
def unbind(self, dim=0):
    return tuple(jnp.squeeze(part, dim) for part in jnp.split(self, self.shape[dim], axis=dim))


@aten("select")
def select(self, dim, index):
    return lax.index_in_dim(self, index, dim, keepdims=False)


@aten("slice")
def slice_(self, dim=0, start=None, end=None, step=1):
    return lax.slice_in_dim(self, *_range(self.shape[dim], start, end), step, dim)


@aten("narrow")
def narrow(self, dim, start, length):
    return slice_(self, dim, start, start + length)


def _range(length, start, end):
    start, stop, _ = slice(start, end).indices(length)
    return start, max(start, stop)


@aten("select_scatter")
def select_scatter(self, src, dim, index):
    return jnp.moveaxis(jnp.moveaxis(self, dim, 0).at[index].set(src), 0, dim)


@aten("slice_scatter")
def slice_scatter(self, src, dim=0, start=None, end=None, step=1):
    start, stop = _range(self.shape[dim], start, end)
    return jnp.moveaxis(jnp.moveaxis(self, dim, 0).at[start:stop:step].set(jnp.moveaxis(src, dim, 0)), 0, dim)


@aten("copy")
def copy(self, src):
    return jnp.broadcast_to(src, self.shape)


@aten("fill")
def fill(self, value):
    return jnp.broadcast_to(value, self.shape)


@aten("flip")
def flip(self, dims):
    return jnp.flip(self, dims)


@aten("roll")
def roll(self, shifts, dims=()):
    return jnp.roll(self, shifts, dims or None) if dims else jnp.roll(self, *_one(shifts))


def _one(shifts):
    return shifts if isinstance(shifts, tuple) else (shifts,)


@aten("tril")
def tril(self, diagonal=0):
    return jnp.tril(self, diagonal)


@aten("triu")
def triu(self, diagonal=0):
    return jnp.triu(self, diagonal)


@aten("diagonal")
def diagonal(self, offset=0, dim1=0, dim2=1):
    return jnp.diagonal(self, offset, dim1, dim2)


@aten("unfold")
def unfold(self, dimension, size, step):
    """Windows along one axis; their entries are the last axis."""
    if self.ndim == 0:
        return self.reshape(1)
    starts = np.arange(0, self.shape[dimension] - size + 1, step)
    windows = jnp.take(self, starts[:, None] + np.arange(size), axis=dimension)
    return jnp.moveaxis(windows, dimension % self.ndim + 1, -1)


@aten("as_strided")
def as_strided(self, size, stride, storage_offset=None):
    """Entries of a contiguous array at given strides, as modules use it to look at windows."""
    places = storage_offset or 0
    for axis, (n, s) in enumerate(zip(size, stride, strict=True)):
        places = places + (np.arange(n) * s).reshape(-1, *(1,) * (len(size) - axis - 1))
    return self.reshape(-1)[np.broadcast_to(places, size)]


@aten("pixel_shuffle")
def pixel_shuffle(self, upscale_factor):
    r = upscale_factor
    *batch, c, h, w = self.shape
    out = self.reshape(*batch, c // r**2, r, r, h, w)
    n = len(batch)
    return out.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2).reshape(*batch, c // r**2, h * r, w * r)


@aten("pixel_unshuffle")
def pixel_unshuffle(self, downscale_factor):
    r = downscale_factor
    *batch, c, h, w = self.shape
    out = self.reshape(*batch, c, h // r, r, w // r, r)
    n = len(batch)
    return out.transpose(*range(n), n, n + 2, n + 4, n + 1, n + 3).reshape(*batch, c * r**2, h // r, w // r)


@aten("channel_shuffle")
def channel_shuffle(self, groups):
    n, c, *space = self.shape
    return self.reshape(n, groups, c // groups, *space).swapaxes(1, 2).reshape(self.shape)


MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@aten("pad")
def pad(self, pad, mode="constant", value=None):
    """PyTorch's pairs begin with the last axis; a negative one crops."""
    pairs = [(0, 0)] * (self.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    if mode == "constant":
        return lax.pad(self, jnp.asarray(value or 0, self.dtype), [(low, high, 0) for low, high in pairs])
    cropped = self[
        tuple(slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in zip(self.shape, pairs, strict=True))
    ]
    return jnp.pad(cropped, [(max(low, 0), max(high, 0)) for low, high in pairs], mode=MODES[mode])


@aten("constant_pad_nd")
def constant_pad_nd(self, pad, value=0):
    return _pad(self, pad, value=value)


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(self, padding):
    return _pad(self, padding, "reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(self, padding):
    return _pad(self, padding, "replicate")


_pad = pad
