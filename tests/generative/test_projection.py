"""Projections on families that hold the target, and on one that does not, against a grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.generative import DiagonalGaussian, kl_projection


def family(theta):
    return DiagonalGaussian(theta[:1], jnp.exp(theta[1:]))


def test_the_nearest_of_a_family_that_does_not_hold_the_target():
    target = lambda z: -(z[0] ** 4) / 4 + z[0] / 2  # noqa: E731
    found = jax.jit(lambda start: kl_projection(target, family, start, steps=25))(jnp.zeros(2))
    means, logs = np.meshgrid(np.linspace(-1, 1, 201), np.linspace(-1.5, 0.5, 201))
    s = np.exp(logs)
    # the mean of z⁴ / 4 - z / 2 less the entropy, in closed form
    value = (means**4 + 6 * means**2 * s**2 + 3 * s**4) / 4 - means / 2 - logs - np.log(2 * np.pi * np.e) / 2
    at = np.unravel_index(value.argmin(), value.shape)
    assert float(found.values[-1]) == pytest.approx(value.min(), abs=1e-4)
    assert float(found.values[-1]) <= value.min() + 1e-10
    np.testing.assert_allclose(found.theta, [means[at], logs[at]], atol=0.011)


def test_sentences():
    with pytest.raises(TypeError, match="log_density must be a function"):
        kl_projection(1.0, family, jnp.zeros(2))
    with pytest.raises(TypeError, match="quadrature takes a DiagonalGaussian"):
        kl_projection(jnp.sum, lambda theta: theta, jnp.zeros(2))
