"""Certified radii of linear classifiers in closed form, and of networks whose slope is not known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.robustness import lipschitz_certificate

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(8, 3))
W = np.array([[1.0, 2.0, 2.0], [-1.0, 0.0, 1.0]])


def test_one_linear_output_has_its_distance():
    network = Network(lambda w, x: w @ x, jnp.asarray(W[0]))
    y = np.where(X @ W[0] > 0, 1, -1)
    y[0] = -y[0]  # a mistake
    found = lipschitz_certificate(network, (X, y), key=KEY)
    want = np.abs(X @ W[0]) / 3
    want[0] = 0
    np.testing.assert_allclose(found.radius, want, rtol=1e-10)
    np.testing.assert_allclose(found.constant, 3)


def test_two_outputs_divide_by_the_root_of_two():
    network = Network(lambda w, x: w @ x, jnp.asarray(W))
    y = np.argmax(X @ W.T, 1)
    found = lipschitz_certificate(network, (X, y), key=KEY)
    gap = np.abs(X @ (W[0] - W[1]))
    np.testing.assert_allclose(found.radius, gap / (2**0.5 * np.linalg.norm(W, 2)), rtol=1e-6)
    assert (found.radius <= gap / np.linalg.norm(W[0] - W[1]) * (1 + 1e-9)).all()


def test_outputs_that_are_stacked_are_those_of_one_array():
    by_row = Network(lambda w, x: jnp.stack([jnp.tanh(w[0] @ x), sum(jnp.unstack(x))]), jnp.asarray(W))
    y = np.argmax(jax.vmap(by_row)(X), 1)
    found = lipschitz_certificate(by_row, (X, y), key=KEY)
    # the first row has the length 3, the slopes of the three entries of the second add up
    np.testing.assert_allclose(found.constant, 2**0.5 * 18**0.5)
    assert (found.radius > 0).all()


def test_an_operation_without_a_rule_certifies_nothing():
    found = lipschitz_certificate(Network(lambda w, x: (w @ x) ** 2, jnp.asarray(W)), (X, np.zeros(8, int)), key=KEY)
    assert found.constant == np.inf
    assert not found.radius.any()


def test_a_constant_network_has_no_other_class():
    found = lipschitz_certificate(
        Network(lambda w, x: w + 0 * x[:2], jnp.array([1.0, 0.0])), (X, np.zeros(8, int)), key=KEY
    )
    assert (found.radius == np.inf).all()


def test_dropout_is_switched_off():
    network = eqx.nn.Linear(3, 2, key=KEY)
    data = np.random.default_rng(0).normal(size=(8, 3)), np.arange(8) % 2
    dropped = eqx.nn.Sequential([eqx.nn.Dropout(0.5), network])
    found, plain = (lipschitz_certificate(n, data, key=KEY).radius for n in (dropped, network))
    np.testing.assert_allclose(found, plain, rtol=1e-6)


def test_bad_input_gets_a_sentence():
    network = eqx.nn.Linear(3, 2, key=KEY)
    with pytest.raises(ValueError, match="labels from 0 to 1"):
        lipschitz_certificate(network, (X, np.arange(8)), key=KEY)
    with pytest.raises(TypeError, match="data must be a pair"):
        lipschitz_certificate(network, X, key=KEY)
    with pytest.raises(TypeError, match="a radius around whole numbers says nothing"):
        lipschitz_certificate(network, (np.zeros((8, 3), int), np.zeros(8, int)), key=KEY)
    with pytest.raises(TypeError, match="network must be callable"):
        lipschitz_certificate(3, (X, np.zeros(8, int)), key=KEY)
