"""The spectral density of a symmetric matrix known only by its products: stochastic Lanczos quadrature."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.landscape import spectral_density


def test_density_moments_are_exact_for_every_probe():
    """Gauss quadrature of s nodes integrates polynomials of degree 2s-1: for a multiple of the identity, everything."""
    with jax.enable_x64(True):
        spectrum = jnp.linspace(-1, 2, 40)
        found = spectral_density(lambda v: spectrum * v, 40, key=jax.random.key(0), probes=400, steps=5)
        for power in range(1, 10):
            moments = found.mean(lambda e: e**power)  # noqa: B023
            exact = np.mean(np.asarray(spectrum) ** power)
            assert abs(moments.mean() - exact) < 5 * moments.std() / np.sqrt(400)
