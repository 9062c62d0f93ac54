r"""Invariance and equivariance of functions of a graph with features, over given renamings of its vertices."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from corollary.catalog import implements
from corollary.nets.graphs.neighbours import as_graph, features
from corollary.nets.sets.symmetry import as_permutations


@implements("E07.10")
def graph_invariance_defect(f: Callable, x, adjacency, permutations):
    r"""$\max_\pi\|f(PX,PAP^\top)-f(X,A)\|$ over the rows of `permutations`; zero if $f$ is order-invariant."""
    x, adjacency, permutations = _relabelled(x, adjacency, permutations)
    plain = f(x, adjacency)
    return jnp.max(jax.vmap(lambda p: jnp.linalg.norm(jnp.ravel(f(x[p], adjacency[p][:, p]) - plain)))(permutations))


@implements("E07.10")
def graph_equivariance_defect(f: Callable, x, adjacency, permutations):
    r"""$\max_\pi\|P^\top f(PX,PAP^\top)-f(X,A)\|$ over the rows of `permutations`; zero if $f$ is equivariant."""
    x, adjacency, permutations = _relabelled(x, adjacency, permutations)
    plain = f(x, adjacency)
    if plain.ndim == 0 or plain.shape[0] != x.shape[0]:
        raise ValueError(f"f must give one output for each of the {x.shape[0]} vertices, it gives {plain.shape}.")

    def defect(p):
        return jnp.linalg.norm(jnp.ravel(f(x[p], adjacency[p][:, p])[jnp.argsort(p)] - plain))

    return jnp.max(jax.vmap(defect)(permutations))


def _relabelled(x, adjacency, permutations):
    x = features(x)
    if not hasattr(adjacency, "shape"):
        raise TypeError("adjacency must be a matrix.")
    return x, as_graph(adjacency, x.shape[0]), as_permutations(permutations, x.shape[0])
