r"""Losses of a linear classifier with labels $y=\pm1$."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.linear import (
    hinge_loss,
    linear_margins,
    logistic_loss,
    logistic_margin_loss,
    perceptron_loss,
    perceptron_loss_gradients,
    zero_one_loss,
)


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


def test_losses():
    rng = np.random.default_rng(6)
    x, y, theta = rng.normal(size=(30, 3)), rng.choice([-1.0, 1.0], size=30), rng.normal(size=4)
    m = linear_margins(theta, x, y)
    np.testing.assert_allclose(m, y * (x @ theta[:3] + theta[3]))
    np.testing.assert_allclose(perceptron_loss(m), np.maximum(0, -np.asarray(m)))
    np.testing.assert_allclose(hinge_loss(m, width=2.0), np.maximum(0, 2 - np.asarray(m)))
    np.testing.assert_allclose(jnp.mean(logistic_margin_loss(m)), logistic_loss(theta, x, (1 + y) / 2))
    assert float(logistic_margin_loss(-1e4)) == 1e4
    np.testing.assert_allclose(zero_one_loss(theta, x, y), np.mean(np.asarray(m) < 0))
    assert float(zero_one_loss(np.zeros(2), [[1.0], [2.0]], [1, -1])) == 0.5
    assert float(zero_one_loss(np.zeros(2), [[1.0], [2.0]], [1, -1], at_zero=0)) == 1.0
    slopes = jax.vmap(jax.grad(lambda t, a, b: perceptron_loss(linear_margins(t, a[None], b[None])[0])), (None, 0, 0))
    np.testing.assert_allclose(perceptron_loss_gradients(theta, x, y), slopes(theta, x, y))
    assert not np.asarray(perceptron_loss_gradients(np.zeros(4), x, y)).any()
    np.testing.assert_allclose(perceptron_loss_gradients(np.zeros(4), x, y, at_kink=1)[:, :3], -y[:, None] * x)
