r"""The Laplacian as a deviation from the mean: of a function near a point, and of a signal on a graph."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import concrete, positive, real, whole
from corollary.catalog import implements
from corollary.nets.graphs.neighbours import Edges, as_graph, degrees, features, neighbour_sum


@implements("E07.22")
def laplacian(f: Callable, x: Float[ArrayLike, "d"]) -> Float[Array, ""]:
    r"""$\Delta f(x)=\sum_i\partial^2f/\partial x_i^2$ at a point (d,), without the whole Hessian."""
    x = real("x", x, "d")

    def second(direction):
        slope = lambda point: jax.jvp(f, (point,), (direction,))[1]  # noqa: E731
        return jax.jvp(slope, (x,), (direction,))[1]

    return jnp.sum(jax.vmap(second)(jnp.eye(x.shape[0], dtype=x.dtype)))


@implements("E07.22")
def sphere_rule(dim: int, order: int = 32) -> tuple[np.ndarray, np.ndarray]:
    r"""Points on the unit sphere of $\mathbb R^d$ and weights whose sum is 1, for $d\in\{1,2,3\}$.

    The weighted mean of a polynomial of degree below `order` is its mean over the sphere: equal angles on the circle,
    Gauss and Legendre in height.
    """
    dim, order = whole("dim", dim, 1, 3), whole("order", order)
    if dim == 1:
        return np.array([[1.0], [-1.0]]), np.array([0.5, 0.5])
    angle = 2 * np.pi * np.arange(order) / order
    circle = np.stack([np.cos(angle), np.sin(angle)], 1)
    if dim == 2:
        return circle, np.full(order, 1 / order)
    height, weight = np.polynomial.legendre.leggauss(order // 2 + 1)
    points = np.concatenate(
        [
            np.sqrt(1 - height[:, None, None] ** 2) * circle,
            np.broadcast_to(height[:, None, None], (len(height), order, 1)),
        ],
        axis=2,
    )
    return points.reshape(-1, 3), np.repeat(weight / 2, order) / order


@implements("E07.22")
def sphere_mean_defect(f: Callable, x: Float[ArrayLike, "d"], radius: Scalar, *, order: int = 32) -> Float[Array, ""]:
    r"""The mean of $f$ over the sphere of this radius about $x$, minus $f(x)$: $\frac{r^2}{2d}\Delta f(x)+O(r^4)$.

    For points in up to three dimensions; `order` is that of `sphere_rule`.
    """
    x, radius = real("x", x, "d"), real("radius", radius, "")
    positive("radius", radius)
    points, weights = sphere_rule(x.shape[0], order)
    around = jax.vmap(lambda u: f(x + radius * u))(jnp.asarray(points, x.dtype))
    return jnp.asarray(weights, x.dtype) @ (around - f(x))


@implements("E07.23")
def graph_laplacian(adjacency: Float[ArrayLike, "m m"], *, normalised: bool = False) -> Float[Array, "_ _"]:
    r"""$L=D-A$, or $\tilde L=I-D^{-1/2}AD^{-1/2}$, which takes a graph without isolated vertices; $D$ without loops.

    >>> graph_laplacian([[0, 1], [1, 0]]).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if isinstance(adjacency, Edges):
        raise TypeError("adjacency must be a matrix; with Edges use laplacian_apply, which needs no matrix.")
    adjacency = as_graph(adjacency)
    degree = degrees(adjacency)
    if not normalised:
        return jnp.diag(degree) - adjacency
    scale = jax.lax.rsqrt(_no_isolated(degree))
    return jnp.eye(adjacency.shape[0], dtype=adjacency.dtype) - scale[:, None] * adjacency * scale


@implements("E07.23")
def laplacian_apply(
    graph: Float[ArrayLike, "m m"], x: Float[ArrayLike, "m d"], *, normalised: bool = False
) -> Float[Array, "m d"]:
    r"""$LX$ or $\tilde LX$ for features (m, d) without the matrix: of `Edges` in time proportional to their number.

    $(Lx)_i=d_i(x_i-\text{mean of the neighbours})$.
    """
    x = features(x)
    graph = as_graph(graph, x.shape[0])
    degree = degrees(graph).astype(x.dtype)[:, None]
    if not normalised:
        return degree * x - neighbour_sum(graph, x)
    scale = jax.lax.rsqrt(_no_isolated(degree))
    return x - scale * neighbour_sum(graph, scale * x)


def _no_isolated(degree):
    if concrete(degree) and not np.asarray(degree).all():
        at = int(np.flatnonzero(np.asarray(degree) == 0)[0])
        raise ValueError(f"the normalised Laplacian needs a neighbour for every vertex, and vertex {at} has none.")
    return degree
