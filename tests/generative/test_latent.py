"""The linear model against SciPy, quadrature and scikit-learn's probabilistic PCA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.decomposition import PCA

from corollary.generative import LatentModel, LinearGaussian

RNG = np.random.default_rng(2)
WEIGHTS, BIAS, X = RNG.normal(size=(3, 2)), RNG.normal(size=3), RNG.normal(size=3)


def test_evidence_and_posterior_in_closed_form():
    model = LinearGaussian(WEIGHTS, BIAS, 0.7)
    assert float(model.log_evidence(X)) == pytest.approx(
        stats.multivariate_normal(BIAS, WEIGHTS @ WEIGHTS.T + 0.7 * np.eye(3)).logpdf(X)
    )
    assert float(LatentModel(model.decoder, 2).log_evidence(X, nodes=120)) == pytest.approx(
        float(model.log_evidence(X)), abs=1e-10
    )
    posterior, z = model.posterior(X), np.array([0.2, -0.4])
    assert float(posterior.log_prob(z)) == pytest.approx(float(model.log_joint(X, z) - model.log_evidence(X)))


def test_the_best_fit_is_that_of_scikit_learn():
    x = RNG.normal(size=(40, 2)) @ WEIGHTS.T + 0.3 * RNG.normal(size=(40, 3))
    peer = PCA(2).fit(x)  # takes its covariance with n - 1
    scaled = peer.mean_ + (x - peer.mean_) * np.sqrt(40 / 39)
    model = LinearGaussian.fit(scaled, 2)
    np.testing.assert_allclose(model.marginal().covariance, peer.get_covariance(), atol=1e-12)
    assert float(jnp.mean(jax.vmap(model.log_evidence)(x))) == pytest.approx(peer.score(x))
    with pytest.raises(ValueError, match="the likelihood has no maximum"):
        LinearGaussian.fit(x[:, :1] * np.ones(3), 2)


def test_samples_have_the_marginal_law():
    model = LinearGaussian(WEIGHTS, BIAS, 0.7)
    z, x = jax.jit(lambda key: model.sample(5000, key=key))(jax.random.key(1))
    assert z.shape == (5000, 2)
    deviation = np.sqrt(WEIGHTS[0] @ WEIGHTS[0] + 0.7)
    assert stats.kstest(np.asarray(x)[:, 0], stats.norm(BIAS[0], deviation).cdf).pvalue > 1e-6
    code = jax.jit(jax.vmap(lambda key: model.encode(X, key=key)))(jax.random.split(jax.random.key(2), 4000))
    exact = model.posterior(X)
    law = stats.norm(float(exact.mean[1]), float(exact.covariance[1, 1]) ** 0.5)
    assert stats.kstest(np.asarray(code)[:, 1], law.cdf).pvalue > 1e-6


def test_sentences():
    with pytest.raises(TypeError, match="decoder must have log_prob"):
        LatentModel(jnp.tanh, 2)
    with pytest.raises(ValueError, match="variance must be positive"):
        LinearGaussian(WEIGHTS, BIAS, 0.0)
    with pytest.raises(ValueError, match="quadrature takes latent variables of dimension 1 or 2"):
        LatentModel(LinearGaussian(np.ones((1, 3)), [0.0], 1.0).decoder, 3).log_evidence([0.0])
