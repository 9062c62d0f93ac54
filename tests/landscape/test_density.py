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


def test_defaults_of_mean_and_smooth():
    with jax.enable_x64(True):
        spectrum = jnp.linspace(-1, 2, 40)
        found = spectral_density(lambda v: spectrum * v, 40, key=jax.random.key(0), probes=4, steps=40)
        np.testing.assert_array_equal(found.mean(), found.mean(lambda e: e))
        np.testing.assert_allclose(found.width(), 0.03, rtol=1e-6)
        grid, heights = found.grid(), jax.jit(lambda d: d.smooth())(found)
        assert grid[0] < -1
        assert grid[-1] > 2
        np.testing.assert_allclose(heights, found.smooth(grid, 0.03), rtol=1e-6)
        np.testing.assert_allclose(jnp.trapezoid(heights, grid), 1, rtol=1e-3)


def test_a_multiple_of_the_identity_has_a_width_too():
    for factor, width in ((5.0, 0.05), (0.0, 0.01)):
        found = spectral_density(lambda v, c=factor: c * v, 9, key=jax.random.key(0), probes=2, steps=1)
        np.testing.assert_allclose(found.width(), width, rtol=1e-5)
        assert np.isfinite(found.smooth()).all()


def test_plot_has_a_logarithmic_axis():
    spectrum = jnp.linspace(-1, 2, 40)
    found = spectral_density(lambda v: spectrum * v, 40, key=jax.random.key(0), probes=2, steps=10)
    spec = found.plot().to_dict()
    assert spec["encoding"]["y"]["scale"]["type"] == "log"
    heights = [row["density"] for row in spec["data"]["values"]]
    np.testing.assert_allclose(max(heights), found.smooth().max(), rtol=1e-5)
    assert min(heights) >= 0.99e-5 * max(heights)
