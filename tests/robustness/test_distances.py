"""Both ends of the smallest perturbation: around the exact distance of linear models and of small ReLU networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.nets import MLP, relu
from corollary.robustness import Ball, flip_distance, relu_worst_margin, robust_accuracy, smallest_perturbation

KEY = jax.random.key(0)


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_linear_classifiers(p):
    w, bias = np.array([1.0, -2.0, 0.5]), 0.3
    network = Network(lambda q, x: (q[0] @ x + q[1])[None], (jnp.asarray(w), jnp.asarray(bias)))
    x = np.random.default_rng(0).normal(size=(5, 3))
    y = np.sign(x @ w + bias)
    found = smallest_perturbation(network, (x, y), p, key=KEY)
    exact = np.asarray(flip_distance(w, x, p, bias))
    np.testing.assert_allclose(found.upper, exact, rtol=1e-6)
    assert (np.asarray(found.lower) <= exact * (1 + 1e-9)).all()
    if p == 2:  # the only norm in which the certificate is that of the classifier itself
        np.testing.assert_allclose(found.lower, exact, rtol=1e-6)
    assert (np.sign(np.asarray(found.witness) @ w + bias) != y).all()


def test_a_small_relu_network_against_all_its_patterns():
    network = MLP((2, 6, 2), relu, key=jax.random.key(4), bias=False)
    x = jax.random.uniform(jax.random.key(1), (4, 2))
    y = jnp.argmax(jax.vmap(network)(x), 1)
    found = smallest_perturbation(network, (x, y), np.inf, key=KEY)
    weight, outer = (layer.weight for layer in network.layers)

    def worst(i, radius):
        return relu_worst_margin(weight, jnp.zeros(6), outer, x[i : i + 1], y[i : i + 1], Ball(np.inf, radius))

    for i in range(4):
        if np.isfinite(found.upper[i]):
            assert worst(i, 1.01 * found.upper[i]).upper[0] < 0
            assert worst(i, 0.99 * found.upper[i]).lower[0] > 0  # so that the witness is within one percent of the best
        assert worst(i, found.lower[i]).lower[0] >= -1e-9


def test_a_witness_has_another_class_however_the_network_is_run():
    network = MLP((64, 128, 128, 10), relu, key=jax.random.key(5))
    x = jax.random.normal(jax.random.key(6), (40, 64), jnp.float32)
    y = jnp.argmax(jax.vmap(network)(x), 1)
    found = smallest_perturbation(network, (x, y), 2, rounds=3, steps=10, key=KEY)
    assert found.witness.dtype == jnp.float32
    there = np.isfinite(found.upper)
    assert there.all()
    alone = jax.lax.map(network, found.witness).argmax(1)  # one by one, in another program
    by_hand = np.asarray(found.witness, np.float64)
    for layer in network.layers[:-1]:
        by_hand = np.maximum(by_hand @ np.asarray(layer.weight, float).T + np.asarray(layer.bias, float), 0)
    last = network.layers[-1]
    by_hand = by_hand @ np.asarray(last.weight, float).T + np.asarray(last.bias, float)
    assert not np.any(alone == y)
    assert not np.any(by_hand.argmax(1) == np.asarray(y))


def test_wrong_examples_are_at_distance_zero_and_a_constant_network_at_none():
    network = Network(lambda w, x: (w @ x)[None], jnp.array([1.0, 0.0]))
    found = smallest_perturbation(network, (jnp.array([[1.0, 0.0]]), jnp.array([-1.0])), 2, key=KEY)
    assert found.upper[0] == 0
    assert found.lower[0] == 0
    constant = Network(lambda w, x: (w + 0 * x.sum())[None], jnp.ones(()))
    found = smallest_perturbation(constant, (jnp.array([[1.0, 0.0]]), jnp.array([1.0])), 2, key=KEY)
    assert np.isinf(found.upper[0])


def test_where_there_is_no_slope_and_what_was_certified_before():
    step = Network(lambda w, x: jnp.round(w * x), jnp.ones(()))
    x, y = jnp.array([[0.2], [2.7]]), jnp.array([-1.0, 1.0])
    found = smallest_perturbation(step, (x, y), 2, rounds=2, steps=2, key=KEY, certified=np.array([0.0, 0.5]))
    assert found.dead.all()
    assert np.isinf(found.upper[1])
    np.testing.assert_array_equal(found.lower, [0.0, 0.5])
    linear = Network(lambda w, x: w * x, jnp.ones(()))
    found = smallest_perturbation(linear, (x[1:], y[1:]), 2, rounds=2, steps=2, key=KEY, certified=np.array([2.0]))
    assert not found.dead.any()
    np.testing.assert_allclose([found.lower[0], found.upper[0]], [2.0, 2.7], rtol=1e-5)
    with pytest.raises(ArithmeticError, match="within a certified distance"):
        smallest_perturbation(linear, (x[1:], y[1:]), 2, rounds=2, steps=2, key=KEY, certified=np.array([3.0]))
    with pytest.raises(ValueError, match="a distance for each of 1 examples"):
        smallest_perturbation(linear, (x[1:], y[1:]), 2, rounds=2, steps=2, key=KEY, certified=np.ones(2))


def test_robust_accuracy_of_a_linear_classifier():
    w = np.array([3.0, 4.0])
    network = Network(lambda w, x: (w @ x)[None], jnp.asarray(w))
    x = np.random.default_rng(2).normal(size=(20, 2))
    y = np.sign(x @ w)
    y[:2] *= -1
    radii = [0.0, 0.3, 0.8]
    curve = robust_accuracy(network, "logistic", (x, y), radii, p=2, key=KEY)
    exact = [(y * (x @ w) / 5 > r).mean() for r in radii]
    np.testing.assert_allclose(curve.upper, exact)
    np.testing.assert_allclose(curve.lower, exact)
    assert (curve.interval[:, 0] < curve.lower).all()
    assert (curve.interval[:, 1] > curve.upper).all()
    assert curve.plot().to_dict()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda n, d: smallest_perturbation(n, d, 3, key=KEY), "p must be one of"),
        (lambda n, d: smallest_perturbation(n, d, 2, low=5.0, key=KEY), "lie in the box"),
        (lambda n, d: smallest_perturbation(n, (d[0], np.array([0.5, 2.5])), 2, key=KEY), "classes for targets"),
        (lambda n, d: robust_accuracy(n, "logistic", d, [0.2, 0.1], p=2, key=KEY), "radii must increase"),
        (lambda n, d: robust_accuracy(n, "logistic", d, [-0.2], p=2, key=KEY), "radii must be zero or more"),
        (lambda n, d: robust_accuracy(n, "squared", (d[0], np.array([0.5, 2.5])), [0.1], p=2, key=KEY), "classes"),
    ],
)
def test_sentences(call, sentence):
    network = Network(lambda w, x: (w @ x)[None], jnp.array([1.0, 0.0]))
    with pytest.raises(ValueError, match=sentence):
        call(network, (np.ones((2, 2)), np.array([1.0, -1.0])))
