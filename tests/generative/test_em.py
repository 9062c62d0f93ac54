"""EM against scikit-learn, iterate by iterate; turns that are not exact."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as Peer

from corollary.generative import GaussianMixture, em, mean_log_likelihood, variational_em

RNG = np.random.default_rng(8)
X = np.concatenate([RNG.normal(size=(30, 2)), RNG.normal(size=(20, 2)) @ [[0.5, 0.3], [0.0, 1.0]] + [2.0, 1.0]])
WEIGHTS, MEANS, COVARIANCES = np.array([0.5, 0.5]), np.array([[0.0, 1.0], [1.0, 0.0]]), np.stack([np.eye(2)] * 2)


def start():
    return GaussianMixture(WEIGHTS, MEANS, COVARIANCES)


@pytest.fixture(scope="module")
def iterates():
    with jax.enable_x64(True):
        one = jax.jit(lambda mixture: em(mixture, X, 1))
        found, mixture = [], start()
        for _ in range(6):
            fitted = one(mixture)
            mixture = fitted.mixture
            found.append((mixture, float(fitted.bounds[0])))
        return found


@pytest.mark.parametrize("steps", [1, 2, 6])
def test_iterates_are_those_of_scikit_learn(iterates, steps):
    peer = Peer(
        2, max_iter=steps, tol=0, reg_covar=0, weights_init=WEIGHTS, means_init=MEANS, precisions_init=COVARIANCES
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer.fit(X)
    mixture, likelihood = iterates[steps - 1]
    np.testing.assert_allclose(mixture.weights, peer.weights_, rtol=1e-10)
    np.testing.assert_allclose(mixture.means, peer.means_, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(mixture.covariances, peer.covariances_, rtol=1e-9, atol=1e-12)
    assert likelihood == pytest.approx(peer.lower_bound_, rel=1e-10)


def test_exact_turns_are_em_and_shared_posteriors_are_not(iterates):
    fitted = jax.jit(lambda m: variational_em(m, X, 6))(start())
    np.testing.assert_allclose(fitted.mixture.means, iterates[-1][0].means, rtol=1e-12)
    np.testing.assert_allclose(fitted.bounds, [bound for _, bound in iterates], rtol=1e-12)
    shared = jax.jit(lambda m: variational_em(m, X, 6, groups=np.arange(50) // 2))(start())
    assert (np.diff(shared.bounds) >= -1e-12).all()
    assert float(shared.bounds[-1]) < float(mean_log_likelihood(shared.mixture, X))


def test_sentences():
    with pytest.raises(TypeError, match="mixture must be a GaussianMixture to start from"):
        em(jnp.ones(3), X, 2)
    with pytest.raises(ValueError, match="x must have shape"):
        em(start(), X[:, :1], 2)
    with pytest.raises(ValueError, match=r"step must be in \(0, 1\]"):
        variational_em(start(), X, 2, step=0.0)
