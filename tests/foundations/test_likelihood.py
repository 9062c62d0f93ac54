"""Likelihoods against SciPy and scikit-learn."""

import jax
import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss

from corollary.foundations import bernoulli_mass, likelihood, negative_log_likelihood


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_mass_likelihood_and_loss():
    rng = np.random.default_rng(0)
    p, y = rng.uniform(size=20), rng.integers(0, 2, 20)
    np.testing.assert_allclose(bernoulli_mass(p, y), stats.bernoulli.pmf(y, p), rtol=1e-12)
    assert likelihood(p, y) == pytest.approx(np.prod(stats.bernoulli.pmf(y, p)), rel=1e-12)
    assert negative_log_likelihood(p, y) == pytest.approx(log_loss(y, p), rel=1e-12)


def test_certainty():
    assert likelihood([0.0, 1.0], [0, 1]) == 1
    assert negative_log_likelihood([0.0, 1.0], [0, 1]) == 0
    assert likelihood([0.0, 1.0], [1, 1]) == 0
    assert negative_log_likelihood([0.0, 1.0], [1, 1]) == np.inf


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: likelihood([1.5], [1]), r"p must be in \[0, 1\], got 1.5 at index 0"),
        (lambda: likelihood([0.5], [2]), "y must hold labels from 0 to 1, got 2"),
        (lambda: negative_log_likelihood([0.5, 0.5], [1]), r"y must have shape \(n,\) with n = 2"),
        (lambda: bernoulli_mass([0.5], [0.5]), "y must hold whole numbers as class labels"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
