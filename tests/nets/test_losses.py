import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets import empirical_risk, train_validation_split
from corollary.network import BatchLoss

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(20, 3))
Y = RNG.integers(0, 3, 20)


def test_empirical_risk():
    w = RNG.normal(size=3)
    risk = empirical_risk(lambda x: w @ x, "squared", (Z, Y.astype(float)))
    np.testing.assert_allclose(risk, np.mean((Z @ w - Y) ** 2) / 2, rtol=1e-12)


@pytest.mark.parametrize("fraction", [0.01, 0.3, 0.99])
def test_split(fraction):
    train, validation = train_validation_split((Z, Y), fraction, key=jax.random.key(1))
    held = len(validation[0])
    assert held == min(max(round(20 * fraction), 1), 19)
    rows = np.concatenate([np.column_stack(train), np.column_stack(validation)])
    np.testing.assert_array_equal(np.unique(rows, axis=0), np.unique(np.column_stack((Z, Y)), axis=0))


def test_bad_input():
    with pytest.raises(ValueError, match="data must hold arrays with the examples along one common first axis"):
        empirical_risk(jnp.sin, "squared", (Z, Y[:3]))
    with pytest.raises(TypeError, match="network must be callable with one example, got int"):
        empirical_risk(3, "squared", (Z, Y))
    with pytest.raises(TypeError, match="empirical_risk needs the loss of every example on its own"):
        empirical_risk(jnp.sin, BatchLoss(lambda network, batch: 0.0), (Z, Y))
    with pytest.raises(ValueError, match="same first axis"):
        train_validation_split((Z, Y[:3]), 0.5, key=jax.random.key(0))
    with pytest.raises(ValueError, match="at least two examples"):
        train_validation_split((Z[:1],), 0.5, key=jax.random.key(0))
    with pytest.raises(ValueError, match="fraction must be in .0, 1."):
        train_validation_split((Z,), 1.0, key=jax.random.key(0))
    with pytest.raises(TypeError, match="fraction must be a Python number"):
        train_validation_split((Z,), None, key=jax.random.key(0))
