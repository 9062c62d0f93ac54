"""One loop for all methods: a method is a start and a step, a trajectory is one compiled scan."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.optimization import Method, minimize, quadratic


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def test_a_method_of_ones_own_and_vmap_over_steps():
    p = quadratic(jnp.array([1.0, 4.0]))
    sign = Method(lambda p, t: t, lambda p, t, key: t - 0.1 * jnp.sign(p.gradient(t)), lambda t: t)
    assert np.allclose(minimize(p, sign, steps=3).theta[-1], 0.7)
    ends = jax.vmap(lambda eta: minimize(p, optax.sgd(eta), steps=2).theta[-1])(jnp.array([0.1, 0.25]))
    assert np.allclose(ends, [[0.81, 0.36], [0.5625, 0.0]])
