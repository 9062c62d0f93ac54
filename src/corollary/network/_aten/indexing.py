"""Operators that read or write entries at places that tensors hold: look-ups, gathering, scattering, sorting."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from corollary.network._aten.table import aten


@aten("embedding")
def embedding(weight, indices, padding_idx=-1):
    """The row `padding_idx` gets no derivative."""
    rows = jnp.take(weight, indices, axis=0, mode="clip")
    if padding_idx < 0:
        return rows
    return jnp.where((indices == padding_idx)[..., None], lax.stop_gradient(rows), rows)


@aten("index_select")
def index_select(self, dim, index):
    return jnp.take(self, index, axis=dim, mode="clip")


@aten("index", "_unsafe_index")
def index(self, indices):
    return self[_key(indices)]


@aten("index_put", "_unsafe_index_put")
def index_put(self, indices, values, accumulate=False):
    places = self.at[_key(indices)]
    return places.add(values) if accumulate else places.set(values)


def _key(indices):
    return tuple(slice(None) if i is None else i for i in indices)


@aten("gather")
def gather(self, dim, index):
    return self[_along(self, dim, index)]


@aten("take_along_dim")
def take_along_dim(self, indices, dim=None):
    return jnp.take_along_axis(self, indices, dim)


@aten("take")
def take(self, index):
    return self.reshape(-1)[index]


def _along(self, dim, index):
    """The places that `index` means: its own in all axes but `dim`."""
    places = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    places[dim] = index
    return tuple(places)


@aten("scatter.src", "scatter.value", "scatter.value_reduce", "scatter.reduce")
def scatter(self, dim, index, src=None, value=None, reduce=None):
    places, values = self.at[_along(self, dim, index)], value if src is None else src[_corner(index)]
    if reduce == "multiply":
        return places.multiply(values)
    return places.add(values) if reduce == "add" else places.set(values)


@aten("scatter_add")
def scatter_add(self, dim, index, src):
    return self.at[_along(self, dim, index)].add(src[_corner(index)])


def _corner(index):
    return tuple(slice(n) for n in index.shape)


@aten("index_add")
def index_add(self, dim, index, source, alpha=1):
    return jnp.moveaxis(jnp.moveaxis(self, dim, 0).at[index].add(alpha * jnp.moveaxis(source, dim, 0)), 0, dim)


@aten("index_copy")
def index_copy(self, dim, index, source):
    return jnp.moveaxis(jnp.moveaxis(self, dim, 0).at[index].set(jnp.moveaxis(source, dim, 0)), 0, dim)


@aten("index_fill")
def index_fill(self, dim, index, value):
    return jnp.moveaxis(jnp.moveaxis(self, dim, 0).at[index].set(value), 0, dim)


@aten("topk")
def topk(self, k, dim=-1, largest=True, sorted=True):
    order = jnp.argsort(self, dim, stable=True, descending=largest)
    places = lax.slice_in_dim(order, 0, k, axis=dim)
    return jnp.take_along_axis(self, places, dim), places


@aten("sort")
def sort(self, dim=-1, descending=False, stable=False):
    places = jnp.argsort(self, dim, stable=True, descending=descending)
    return jnp.take_along_axis(self, places, dim), places


@aten("argsort")
def argsort(self, dim=-1, descending=False, stable=False):
    return jnp.argsort(self, dim, stable=True, descending=descending)


@aten("bucketize")
def bucketize(self, boundaries, right=False):
    return jnp.searchsorted(boundaries, self, side="right" if right else "left")


@aten("searchsorted")
def searchsorted(sorted_sequence, self, right=False):
    return jnp.searchsorted(sorted_sequence, self, side="right" if right else "left")
