"""A layer of polynomial filters, one from every input channel to every output channel."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary import data
from corollary.nets import parameter_count
from corollary.nets.graphs import Edges, SpectralLayer

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


def test_spectral_layer_is_its_formula():
    a = A[:4, :4]
    lap = np.diag(a.sum(0)) - a
    half = np.diag(a.sum(0) ** -0.5)
    for normalised, matrix in ((False, lap), (True, half @ lap @ half)):
        layer = drawn(lambda k, n=normalised: SpectralLayer(3, 2, 2, normalised=n, key=k))
        alpha, bias = np.asarray(layer.coefficients), np.asarray(layer.bias)
        powers = np.stack([np.linalg.matrix_power(matrix, k) for k in range(3)])
        expected = np.einsum("mnk,kij,jn->im", alpha, powers, X[:4]) + bias
        for graph in (a, Edges.of(a)):
            np.testing.assert_allclose(layer(X[:4], graph), expected, rtol=1e-11)
    assert parameter_count(layer) == 2 * 3 * 3 + 2
