"""Graph attention: the weights of the neighbours are learnt from the features at both ends of an edge."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary import data, nets
from corollary.nets.graphs import GAT

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


def test_gat_of_several_layers():
    model = drawn(lambda k: GAT((3, 4, 2), nets.tanh, heads=2, key=k))
    found, first, second = eqx.filter_jit(lambda m, x: (m(x, A), *[y := m.layers[0](x, A), m.layers[1](y, A)]))(
        model, X
    )
    assert first.shape == (5, 4)
    assert model.layers[1].projection.shape == (1, 2, 4)
    np.testing.assert_allclose(found, second, rtol=1e-12)
