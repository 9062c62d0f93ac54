"""Mixtures against scikit-learn and SciPy."""

import jax
import numpy as np
import pytest
from scipy import stats
from sklearn.mixture import GaussianMixture as Peer

from corollary.generative import GaussianMixture, mixture_from_quantiles

RNG = np.random.default_rng(3)
WEIGHTS, MEANS = np.array([0.3, 0.7]), np.array([[0.0, 1.0], [3.0, -1.0]])
COVARIANCES = np.array([[[1.0, 0.4], [0.4, 0.8]], [[0.5, 0.0], [0.0, 2.0]]])


def test_densities_and_responsibilities():
    model, x = GaussianMixture(WEIGHTS, MEANS, COVARIANCES), RNG.normal(size=(6, 2))
    peer = Peer(2)
    peer.weights_, peer.means_, peer.covariances_ = WEIGHTS, MEANS, COVARIANCES
    peer.precisions_cholesky_ = np.array([np.linalg.inv(np.linalg.cholesky(c)).T for c in COVARIANCES])
    density, shares = jax.jit(jax.vmap(lambda x: (model.log_prob(x), model.responsibilities(x))))(x)
    np.testing.assert_allclose(density, peer.score_samples(x), rtol=1e-12)
    np.testing.assert_allclose(shares, peer.predict_proba(x), rtol=1e-10)


def test_samples():
    model = GaussianMixture([0.3, 0.7], [[0.0], [3.0]], [[[1.0]], [[0.25]]])
    x = np.asarray(jax.jit(lambda key: model.sample(4000, key=key))(jax.random.key(0)))[:, 0]
    law = lambda t: 0.3 * stats.norm.cdf(t) + 0.7 * stats.norm.cdf(t, 3.0, 0.5)  # noqa: E731
    assert stats.kstest(x, law).pvalue > 1e-6


def test_quantiles():
    model = mixture_from_quantiles(lambda u: u**2, 4, 0.01)
    np.testing.assert_allclose(model.means[:, 0], (np.array([1, 3, 5, 7]) / 8) ** 2)


def test_sentences():
    with pytest.raises(ValueError, match="masses must add up to 1"):
        GaussianMixture([0.3, 0.3], MEANS, COVARIANCES)
    with pytest.raises(TypeError, match="quantile must be"):
        mixture_from_quantiles(1.0, 3, 0.1)
