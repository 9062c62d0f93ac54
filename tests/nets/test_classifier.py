"""The classifier and its backpropagation, against automatic differentiation and PyTorch's formulas written in NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from corollary.nets import (
    MLP,
    Classifier,
    accuracy,
    classifier_backprop,
    logistic,
    mean_loss,
    parameter_count,
    relu,
    tanh,
)


def _flat(tree):
    return ravel_pytree(eqx.filter(tree, eqx.is_array))[0]


@pytest.mark.parametrize("depth", range(1, 7))
def test_backpropagation_in_both_conventions_is_the_gradient(depth):
    key = jax.random.key(depth)
    model, x = Classifier(4, 5, depth, 3, logistic, key=key), jax.random.normal(key, (4,))
    exact = _flat(jax.grad(lambda m: m.loss(x, 2))(model))
    for by in ("H", "Z"):
        np.testing.assert_allclose(_flat(classifier_backprop(model, x, 2, by).gradient), exact, atol=1e-14)


def test_the_sensitivities_are_derivatives_by_hidden_values_and_by_preactivations():
    key = jax.random.key(3)
    model, x = Classifier(4, 5, 2, 3, tanh, key=key), jax.random.normal(key, (4,))
    first, second, last = model.network.layers

    def from_hidden(h):
        return -jax.nn.log_softmax(last(second(h)))[1]

    h, z = first(x), first.preactivation(x)
    np.testing.assert_allclose(classifier_backprop(model, x, 1).deltas[0], jax.grad(from_hidden)(h), atol=1e-15)
    by_z = jax.grad(lambda z: from_hidden(jnp.tanh(z)))(z)
    np.testing.assert_allclose(classifier_backprop(model, x, 1, by="Z").deltas[0], by_z, atol=1e-15)


def test_probabilities_loss_prediction_and_accuracy():
    model = Classifier(3, 6, 2, 4, relu, key=jax.random.key(0))
    x, y = jax.random.normal(jax.random.key(1), (20, 3)), jnp.arange(20) % 4
    p = jax.vmap(model)(x)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-14)
    np.testing.assert_allclose(mean_loss(model, (x, y)), -np.log(np.asarray(p)[np.arange(20), y]).mean(), rtol=1e-13)
    assert accuracy(model, (x, y)) == np.mean(np.argmax(np.asarray(p), 1) == np.asarray(y))
    assert parameter_count(model) == 6 * 4 + 6 * 7 + 4 * 7


def test_of_takes_a_network_and_depth_one_is_the_shallow_network():
    network = MLP((3, 6, 4), tanh, key=jax.random.key(0))
    x = jnp.arange(3.0)
    expected = jax.nn.softmax(
        network.layers[1].weight @ jnp.tanh(network.layers[0].preactivation(x)) + network.layers[1].bias
    )
    np.testing.assert_allclose(Classifier.of(network)(x), expected, atol=1e-15)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m: classifier_backprop(m.network, jnp.ones(3), 0), "network must be a Classifier, got MLP"),
        (lambda m: classifier_backprop(m, jnp.ones(3), 0, by="U"), "by must be one of 'H', 'Z', got 'U'"),
        (lambda m: classifier_backprop(m, jnp.ones(2), 0), r"x must have shape \(3,\), got \(2,\)"),
        (lambda m: classifier_backprop(m, jnp.ones(3), 4), "y must hold labels from 0 to 3, got 4"),
        (lambda m: Classifier.of(3), "network must be an MLP, got int"),
        (lambda m: mean_loss(m, (jnp.ones((2, 3)), [0])), "y must have shape"),
        (lambda m: accuracy(m, (jnp.ones((2, 3)), [0, 9])), "y must hold labels from 0 to 3, got 9 at index 1"),
        (lambda m: Classifier(3, 6, 0, 4, key=jax.random.key(0)), "depth must be at least 1, got 0"),
        (
            lambda m: classifier_backprop(Classifier(3, 6, 1, 4, jnp.tanh, key=jax.random.key(0)), jnp.ones(3), 0),
            "network must have an Activation",
        ),
        (
            lambda m: classifier_backprop(
                Classifier.of(MLP((3, 6, 4), tanh, key=jax.random.key(0), bias=False)), jnp.ones(3), 0
            ),
            "network must have biases",
        ),
    ],
)
def test_bad_input(call, sentence):
    model = Classifier(3, 6, 2, 4, key=jax.random.key(0))
    with pytest.raises((TypeError, ValueError), match=sentence):
        call(model)
