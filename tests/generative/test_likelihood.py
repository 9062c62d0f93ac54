"""Likelihoods against SciPy, and the fit with one variance against nearby ones."""

import numpy as np
import pytest
from scipy import stats

from corollary.generative import fit_isotropic, held_out_gap, mean_log_likelihood

RNG = np.random.default_rng(9)
X, TEST = RNG.normal(size=(20, 3)) * [1.0, 2.0, 0.5], RNG.normal(size=(7, 3))


def test_the_fit_and_its_likelihoods():
    law = fit_isotropic(X)
    variance = X.var(0).mean()
    np.testing.assert_allclose(law.covariance, variance * np.eye(3), rtol=1e-12)
    exact = lambda x, v: stats.multivariate_normal(X.mean(0), v * np.eye(3)).logpdf(x).mean()  # noqa: E731
    assert float(mean_log_likelihood(law, X)) == pytest.approx(exact(X, variance))
    assert exact(X, variance) > max(exact(X, 1.01 * variance), exact(X, 0.99 * variance))
    assert float(held_out_gap(law, X, TEST)) == pytest.approx(exact(X, variance) - exact(TEST, variance))


def test_sentences():
    with pytest.raises(TypeError, match="law must have log_prob"):
        mean_log_likelihood(1.0, X)
    with pytest.raises(ValueError, match="two different examples"):
        fit_isotropic(np.ones((3, 2)))
