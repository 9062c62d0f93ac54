r"""Invariance and equivariance of functions of a graph with features, over given renamings of its vertices."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Array, ArrayLike, Float, Int

from corollary.catalog import implements
from corollary.nets.graphs.neighbours import as_graph, features
from corollary.nets.permutations import as_permutations, farthest, moved_back, one_for_each, worst


@implements("E07.10")
def graph_invariance_defect(
    f: Callable, x: Float[ArrayLike, "m d"], adjacency: Float[ArrayLike, "m m"], permutations: Int[ArrayLike, "..."]
) -> Float[Array, ""]:
    r"""$\max_\pi\|f(PX,PAP^\top)-f(X,A)\|$ over the rows of `permutations`; zero if $f$ is order-invariant."""
    x, adjacency, permutations = _relabelled(x, adjacency, permutations)
    plain = f(x, adjacency)
    return worst(lambda p: farthest(f(x[p], adjacency[p][:, p]), plain), permutations)


@implements("E07.10")
def graph_equivariance_defect(
    f: Callable, x: Float[ArrayLike, "m d"], adjacency: Float[ArrayLike, "m m"], permutations: Int[ArrayLike, "..."]
) -> Float[Array, ""]:
    r"""$\max_\pi\|P^\top f(PX,PAP^\top)-f(X,A)\|$ over the rows of `permutations`; zero if $f$ is equivariant."""
    x, adjacency, permutations = _relabelled(x, adjacency, permutations)
    plain = f(x, adjacency)
    one_for_each(plain, x.shape[0], "vertices")
    return worst(lambda p: farthest(moved_back(f(x[p], adjacency[p][:, p]), p), plain), permutations)


def _relabelled(x, adjacency, permutations):
    x = features(x)
    if not hasattr(adjacency, "shape"):
        raise TypeError("adjacency must be a matrix.")
    return x, as_graph(adjacency, x.shape[0]), as_permutations(permutations, x.shape[0])
