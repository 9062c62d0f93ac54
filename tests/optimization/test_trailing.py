"""The moving average beside plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.optimization import point, trailing


def test_the_average_of_a_known_path():
    optimiser, theta = trailing(optax.sgd(0.1), 0.3), {"a": jnp.array([1.0, 2.0])}
    state, mean, plain = optimiser.init(theta), np.array([1.0, 2.0]), np.array([1.0, 2.0])
    for k in range(6):
        updates, state = jax.jit(optimiser.update)({"a": 2 * theta["a"]}, state, theta)
        theta = optax.apply_updates(theta, updates)
        plain = plain - 0.1 * 2 * plain
        share = min(0.3, (k + 1) / (k + 10))
        mean = share * mean + (1 - share) * plain
    np.testing.assert_allclose(theta["a"], plain, rtol=1e-12)
    np.testing.assert_allclose(point(theta, state)["a"], mean, rtol=1e-6)
    assert share == 0.3


def test_sentences():
    with pytest.raises(TypeError, match="optimiser must be an Optax transformation, got float"):
        trailing(0.1, 0.9)
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\), got 1"):
        trailing(optax.sgd(0.1), 1.0)
