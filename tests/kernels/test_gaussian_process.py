"""Gaussian processes: random functions of which any finitely many values are jointly normal."""

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from corollary.kernels import GaussianKernel, GaussianProcess, Law, sample_law


def test_conditioning_against_scikit_learn():
    t, x, y = np.linspace(-2, 2, 7)[:, None], np.array([[-1.0], [0.2], [1.5]]), np.array([1.0, -0.5, 0.3])
    process = GaussianProcess(GaussianKernel(0.8))
    for noise in (1e-10, 0.3):
        theirs = GaussianProcessRegressor(RBF(0.8), alpha=noise, optimizer=None).fit(x, y)
        mean, cov = theirs.predict(t, return_cov=True)
        ours = process.condition(x, y, t, noise)
        np.testing.assert_allclose(ours.mean, mean, atol=1e-8)
        np.testing.assert_allclose(ours.covariance, cov, atol=1e-8)
    shifted = GaussianProcess(GaussianKernel(0.8), lambda p: 2 * p[0])
    np.testing.assert_allclose(
        shifted.condition(x[:, 0], y + 2 * x[:, 0], t[:, 0]).mean,
        process.condition(x, y, t).mean + 2 * t[:, 0],
        atol=1e-9,
    )


def test_samples_have_the_law():
    law = GaussianProcess(GaussianKernel(), lambda p: p[0]).law(np.linspace(0, 3, 6))
    np.testing.assert_allclose(law.mean, np.linspace(0, 3, 6))
    n = 40_000
    draws = np.asarray(
        GaussianProcess(GaussianKernel(), lambda p: p[0]).sample(np.linspace(0, 3, 6), n, key=jax.random.key(0))
    )
    assert np.abs(draws.mean(0) - law.mean).max() < 5 / n**0.5
    assert np.abs(np.cov(draws.T) - law.covariance).max() < 5 * (2 / n) ** 0.5
    singular = sample_law(Law(jnp.zeros(2), jnp.ones((2, 2))), 10, key=jax.random.key(0))
    np.testing.assert_allclose(singular[:, 0], singular[:, 1], atol=1e-7)
