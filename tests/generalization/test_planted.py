"""Planted data: their moments, and the risk of a linear model by sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.generalization import Planted, linear_risk

KEY = jax.random.key(0)
W = jnp.array([1.0, -2.0, 0.5])
MIX = jnp.array([[1.0, 0.3, 0.0], [0.0, 1.0, -0.5], [0.2, 0.0, 0.7]])


def inputs(key):
    return MIX @ jax.random.normal(key, (3,))


def test_risk_against_a_sample():
    x, y = Planted(lambda x: W @ x, inputs, 0.4).sample(200_000, key=KEY)
    v = jnp.array([[0.9, -1.5, 0.0], [1.0, -2.0, 0.5]])
    measured = jnp.mean((y[:, None] - x @ v.T) ** 2, 0)
    # 200,000 squares of relative deviation √2: 4.5 standard errors are 1.5 %
    np.testing.assert_allclose(linear_risk(v, W, MIX @ MIX.T, 0.4), measured, rtol=0.015)
    assert float(linear_risk(W, W, MIX @ MIX.T, 0.4)) == pytest.approx(0.16)


def test_sentences():
    with pytest.raises(TypeError, match="truth must be a function"):
        Planted(1.0, inputs, 0.1)
    with pytest.raises(ValueError, match="noise must be zero or more"):
        Planted(jnp.sum, inputs, -0.1)
    with pytest.raises(ValueError, match="w must have shape"):
        linear_risk(jnp.ones(2), W, jnp.eye(3), 0.1)
