"""Residual layers: the identity, or a projection, plus a correction that vanishes with its parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from corollary import nets
from corollary.nets import DenseNetwork, ProjectedResidualLayer, ResidualBlock, ResidualLayer

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=4)


def test_residual_layers():
    layer = ResidualLayer(4, nets.logistic, key=KEY)
    w, b = np.asarray(layer.branch.weight), np.asarray(layer.branch.bias)
    np.testing.assert_allclose(layer(X), X + 1 / (1 + np.exp(-w @ X - b)) - 0.5, rtol=1e-12)
    half = ResidualLayer(4, nets.logistic, key=KEY, branch_scale=0.5)
    np.testing.assert_allclose(half(X) - X, (layer(X) - X) / 2, rtol=1e-10)
    layer = ProjectedResidualLayer(4, 2, nets.logistic, key=KEY)
    v, w, b = (np.asarray(a) for a in (layer.projection, layer.branch.weight, layer.branch.bias))
    np.testing.assert_allclose(layer(X), v @ X + 1 / (1 + np.exp(-w @ X - b)) - 0.5, rtol=1e-12)
    np.testing.assert_array_equal(ResidualBlock(jnp.zeros_like)(jnp.asarray(X)), X)


@pytest.mark.parametrize(
    "module",
    [
        ResidualLayer(4, nets.tanh, key=KEY),
        ProjectedResidualLayer(4, 3, nets.tanh, key=KEY),
        DenseNetwork(4, 2, 3, nets.tanh, key=KEY),
    ],
)
def test_gradients(module):
    check_grads(lambda m, x: m(x).sum(), (jax.tree.map(jnp.float64, module), jnp.asarray(X)), order=1, modes=["rev"])
