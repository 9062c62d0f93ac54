"""The networks that the texts differentiate by hand, with every intermediate quantity under its name."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from corollary.autodiff import (
    ACTIVATION_PAIRS,
    TwoLayer221,
    WorkedMLP,
    backprop_221,
    mlp_gradient,
    one_neuron,
    scalar_chain,
    sgd_step,
)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_worked_examples():
    x, y = jnp.array([0.4, -0.8]), 0.3
    net = TwoLayer221("tanh", key=jax.random.key(0))
    expected = jax.grad(lambda n: (y - n(x)) ** 2 / 2)(net)
    np.testing.assert_allclose(ravel_pytree(net.backprop(x, y))[0], ravel_pytree(expected)[0], rtol=1e-12)
    out = backprop_221(net.w1, net.w2, x, y)
    by_w, by_v = jax.grad(lambda w, v: backprop_221(w, v, x, y).loss, (0, 1))(net.w1, net.w2)
    np.testing.assert_allclose(out.by_w, by_w, rtol=1e-12)
    np.testing.assert_allclose(out.by_v, by_v, rtol=1e-12)
    neuron = one_neuron(x, y, 1.5, jnp.array([1.0, 2.0]), "softplus")
    by_w = jax.grad(lambda w: one_neuron(x, y, 1.5, w, "softplus").loss)(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(neuron.by_w, by_w, rtol=1e-12)
    model = WorkedMLP(2, 3, key=jax.random.key(1))
    expected = jax.grad(lambda m: (m(x) - y) ** 2 / 2)(model)
    np.testing.assert_allclose(ravel_pytree(mlp_gradient(model, x, y))[0], ravel_pytree(expected)[0], rtol=1e-12)
    moved = sgd_step(model, x, y, 0.1)
    np.testing.assert_allclose(moved.beta, model.beta - 0.1 * expected.beta, rtol=1e-12)
    assert (moved(x) - y) ** 2 < (model(x) - y) ** 2


def test_scalar_chain():
    head = (lambda h: h**2, lambda h: 2 * h)
    pairs = [ACTIVATION_PAIRS["tanh"], ACTIVATION_PAIRS["sine"]]
    w, b = jnp.array([0.5, 1.2]), jnp.array([0.1, -0.3])
    out = scalar_chain(0.7, w, b, pairs, head)
    by_w, by_b = jax.grad(lambda w, b: scalar_chain(0.7, w, b, pairs, head).output, (0, 1))(w, b)
    np.testing.assert_allclose(out.by_weights, by_w, rtol=1e-12)
    np.testing.assert_allclose(out.by_biases, by_b, rtol=1e-12)


def test_modules_are_frozen():
    net = TwoLayer221(key=jax.random.key(0))
    with pytest.raises(AttributeError):
        net.w1 = 0
    assert isinstance(net, eqx.Module)
