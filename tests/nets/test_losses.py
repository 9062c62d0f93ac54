import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import log_loss

from corollary.nets import (
    empirical_risk,
    half_squared_error,
    logistic_cross_entropy,
    softmax_cross_entropy,
    train_validation_split,
)

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(20, 3))
Y = RNG.integers(0, 3, 20)


def test_half_squared_error():
    assert half_squared_error(1.0, 3.0) == 2.0
    np.testing.assert_allclose(jax.grad(half_squared_error, 1)(Z[0], jnp.asarray(Z[1])), Z[1] - Z[0])


def test_softmax_cross_entropy_against_scikit_learn():
    p = np.exp(Z) / np.exp(Z).sum(1, keepdims=True)
    np.testing.assert_allclose(
        np.mean(jax.vmap(softmax_cross_entropy)(Y, Z)), log_loss(Y, p, labels=[0, 1, 2]), rtol=1e-10
    )
    hot = np.eye(3)[Y]
    np.testing.assert_allclose(jax.vmap(softmax_cross_entropy)(hot, Z), jax.vmap(softmax_cross_entropy)(Y, Z))
    np.testing.assert_allclose(jax.grad(softmax_cross_entropy, 1)(1, jnp.asarray(Z[0])), p[0] - [0, 1, 0], rtol=1e-10)


def test_logistic_cross_entropy():
    y = (Y > 0).astype(float)
    p = 1 / (1 + np.exp(-Z[:, 0]))
    np.testing.assert_allclose(np.mean(logistic_cross_entropy(y, Z[:, 0])), log_loss(y, p), rtol=1e-10)
    np.testing.assert_allclose(logistic_cross_entropy(np.array([0.0, 1.0]), np.array([1e4, -1e4])), 1e4)
    assert logistic_cross_entropy(1.0, 800.0) == 0


def test_empirical_risk():
    w = RNG.normal(size=3)
    risk = empirical_risk(lambda x: w @ x, half_squared_error, Z, Y.astype(float))
    np.testing.assert_allclose(risk, np.mean((Z @ w - Y) ** 2) / 2, rtol=1e-12)


@pytest.mark.parametrize("fraction", [0.01, 0.3, 0.99])
def test_split(fraction):
    train, validation = train_validation_split((Z, Y), fraction, key=jax.random.key(1))
    held = len(validation[0])
    assert held == min(max(round(20 * fraction), 1), 19)
    rows = np.concatenate([np.column_stack(train), np.column_stack(validation)])
    np.testing.assert_array_equal(np.unique(rows, axis=0), np.unique(np.column_stack((Z, Y)), axis=0))


def test_bad_input():
    with pytest.raises(ValueError, match="single labels of the same shape"):
        half_squared_error(Z[0], Z)
    with pytest.raises(ValueError, match="y must be in .0, 1."):
        logistic_cross_entropy(2.0, 0.0)
    with pytest.raises(ValueError, match="y must hold labels from 0 to 2"):
        softmax_cross_entropy(3, Z[0])
    with pytest.raises(ValueError, match="sum to"):
        softmax_cross_entropy(np.array([1.0, 1.0, 0.0]), Z[0])
    with pytest.raises(ValueError, match="same first axis of examples"):
        empirical_risk(jnp.sin, half_squared_error, Z, Y[:3])
    with pytest.raises(ValueError, match="same first axis"):
        train_validation_split((Z, Y[:3]), 0.5, key=jax.random.key(0))
    with pytest.raises(ValueError, match="at least two examples"):
        train_validation_split((Z[:1],), 0.5, key=jax.random.key(0))
    with pytest.raises(ValueError, match="fraction must be in .0, 1."):
        train_validation_split((Z,), 1.0, key=jax.random.key(0))
    with pytest.raises(TypeError, match="fraction must be a number"):
        train_validation_split((Z,), None, key=jax.random.key(0))
