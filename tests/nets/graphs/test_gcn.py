"""Graph convolutional networks: features are averaged with fixed weights over neighbours, then transformed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary import data, nets
from corollary.nets.graphs import Edges, GCNClassifier, GCNLayer, gcn_coupling, gcn_propagate

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
# a triangle with a tail, and a vertex of its own
A = data.adjacency([(0, 1), (1, 2), (0, 2), (2, 3)], 5)
X = RNG.normal(size=(5, 3))


def drawn(make):
    """The module with its arrays drawn by NumPy, so that nothing is compiled for it."""
    shapes = eqx.filter_eval_shape(make, KEY)
    return jax.tree.map(
        lambda a: jnp.asarray(RNG.normal(size=a.shape)) if isinstance(a, jax.ShapeDtypeStruct) else a, shapes
    )


def test_gcn():
    d = 1 + A.sum(0)
    coupling = (A + np.eye(5)) / np.sqrt(np.outer(d, d))
    np.testing.assert_allclose(gcn_coupling(A), coupling, rtol=1e-14)
    for graph in (A, Edges.of(A)):
        np.testing.assert_allclose(jax.jit(gcn_propagate)(X, graph), coupling @ X, rtol=1e-13)
    for wide in (2, 4):  # fewer and more features than before: averaged after and before the weights
        layer = drawn(lambda k, wide=wide: GCNLayer(3, wide, nets.tanh, bias=True, key=k))
        expected = np.tanh(coupling @ X @ np.asarray(layer.weight) + np.asarray(layer.bias))
        np.testing.assert_allclose(eqx.filter_jit(layer)(X, A), expected, rtol=1e-12)
    model = drawn(lambda k: GCNClassifier(3, 6, 4, key=k))
    w0, w1 = (np.asarray(layer.weight) for layer in model.network.layers)
    logits = coupling @ np.maximum(coupling @ X @ w0, 0) @ w1
    found, probabilities = eqx.filter_jit(lambda m, x: (m.logits(x, A), m(x, A)))(model, X)
    np.testing.assert_allclose(found, logits, rtol=1e-12)
    np.testing.assert_allclose(probabilities, np.exp(logits) / np.exp(logits).sum(1, keepdims=True), rtol=1e-12)
