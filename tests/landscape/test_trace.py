"""The trace of a matrix known only by its products, with its standard error."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary import landscape


def test_hutch_plus_plus_is_exact_where_the_rank_is_small():
    with jax.enable_x64(True):
        basis = jnp.linalg.qr(jax.random.normal(jax.random.key(0), (200, 4)))[0]
        product = lambda v: basis @ (jnp.array([5.0, 3.0, -2.0, 1.0]) * (basis.T @ v))  # noqa: E731
        plus = landscape.hutch_plus_plus(product, 200, key=jax.random.key(1), probes=30)
        plain = landscape.hutchinson(product, 200, key=jax.random.key(1), probes=30)
        np.testing.assert_allclose(plus.value, 7, atol=1e-10)
        assert abs(plain.value - 7) > 1e-3
