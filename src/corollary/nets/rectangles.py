r"""Intersections of half-planes as logistic networks with one hidden layer, and functions as sums of rectangles."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import concrete, positive, real, whole
from corollary.catalog import implements
from corollary.nets.activations import logistic
from corollary.nets.feedforward import FeedForward


@implements("M05.26", "M05.27")
def intersection_network(normals: Float[ArrayLike, "k d"], offsets: Float[ArrayLike, "k"], eps: Scalar) -> FeedForward:
    r"""$S_\varepsilon(\sum_{i=1}^kS_\varepsilon(n_i\cdot x+o_i)-k+\frac12)$: near 1 where every $n_i\cdot x+o_i>0$.

    `normals` (k, d) and `offsets` (k,). The wedge $0<y<2x+3$ is `intersection_network([[0, 1], [2, -1]], [0, 3], eps)`.
    """
    normals, offsets = real("normals", normals, "k d", dims := {}), real("offsets", offsets, "k", dims)
    eps, k = positive("eps", real("eps", eps, "")), dims["k"]
    outer = jnp.ones((1, k), normals.dtype) / eps
    return FeedForward.of([(normals / eps, offsets / eps), (outer, jnp.array([0.5 - k]) / eps)], logistic)


@implements("M05.15")
def smooth_rectangle(
    points: Float[ArrayLike, "... d"], low: Float[ArrayLike, "d"], high: Float[ArrayLike, "d"], eps: Scalar
) -> Array:
    r"""Near the indicator of $\prod_j(\text{low}_j,\text{high}_j)$ at `points` (..., d): an AND of $2d$ steps."""
    low, high = real("low", low, "d", dims := {}), real("high", high, "d", dims)
    points, eps = real("points", points, "... d", dims), positive("eps", real("eps", eps, ""))
    if concrete(low) and concrete(high):
        positive("high - low", np.asarray(high) - np.asarray(low))
    inside = jax.nn.sigmoid((points - low) / eps) + jax.nn.sigmoid((high - points) / eps)
    return jax.nn.sigmoid((inside.sum(-1) - 2 * dims["d"] + 0.5) / eps)


@implements("M05.15")
def staircase(f: Callable, cells: int, points: Float[ArrayLike, "... 2"]) -> Array:
    r"""The step function on $[0,1]^2$ with the value of $f$ at the centre of each of n x n `cells`; `points` (..., 2).

    For $f$ with Lipschitz constant $L$ it is off by at most $L/(\sqrt2\,n)$, half the diagonal of a cell times $L$.
    """
    points, cells = real("points", points, "... 2"), whole("cells", cells)
    cell = jnp.clip(jnp.floor(points * cells), 0, cells - 1)
    centres = (cell + 0.5) / cells
    return f(centres[..., 0], centres[..., 1])


@implements("M05.15")
def smooth_staircase(f: Callable, cells: int, points: Float[ArrayLike, "... 2"], eps: Scalar) -> Array:
    r"""$\sum_{ij}f(c_{ij})R_{ij}(x)$ with a smooth rectangle for every cell: a logistic network with a linear output.

    Near the `staircase` where the distance to the grid lines is many `eps`. Cells beyond the border have no rectangle,
    so the sum falls to 0 there.
    """
    points, cells = real("points", points, "... 2"), whole("cells", cells)
    eps = positive("eps", real("eps", eps, ""))
    edges = jnp.arange(cells + 1, dtype=points.dtype) / cells
    # the conditions on x belong to a column of cells, those on y to a row: 4n steps a point, not 4n²
    steps = jax.nn.sigmoid((points[..., None] - edges) / eps)
    inside = steps[..., :-1] + (1 - steps[..., 1:])
    rectangles = jax.nn.sigmoid((inside[..., 0, :, None] + inside[..., 1, None, :] - 3.5) / eps)
    centres = (edges[:-1] + edges[1:]) / 2
    heights = f(*jnp.meshgrid(centres, centres, indexing="ij"))
    return jnp.einsum("...ij,ij->...", rectangles, heights)
