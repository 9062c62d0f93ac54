"""Invariance and equivariance of functions of a graph with features, over given renamings of its vertices."""

import jax.numpy as jnp
import numpy as np

from corollary import data
from corollary.nets.graphs import graph_equivariance_defect, graph_invariance_defect

RNG = np.random.default_rng(0)
# a triangle with a tail, and a vertex of its own
A = data.adjacency([(0, 1), (1, 2), (0, 2), (2, 3)], 5)
X = RNG.normal(size=(5, 3))


def test_graph_defects_see_what_is_not_symmetric():
    turns = [[1, 2, 3, 4, 0], [1, 0, 2, 3, 4]]
    assert graph_invariance_defect(lambda x, a: jnp.sum(a @ x), X, A, turns) < 1e-13
    assert graph_equivariance_defect(lambda x, a: a @ jnp.tanh(x), X, A, turns) < 1e-13
    brute = max(np.abs(A[np.ix_(p, p)][0, 1] - A[0, 1]) for p in turns)
    np.testing.assert_allclose(graph_invariance_defect(lambda x, a: a[0, 1], X, A, turns), brute)
    assert graph_equivariance_defect(lambda x, a: x[::-1], X, A, turns) > 0.1
