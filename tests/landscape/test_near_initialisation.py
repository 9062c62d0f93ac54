"""The network with a fixed top layer and its linearisation, against automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.landscape import FixedTopNetwork, linearisation_bound, linearised
from corollary.nets import softplus, tanh

KEY = jax.random.key(0)
X = np.array([0.3, -1.0, 0.5])


def test_gradient_and_linearisation():
    network = FixedTopNetwork(3, 20, softplus(), key=KEY)
    np.testing.assert_allclose(np.abs(network.top), 20**-0.5)

    def f(w):
        return network.top @ jax.nn.softplus(w @ X)

    np.testing.assert_allclose(network(X), f(network.weight), rtol=1e-13)
    np.testing.assert_allclose(network.gradient(X), jax.grad(f)(network.weight), rtol=1e-12)
    move = 0.1 * np.random.default_rng(0).normal(size=(20, 3))
    value, slope = jax.jvp(f, (network.weight,), (jnp.asarray(move),))
    np.testing.assert_allclose(linearised(network, network.weight + move, X), value + slope, rtol=1e-12)
    bound = linearisation_bound(network, network.weight + move, X, 0.25)
    np.testing.assert_allclose(bound, 0.25 / 2 / np.sqrt(20) * np.sum(move**2) * np.sum(X**2), rtol=1e-12)
    gap = abs(network.at(network.weight + move)(X) - linearised(network, network.weight + move, X))
    assert 0 < gap <= bound


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: FixedTopNetwork(0, 1, key=KEY), "inputs must be at least 1"),
        (lambda: FixedTopNetwork(1, 1, jnp.tanh, key=KEY), "activation must have a derivative"),
        (lambda: FixedTopNetwork(2, 3, tanh, key=KEY)([1.0]), "x must have shape"),
        (lambda: FixedTopNetwork(2, 3, tanh, key=KEY).at(np.ones((2, 3))), "weight must have shape"),
        (lambda: linearised(3, np.ones((3, 2)), [1.0, 1.0]), "network must be a FixedTopNetwork"),
        (lambda: linearisation_bound(3, np.ones((3, 2)), [1.0, 1.0], 1.0), "network must be a FixedTopNetwork"),
        (
            lambda: linearisation_bound(FixedTopNetwork(2, 3, key=KEY), np.ones((3, 2)), [1.0, 1.0], 0.0),
            "beta must be positive",
        ),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
