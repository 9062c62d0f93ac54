"""Activations with their derivatives written out, so that backpropagation does not borrow them from JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.autodiff import ACTIVATION_PAIRS


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", ACTIVATION_PAIRS)
def test_slopes_of_activations(name):
    value, slope = ACTIVATION_PAIRS[name]
    z = jnp.array([-30.0, -1.3, -0.2, 0.4, 2.0, 30.0])
    np.testing.assert_allclose(slope(z), jax.vmap(jax.grad(lambda z: jnp.sum(value(z))))(z), rtol=1e-9, atol=1e-15)
