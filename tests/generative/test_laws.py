"""Normal laws of latent variables against SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from corollary.foundations import Gaussian
from corollary.generative import DiagonalGaussian, gaussian_rule

MEAN, DEVIATION = np.array([0.3, -1.0]), np.array([0.5, 2.0])


def test_density_samples_and_divergence():
    law = DiagonalGaussian(MEAN, DEVIATION)
    exact = stats.multivariate_normal(MEAN, np.diag(DEVIATION**2))
    assert float(law.log_prob([0.1, 0.2])) == pytest.approx(exact.logpdf([0.1, 0.2]))
    z = np.asarray(law.sample(4000, key=jax.random.key(0)))
    for column, mean, deviation in zip(z.T, MEAN, DEVIATION, strict=True):
        assert stats.kstest(column, stats.norm(mean, deviation).cdf).pvalue > 1e-6
    assert float(law.kl_to_standard()) == pytest.approx(
        float(Gaussian(MEAN, np.diag(DEVIATION**2)).kl(Gaussian(np.zeros(2), np.eye(2))))
    )


def test_rules_are_exact_for_low_powers():
    turn = np.array([[2.0, 0.6], [0.6, 0.5]])
    z, w = gaussian_rule(Gaussian(MEAN, turn), 41)
    np.testing.assert_allclose(w @ np.asarray(z), MEAN, atol=1e-12)
    centred = np.asarray(z) - MEAN
    np.testing.assert_allclose((np.asarray(w)[:, None] * centred).T @ centred, turn, atol=1e-10)


def test_sentences():
    with pytest.raises(ValueError, match="deviation must be positive"):
        DiagonalGaussian([0.0], [0.0])
    with pytest.raises(ValueError, match="dimension 1 or 2, got 3"):
        gaussian_rule(DiagonalGaussian(jnp.zeros(3), jnp.ones(3)), 5)
