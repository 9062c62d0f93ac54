"""Risks of linear regression on normal data, against integration by brute force and sampling."""

import numpy as np
import pytest

from corollary.optimization import erm_expected_risk, erm_training_risk, gaussian_risk

TRUTH, THETA, SIGMA = np.array([1.0, -0.5, 0.2]), np.array([0.3, 0.4, -1.0]), 0.6
MIX = np.array([[1.0, 0.3, 0.0], [0.0, 0.8, -0.4], [0.2, 0.0, 1.5]])


def test_risk_against_gauss_hermite():
    """The loss is of second degree: three nodes a variable integrate it exactly."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    grid = np.stack(np.meshgrid(*[nodes] * 4, indexing="ij"), -1).reshape(-1, 4)
    weight = np.prod(np.stack(np.meshgrid(*[weights] * 4, indexing="ij"), -1).reshape(-1, 4), 1) / (2 * np.pi) ** 2
    x = grid[:, :3] @ MIX
    loss = 0.5 * (x @ (TRUTH - THETA) + SIGMA * grid[:, 3]) ** 2
    np.testing.assert_allclose(gaussian_risk(THETA, TRUTH, SIGMA, MIX.T @ MIX), weight @ loss, rtol=1e-12)
    np.testing.assert_allclose(gaussian_risk(THETA, TRUTH, SIGMA), gaussian_risk(THETA, TRUTH, SIGMA, np.eye(3)))
    np.testing.assert_allclose(gaussian_risk(TRUTH, TRUTH, SIGMA), SIGMA**2 / 2)


def test_minimiser_against_the_trace_of_a_wishart_inverse():
    """Given the inputs, the mean excess is half sigma^2 tr((X'X)^-1 Sigma), the mean empirical risk a projection's."""
    rng = np.random.default_rng(0)
    n, d = 14, 3
    x = rng.normal(size=(20000, n, d)) @ MIX
    excess = 0.5 * SIGMA**2 * np.trace(np.linalg.inv(np.einsum("rni,rnj->rij", x, x)) @ (MIX.T @ MIX), axis1=1, axis2=2)
    error = excess.std() / np.sqrt(len(excess))
    assert abs(excess.mean() - (float(erm_expected_risk(n, d, SIGMA)) - SIGMA**2 / 2)) < 5 * error
    hat = x[0] @ np.linalg.pinv(x[0])
    np.testing.assert_allclose(
        erm_training_risk(n, d, SIGMA), 0.5 * SIGMA**2 * np.trace(np.eye(n) - hat) / n, rtol=1e-10
    )


def test_bad_input():
    with pytest.raises(ValueError, match="truth must have shape"):
        gaussian_risk(THETA, TRUTH[:2], SIGMA)
    with pytest.raises(ValueError, match="sigma must be zero or more"):
        gaussian_risk(THETA, TRUTH, -1.0)
    with pytest.raises(ValueError, match="covariance must have shape"):
        gaussian_risk(THETA, TRUTH, SIGMA, np.eye(2))
    with pytest.raises(ValueError, match="n must be at least 3"):
        erm_training_risk(2, 3, SIGMA)
    with pytest.raises(ValueError, match="n must be at least 5"):
        erm_expected_risk(4, 3, SIGMA)
    with pytest.raises(ValueError, match="dim must be at least 1"):
        erm_expected_risk(4, 0, SIGMA)
    with pytest.raises(ValueError, match="sigma must be positive"):
        erm_training_risk(5, 3, 0.0)
