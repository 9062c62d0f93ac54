"""Convolution and pooling along one axis: local, weight-tied linear maps, and what is kept of a window."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from scipy import linalg, signal

from corollary.nets import Convolution, DenseNetwork, ProjectedResidualLayer, ResidualBlock, pool

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=4)


def test_convolution_is_a_toeplitz_matrix():
    net = Convolution(2, 3, 4, key=KEY)
    x = np.random.default_rng(1).normal(size=(2, 10))
    out = np.asarray(net(x))
    for c in range(3):
        expected = sum(signal.correlate(x[i], np.asarray(net.kernel)[c, i], mode="valid") for i in range(2))
        np.testing.assert_allclose(out[c], expected + np.asarray(net.bias)[c], rtol=1e-10)
    single = Convolution(1, 1, 3, key=KEY)
    k = np.asarray(single.kernel)[0, 0]
    expected = linalg.toeplitz(np.r_[k[0], np.zeros(3)], np.r_[k, np.zeros(3)])
    np.testing.assert_allclose(single.matrix(6), expected, atol=1e-14)


def test_pooling():
    x = np.array([[1.0, 5.0, 2.0, 0.0, 9.0], [0.0, -1.0, -2.0, -3.0, 9.0]])
    np.testing.assert_array_equal(pool(x, 2), [[5, 2], [0, -2]])
    np.testing.assert_array_equal(pool(x, 2, "mean"), [[3, 1], [-0.5, -2.5]])


def test_gradient_of_the_convolution():
    net = Convolution(2, 3, 2, key=KEY)
    x = jnp.asarray(np.random.default_rng(1).normal(size=(2, 6)))
    check_grads(lambda m, x: pool(jnp.tanh(m(x)), 2, "mean").sum(), (net, x), order=1, modes=["rev"])


def test_bad_input():
    with pytest.raises(ValueError, match="branch must keep the shape"):
        ResidualBlock(lambda x: x[:2])(jnp.asarray(X))
    with pytest.raises(ValueError, match="outputs must be at least 1"):
        ProjectedResidualLayer(3, 0, key=KEY)
    with pytest.raises(ValueError, match="growth must be at least 1"):
        DenseNetwork(3, 0, 1, key=KEY)
    with pytest.raises(ValueError, match="x must have shape"):
        DenseNetwork(3, 1, 1, key=KEY)(X)
    with pytest.raises(ValueError, match="x must be at least as long as the window, 4"):
        Convolution(1, 1, 4, key=KEY)(np.ones((1, 3)))
    with pytest.raises(ValueError, match="x must have shape"):
        Convolution(2, 1, 2, key=KEY)(np.ones((1, 3)))
    with pytest.raises(ValueError, match="x must be at least as long"):
        pool(X, 5)
    with pytest.raises(ValueError, match="kind must be one of 'max', 'mean'"):
        pool(X, 2, "min")
