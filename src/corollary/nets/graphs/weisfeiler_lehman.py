r"""Colour refinement, the one-dimensional Weisfeiler-Lehman test: a necessary condition for graphs to be isomorphic."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from corollary._show import shown
from corollary._validate import labels, whole
from corollary.catalog import implements
from corollary.nets.graphs.neighbours import Edges, as_graph


class Colouring(NamedTuple):
    """`colours` (m,): the number of the first vertex of the same colour. `rounds`: until none was new."""

    colours: jax.Array
    rounds: jax.Array

    __repr__ = shown


@implements("E07.20")
def wl_colours(
    adjacency: Float[ArrayLike, "m m"], colours: Int[ArrayLike, "m"] | None = None, *, rounds: int | None = None
) -> Colouring:
    r"""$c_v\leftarrow(c_v,\{\{c_u:u\in N(v)\}\})$ until no class of equal colours splits any more, or for `rounds`.

    Starts from the given `colours` (whole numbers), or from one for all. Colours are compared as they are, without a
    hash that could collide. At most $m-1$ rounds change anything.
    """
    adjacency = _matrix("adjacency", adjacency)
    m = adjacency.shape[0]
    limit = m if rounds is None else whole("rounds", rounds, 0)
    start = jnp.zeros(m, int) if colours is None else labels("colours", colours, None, str(m))
    joined = (adjacency > 0).astype(jnp.int32)

    def refine(state):
        colours, _, done = state
        # how many neighbours of every colour; rows are equal exactly where their distance, a whole number, is zero
        counts = joined @ (colours[:, None] == jnp.arange(m)).astype(jnp.int32)
        products = counts @ counts.T
        squares = jnp.diagonal(products)
        same = (squares[:, None] + squares[None, :] == 2 * products) & (colours[:, None] == colours[None, :])
        new = jnp.argmax(same, axis=1).astype(colours.dtype)
        return new, colours, done + 1

    def changing(state):
        new, old, done = state
        # a refinement that keeps the number of classes keeps the classes, and so their first vertices
        return (done < limit) & jnp.any(new != old)

    first = jnp.argmax(start[:, None] == start[None, :], axis=1)  # the names of colours do not matter
    new, old, done = jax.lax.while_loop(changing, refine, (first, first - 1, 0))
    return Colouring(new, jnp.where(jnp.all(new == old), done - 1, done))


@implements("E07.20")
def wl_distinguishes(
    first: Float[ArrayLike, "m m"],
    second: Float[ArrayLike, "_ _"],
    first_colours: Int[ArrayLike, "a"] | None = None,
    second_colours: Int[ArrayLike, "b"] | None = None,
) -> Bool[Array, ""]:
    r"""Whether colour refinement tells two graphs apart: they are then not isomorphic. The converse is false.

    Both are coloured together, so that colours mean the same in both; then their histograms are compared.
    """
    first, second = _matrix("first", first), _matrix("second", second)
    a, b = first.shape[0], second.shape[0]
    if (first_colours is None) != (second_colours is None):
        raise TypeError("first_colours and second_colours must be given together.")
    start = None
    if first_colours is not None:
        start = jnp.concatenate(
            [
                labels("first_colours", first_colours, None, str(a)),
                labels("second_colours", second_colours, None, str(b)),
            ]
        )
    if a != b:
        return jnp.array(True)
    union = jnp.zeros((a + b, a + b), first.dtype).at[:a, :a].set(first).at[a:, a:].set(second.astype(first.dtype))
    colours = wl_colours(union, start).colours
    names = jnp.arange(a + b)
    counts = jnp.sum(colours[:, None] == names, axis=0), jnp.sum(colours[:a, None] == names, axis=0)
    return jnp.any(counts[0] != 2 * counts[1])


def _matrix(name, graph):
    if isinstance(graph, Edges):
        raise TypeError(f"{name} must be an adjacency matrix.")
    return as_graph(graph)
