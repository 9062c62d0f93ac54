r"""Sums, means and maxima over the neighbours of every vertex, of a dense or a sparse graph.

A graph is an adjacency matrix (m, m), symmetric with a zero diagonal and entries of zero or more (weights), or
`Edges`, which costs time and memory in proportion to the number of edges. Every network of this package takes both.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._validate import concrete, labels, real, whole
from corollary.catalog import implements


@implements("E07.09")
class Edges(eqx.Module):
    """A graph by its edges, each in both directions: messages go from `senders` to `receivers`.

    `Edges(pairs, nodes)` takes each edge once, as a pair of vertices; `Edges.of` an adjacency matrix of zeros and ones.
    """

    senders: jax.Array
    receivers: jax.Array
    nodes: int = eqx.field(static=True)

    def __init__(self, pairs: Int[ArrayLike, "e 2"], nodes: int):
        self.nodes = whole("nodes", nodes)
        given, pairs = pairs, labels("pairs", pairs, self.nodes, "e 2")
        if concrete(given):
            seen = np.sort(np.asarray(given), axis=1)
            if (seen[:, 0] == seen[:, 1]).any():
                raise ValueError("pairs must join two different vertices each.")
            if len(np.unique(seen, axis=0)) < len(seen):
                raise ValueError("pairs must name every edge once.")
        self.senders = jnp.concatenate([pairs[:, 0], pairs[:, 1]])
        self.receivers = jnp.concatenate([pairs[:, 1], pairs[:, 0]])

    @classmethod
    def of(cls, adjacency: Float[ArrayLike, "m m"]) -> "Edges":
        """The edges of a matrix of zeros and ones, which must not be traced by `jit`."""
        if not concrete(adjacency):
            raise TypeError("adjacency must not be traced by jit: the number of edges depends on its values.")
        as_graph(adjacency)
        matrix = np.asarray(adjacency)
        if not np.isin(matrix, (0, 1)).all():
            raise ValueError("adjacency must hold only zeros and ones: Edges have no weights.")
        return cls(np.argwhere(np.triu(matrix)), len(matrix))


@implements("E07.09")
def degrees(graph: Float[ArrayLike, "m m"]) -> Float[Array, "_"]:
    """The number of neighbours of every vertex (with weights: their sum)."""
    graph = as_graph(graph)
    if isinstance(graph, Edges):
        return jax.ops.segment_sum(jnp.ones(graph.receivers.shape), graph.receivers, graph.nodes)
    return jnp.sum(graph, axis=1)


@implements("E07.11")
def neighbour_sum(graph: Float[ArrayLike, "m m"], values: Float[ArrayLike, "m d"]) -> Float[Array, "m d"]:
    r"""$\sum_{n\in N(m)}v_n$ for every vertex: $AV$ for `values` $V$ of shape (m, d)."""
    graph, values = _both(graph, values)
    if isinstance(graph, Edges):
        return jax.ops.segment_sum(values[graph.senders], graph.receivers, graph.nodes)
    return graph.astype(values.dtype) @ values


@implements("E07.11")
def neighbour_mean(graph: Float[ArrayLike, "m m"], values: Float[ArrayLike, "m d"]) -> Float[Array, "_ _"]:
    """The mean of `values` over the neighbours of every vertex, zero where there are none."""
    count = degrees(graph)
    return neighbour_sum(graph, values) / jnp.where(count > 0, count, 1.0).astype(jnp.asarray(values).dtype)[:, None]


@implements("E07.11")
def neighbour_max(graph: Float[ArrayLike, "m m"], values: Float[ArrayLike, "m d"]) -> Float[Array, "_ _"]:
    """The largest of `values` over the neighbours of every vertex, entry by entry, zero where there are none."""
    graph, values = _both(graph, values)
    if isinstance(graph, Edges):
        top = jax.ops.segment_max(values[graph.senders], graph.receivers, graph.nodes)
    else:
        top = jnp.max(jnp.where(graph[:, :, None] > 0, values[None], -jnp.inf), axis=1)
    return jnp.where(degrees(graph)[:, None] > 0, top, 0.0)


AGGREGATIONS = {"sum": neighbour_sum, "mean": neighbour_mean, "max": neighbour_max}


def as_graph(graph, nodes: int | None = None):
    """`graph` as `Edges` or as a matrix; where its numbers are known they are those of an undirected graph."""
    if isinstance(graph, Edges):
        if nodes is not None and graph.nodes != nodes:
            raise ValueError(f"graph must have the {nodes} vertices of x, got {graph.nodes}.")
        return graph
    matrix = real("graph", graph, "m m", {} if nodes is None else {"m": nodes})
    if concrete(graph):
        seen = np.asarray(graph)
        if not np.array_equal(seen, seen.T):
            raise ValueError("graph must be symmetric: its edges have no direction.")
        if (seen < 0).any():
            raise ValueError(f"graph must have no negative weight, got {seen.min()}.")
        if seen.diagonal().any():
            raise ValueError(f"graph must have a zero diagonal, got {seen.diagonal().max()}: no loops.")
    return matrix


def features(x):
    """The features of all vertices, one per row."""
    return real("x", x, "m d", finite=False)


def _both(graph, values):
    values = real("values", values, "m d", finite=False)
    return as_graph(graph, values.shape[0]), values
