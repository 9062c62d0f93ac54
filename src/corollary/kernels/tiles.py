r"""Kernel matrices in tiles, straight into their place: peak memory is the result plus what one tile needs.

A tile of $r\times c$ pairs needs a few arrays of that size for the kernels of dense networks; convolutional kernels
need as many numbers per pair as an image has pixels, or pairs of pixels where they pool. `tile_for` turns a budget in
bytes into a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import real, whole
from corollary.catalog import implements

BUDGET = 2**28


@implements("T09.02")
def tiled(
    kernel: Callable,
    x1: Float[ArrayLike, "..."],
    x2: Float[ArrayLike, "..."] | None = None,
    *,
    tile: int | tuple[int, int] = 512,
    sharding: NamedSharding | None = None,
) -> Float[Array, "n m"]:
    r"""The matrix `kernel(x1, x2)`, computed in tiles of `tile` (or `(rows, columns)`) pairs of points.

    `kernel(a, b)` is the block of two sets of points in the rows, (len(a), len(b)), and `kernel(a, None)` that of one
    with itself. Without `x2` only the tiles on and above the diagonal are computed, and mirrored. Entries are written
    straight into the result; nothing else of its size is ever allocated.

    With `sharding` (of a mesh of devices, for an array of two axes) each device computes its own part, in tiles, where
    it will stay; the numbers of points must be multiples of the numbers of devices along each axis.
    """
    if not callable(kernel):
        raise TypeError(f"kernel must be a function of two sets of points, got {type(kernel).__name__}.")
    x1 = _points("x1", x1)
    y = None if x2 is None else _points("x2", x2)
    if y is not None and y.shape[1:] != x1.shape[1:]:
        raise ValueError(f"x2 must hold points of shape {x1.shape[1:]} as x1 does, got {y.shape[1:]}.")
    rows, columns = tile if isinstance(tile, tuple) else (tile, tile)
    rows, columns = whole("tile", rows), whole("tile", columns)
    if sharding is not None:
        return _sharded(kernel, x1, x1 if y is None else y, (rows, columns), sharding)
    return _whole(kernel, x1, y, (rows, columns))


def tile_for(pixels: int = 1, *, pairs: bool = False, budget: int = BUDGET, itemsize: int = 4, copies: int = 6) -> int:
    """The side of a square tile within a `budget` of bytes, for images of this many `pixels`.

    `pairs`: the kernel keeps every pair of pixels, as it does for pooling. `copies` of a tile are alive at once: the
    covariances before and after a layer, the tangent kernel, the window's sum and its padding.
    """
    pixels, copies = whole("pixels", pixels), whole("copies", copies)
    numbers = pixels**2 if pairs else pixels
    side = int(np.sqrt(whole("budget", budget) / (numbers * whole("itemsize", itemsize) * copies)))
    return max(side, 1)


@partial(jax.jit, static_argnums=(0, 3))
def _whole(kernel, x1, x2, tile):
    n, m = x1.shape[0], (x1 if x2 is None else x2).shape[0]
    rows, columns = min(tile[0], n), min(tile[1], m)
    if x2 is not None:
        return _blocks(kernel, x1, x2, _starts(n, rows), _starts(m, columns), rows, columns)
    rows = columns = min(rows, columns)
    starts = _starts(n, rows)
    above = np.array([(i, j) for a, i in enumerate(starts) for j in starts[a + 1 :]], int).reshape(-1, 2)

    def diagonal(out, i):
        block = kernel(_rows(x1, i, rows), None)
        return lax.dynamic_update_slice(out, block, (i, i)), None

    def mirrored(out, place):
        i, j = place
        block = kernel(_rows(x1, i, rows), _rows(x1, j, rows))
        return lax.dynamic_update_slice(lax.dynamic_update_slice(out, block, (i, j)), block.T, (j, i)), None

    out = jnp.zeros((n, n), _dtype(kernel, x1[:rows], None))
    # the diagonal last: a tile above it may reach into it where the last one overlaps its neighbour, and the points
    # that are the same must come from a block that knows it
    out, _ = lax.scan(mirrored, out, jnp.asarray(above))
    out, _ = lax.scan(diagonal, out, jnp.asarray(starts))
    return out


def _blocks(kernel, x1, x2, starts1, starts2, rows, columns):
    def one(out, place):
        i, j = place
        block = kernel(_rows(x1, i, rows), _rows(x2, j, columns))
        return lax.dynamic_update_slice(out, block, (i, j)), None

    out = jnp.zeros((x1.shape[0], x2.shape[0]), _dtype(kernel, x1[:rows], x2[:columns]))
    places = np.stack(np.meshgrid(starts1, starts2, indexing="ij"), -1).reshape(-1, 2)
    return lax.scan(one, out, jnp.asarray(places))[0]


def _sharded(kernel, x1, x2, tile, sharding):
    if not isinstance(sharding, NamedSharding):
        raise TypeError(f"sharding must be a NamedSharding, got {type(sharding).__name__}.")
    spec = tuple(sharding.spec) + (None,) * (2 - len(sharding.spec))
    if len(spec) != 2:
        raise ValueError(f"sharding must partition a matrix, two axes at most, got {sharding.spec}.")
    for name, x, axis in (("x1", x1, spec[0]), ("x2", x2, spec[1])):
        axes = () if axis is None else axis if isinstance(axis, tuple) else (axis,)
        parts = int(np.prod([sharding.mesh.shape[a] for a in axes]))
        if x.shape[0] % parts:
            raise ValueError(f"{name} must hold a multiple of {parts} points, one part per device, got {x.shape[0]}.")
    ours, theirs = (NamedSharding(sharding.mesh, PartitionSpec(axis)) for axis in spec)
    return _dealt(kernel, jax.device_put(x1, ours), jax.device_put(x2, theirs), tile, sharding)


@partial(jax.jit, static_argnums=(0, 3, 4))
def _dealt(kernel, x1, x2, tile, sharding):
    first, second = (tuple(sharding.spec) + (None,) * 2)[:2]

    def local(a, b):
        rows, columns = min(tile[0], a.shape[0]), min(tile[1], b.shape[0])
        return _blocks(kernel, a, b, _starts(a.shape[0], rows), _starts(b.shape[0], columns), rows, columns)

    specs = (PartitionSpec(first), PartitionSpec(second))
    # a device starts from an empty matrix that does not vary over the mesh, and fills in what does
    return jax.shard_map(
        local, mesh=sharding.mesh, in_specs=specs, out_specs=PartitionSpec(first, second), check_vma=False
    )(x1, x2)


def _starts(n, size):
    """Where tiles begin; the last one ends at the last point and overlaps its neighbour: nothing is padded."""
    return np.minimum(np.arange(0, n, size), n - size)


def _rows(x, start, size):
    return lax.dynamic_slice_in_dim(x, start, size)


def _dtype(kernel, a, b):
    n, m = a.shape[0], (a if b is None else b).shape[0]
    out = jax.eval_shape(lambda a, b: kernel(a, b), a, b)
    if getattr(out, "shape", None) != (n, m):
        raise ValueError(f"kernel must return a matrix of shape {(n, m)} for {n} and {m} points, got {out}.")
    return out.dtype


def _points(name, x):
    x = real(name, x)
    if x.ndim < 2 or 0 in x.shape:
        raise ValueError(f"{name} must hold points in its rows, got shape {x.shape}.")
    return x
