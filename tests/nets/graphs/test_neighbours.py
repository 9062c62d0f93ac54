"""Sums, means and maxima over the neighbours of every vertex, of a dense or a sparse graph."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import data, nets
from corollary.nets.graphs import (
    GAT,
    GCN,
    Edges,
    GATLayer,
    GCNClassifier,
    GCNLayer,
    MessagePassing,
    SpectralLayer,
    degrees,
    gcn_coupling,
    graph_equivariance_defect,
    graph_invariance_defect,
    neighbour_max,
    neighbour_mean,
    neighbour_sum,
)

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
# a triangle with a tail, and a vertex of its own
A = data.adjacency([(0, 1), (1, 2), (0, 2), (2, 3)], 5)
X = RNG.normal(size=(5, 3))
NEIGHBOURS = [np.flatnonzero(row) for row in A]


def drawn(make):
    """The module with its arrays drawn by NumPy, so that nothing is compiled for it."""
    shapes = eqx.filter_eval_shape(make, KEY)
    return jax.tree.map(
        lambda a: jnp.asarray(RNG.normal(size=a.shape)) if isinstance(a, jax.ShapeDtypeStruct) else a, shapes
    )


@pytest.mark.parametrize("aggregate", ["sum", "mean", "max"])
def test_aggregations(aggregate):
    function = {"sum": neighbour_sum, "mean": neighbour_mean, "max": neighbour_max}[aggregate]
    brute = np.stack([getattr(X[n], aggregate)(0) if len(n) else np.zeros(3) for n in NEIGHBOURS])
    dense, sparse = jax.jit(lambda x: (function(A, x), function(Edges.of(A), x)))(X)
    np.testing.assert_allclose(dense, brute, rtol=1e-13)
    np.testing.assert_allclose(sparse, brute, rtol=1e-13)
    np.testing.assert_array_equal(degrees(Edges.of(A)), [2, 2, 3, 1, 0])


@pytest.mark.parametrize("edge_features", [0, 2])
def test_gat_with_a_loop_over_vertices(edge_features):
    layer = drawn(lambda k: GATLayer(3, 4, nets.tanh, heads=2, edge_features=edge_features, key=k))
    extra = RNG.normal(size=(5, 5, 2)) if edge_features else None
    brute, coupling = np.zeros((5, 2, 2)), np.zeros((2, 5, 5))
    for h in range(2):
        v, own, other = (np.asarray(a)[h] for a in (layer.projection, layer.own, layer.other))
        for i in range(5):
            near = [i, *NEIGHBOURS[i]]
            scores = np.array([own @ v @ X[i] + other @ v @ X[j] for j in near])
            if edge_features:
                scores += [0.0 if j == i else np.asarray(layer.edge)[h] @ extra[i, j] for j in near]
            weights = np.exp(np.where(scores > 0, scores, 0.2 * scores))
            coupling[h, i, near] = weights / weights.sum()
            brute[i, h] = coupling[h, i] @ X @ v.T
    edges = Edges.of(A)
    flat = None if extra is None else extra[np.asarray(edges.receivers), np.asarray(edges.senders)]
    q, dense, sparse = eqx.filter_jit(lambda m, x: (m.coupling(x, A, extra), m(x, A, extra), m(x, edges, flat)))(
        layer, X
    )
    np.testing.assert_allclose(q, coupling, atol=1e-13)
    np.testing.assert_allclose(dense, np.tanh(brute.reshape(5, 4)), rtol=1e-12)
    np.testing.assert_allclose(sparse, np.tanh(brute.reshape(5, 4)), rtol=1e-12)


def test_bad_input():
    with pytest.raises(ValueError, match="graph must be symmetric"):
        gcn_coupling(np.triu(A))
    with pytest.raises(ValueError, match="no negative weight"):
        degrees(-A)
    with pytest.raises(ValueError, match="zero diagonal"):
        neighbour_sum(A + np.eye(5), X)
    with pytest.raises(ValueError, match=r"with m = 5"):
        neighbour_max(A[:4, :4], X)
    with pytest.raises(ValueError, match="the 5 vertices of x, got 4"):
        neighbour_mean(Edges.of(A[:4, :4]), X)
    with pytest.raises(TypeError, match="use gcn_propagate"):
        gcn_coupling(Edges.of(A))
    with pytest.raises(ValueError, match="zeros and ones"):
        Edges.of(2 * A)
    with pytest.raises(TypeError, match="must not be traced by jit"):
        jax.eval_shape(Edges.of, A)
    with pytest.raises(ValueError, match="two different vertices"):
        Edges([(0, 0)], 2)
    with pytest.raises(ValueError, match="every edge once"):
        Edges([(0, 1), (1, 0)], 2)
    with pytest.raises(ValueError, match="labels from 0 to 1"):
        Edges([(0, 2)], 2)
    with pytest.raises(TypeError, match="update must be a function"):
        MessagePassing(3, jnp.tanh)
    with pytest.raises(ValueError, match="aggregation must be one of"):
        MessagePassing(jnp.tanh, jnp.tanh, "median")
    with pytest.raises(ValueError, match=r"sizes must hold the numbers"):
        GCN((3,), key=KEY)
    with pytest.raises(ValueError, match=r"sizes must hold the numbers"):
        GAT((3,), key=KEY)
    with pytest.raises(TypeError, match="activation must be a function"):
        GCNLayer(3, 2, "relu", key=KEY)
    with pytest.raises(TypeError, match="activation must be a function"):
        GATLayer(3, 2, "relu", key=KEY)
    with pytest.raises(ValueError, match="outputs must be a multiple of heads"):
        GATLayer(3, 5, heads=2, key=KEY)
    with pytest.raises(ValueError, match="classes must be at least 2"):
        GCNClassifier(3, 4, 1, key=KEY)
    with pytest.raises(ValueError, match="x must have 3 features"):
        drawn(lambda k: GCNLayer(3, 2, key=k))(X[:, :2], A)
    gat = drawn(lambda k: GATLayer(3, 2, key=k))
    with pytest.raises(ValueError, match="x must have 3 features"):
        gat(X[:, :2], A)
    with pytest.raises(TypeError, match="edge_features must be given if and only if"):
        gat(X, A, np.ones((5, 5, 1)))
    with pytest.raises(TypeError, match="call the layer itself"):
        gat.coupling(X, Edges.of(A))
    with pytest.raises(ValueError, match="edge_features must have shape"):
        drawn(lambda k: GATLayer(3, 2, edge_features=2, key=k))(X, A, np.ones((5, 5, 1)))
    with pytest.raises(ValueError, match="x must have 3 features"):
        drawn(lambda k: SpectralLayer(3, 2, 1, key=k))(X[:, :2], A)
    with pytest.raises(ValueError, match="one output for each of the 5 vertices"):
        graph_equivariance_defect(lambda x, a: jnp.sum(x), X, A, [[0, 1, 2, 3, 4]])
    with pytest.raises(TypeError, match="adjacency must be a matrix"):
        graph_invariance_defect(lambda x, a: jnp.sum(x), X, Edges.of(A), [[0, 1, 2, 3, 4]])
