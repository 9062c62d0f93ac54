"""Adversarial training of linear models against the closed form, and Danskin's theorem with and without a tie."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.optimize import minimize

from corollary import Network
from corollary.nets import MLP, tanh, train
from corollary.robustness import Ball, adversarial_loss, danskin_gap, linear_adversarial_risk


def linear(w):
    return Network(lambda w, x: (w @ x)[None], w)


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_the_loss_of_a_linear_model_and_its_gradient(p):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(8, 3)), jnp.asarray(rng.normal(size=3))
    y, ball = np.sign(x[:, 0]), Ball(p, 0.3)
    loss = adversarial_loss("logistic", ball)
    value, slope = jax.value_and_grad(lambda w: loss(linear(w), (x, y)))(w)
    exact = lambda w: linear_adversarial_risk(w, x, y, ball)  # noqa: E731
    np.testing.assert_allclose(value, exact(w), rtol=1e-12)
    width = 1e-6
    quotients = [(exact(w + width * e) - exact(w - width * e)) / (2 * width) for e in np.eye(3)]
    np.testing.assert_allclose(slope, quotients, atol=1e-8)


def test_training_ends_at_the_minimiser_of_the_closed_form():
    rng = np.random.default_rng(1)
    y = np.where(np.arange(40) % 2, 1.0, -1.0)
    x = y[:, None] * np.array([1.0, 0.8]) + 2 * rng.normal(size=(40, 2))
    ball = Ball(2, 0.2)
    start = linear(jnp.array([0.1, 0.1]))
    found = train(start, adversarial_loss("logistic", ball, steps=1), (x, y), optax.sgd(1.0), steps=600).network.params
    exact = minimize(lambda w: float(linear_adversarial_risk(w, x, y, ball)), np.ones(2), tol=1e-10).x
    np.testing.assert_allclose(found, exact, atol=1e-4)


def test_danskin_holds_where_the_maximiser_is_unique():
    network = MLP((2, 6, 2), tanh, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (4, 2))
    y = jnp.array([0, 1, 1, 0])
    found = danskin_gap(network, "cross_entropy", (x, y), Ball(np.inf, 0.1), key=jax.random.key(2), width=1e-5)
    assert found.gap < 1e-4 * jnp.abs(found.slope) + 1e-5


def test_a_tie_has_two_slopes():
    network = Network(lambda w, x: (w @ x)[None], jnp.zeros(1))
    along = Network(lambda w, x: (w @ x)[None], jnp.ones(1))
    data = jnp.array([[2.0]]), jnp.array([1.0])
    # max over |δ| <= 1/2 of 1 - w (2 + δ) is 1 - 2w + |w|/2: to the right -3/2, to the left -5/2
    found = danskin_gap(network, "hinge", data, Ball(2, 0.5), direction=along, width=1e-3)
    np.testing.assert_allclose([found.forward, found.backward], [-1.5, -2.5], rtol=1e-9)
    assert found.gap >= 0.5 - 1e-9


def test_sentences():
    network, data = MLP((2, 2), key=jax.random.key(0)), (jnp.zeros((1, 2)), jnp.array([0]))
    with pytest.raises(TypeError, match="must be a Ball"):
        adversarial_loss("logistic", 0.1)
    loss = adversarial_loss("cross_entropy", Ball(2, 0.1, low=0.0, high=1.0))
    with pytest.raises(TypeError, match="moves inputs by small amounts, and these have dtype int"):
        train(network, loss, (jnp.zeros((1, 2), int), data[1]), optax.sgd(0.1), steps=1)
    with pytest.raises(ValueError, match="the inputs must lie in the box of the ball"):
        loss(network, (data[0] + 2, data[1]))
    with pytest.raises(ValueError, match="targets must hold labels from 0 to 1, got 2"):
        loss(network, (data[0], data[1] + 2))
    with pytest.raises(ValueError, match="steps must be at least 1"):
        adversarial_loss("logistic", Ball(2, 0.1), steps=0)
    with pytest.raises(TypeError, match="key must be given"):
        danskin_gap(network, "cross_entropy", data, Ball(2, 0.1))
    with pytest.raises(ValueError, match="direction must have the structure"):
        danskin_gap(network, "cross_entropy", data, Ball(2, 0.1), direction=jnp.ones(2))
