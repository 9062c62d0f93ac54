"""Retraining as one program against loops over scikit-learn's fits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from corollary.attribution import infinitesimal_influence, least_squares_removal, leave_one_out_retraining

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 3)), RNG.normal(size=12)
Z, T = RNG.normal(size=(4, 3)), RNG.normal(size=4)


def _fit(train, weights):
    """Weighted least squares through the origin."""
    x, y = train
    theta = jnp.linalg.solve((x.T * weights) @ x, x.T @ (weights * y))
    return lambda one: theta @ one


def _losses(keep):
    fitted = LinearRegression(fit_intercept=False).fit(X[keep], Y[keep])
    return 0.5 * (fitted.predict(Z) - T) ** 2


@pytest.mark.parametrize("batch_size", [None, 5])
def test_against_scikit_learn(batch_size):
    found = leave_one_out_retraining(_fit, "squared", (X, Y), (Z, T), batch_size=batch_size)
    everything = _losses(np.arange(12) >= 0)
    np.testing.assert_allclose(found.losses, everything, rtol=1e-10)
    expected = [_losses(np.arange(12) != i) - everything for i in range(12)]
    np.testing.assert_allclose(found.changes, expected, atol=1e-11)


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_closed_form_against_scikit_learn(penalty):
    found = least_squares_removal((X, Y), penalty=penalty)
    ridge = lambda keep: Ridge(alpha=12 * penalty, fit_intercept=False).fit(X[keep], Y[keep]).coef_  # noqa: E731
    theta = ridge(np.arange(12) >= 0)
    np.testing.assert_allclose(found.theta, theta, rtol=1e-9)
    np.testing.assert_allclose(found.changes, [ridge(np.arange(12) != i) - theta for i in range(12)], atol=1e-10)
    hat = X @ np.linalg.solve(X.T @ X + 12 * penalty * np.eye(3), X.T)
    np.testing.assert_allclose(found.leverages, np.diagonal(hat), rtol=1e-10)


def test_derivative_by_the_weight():
    found = infinitesimal_influence(_fit, "squared", (X, Y), (Z, T), epsilon=1e-5)
    theta = np.linalg.lstsq(X, Y)[0]
    curvature = X.T @ X / 12
    gradients, of_tests = ((X @ theta - Y)[:, None] * X, (Z @ theta - T)[:, None] * Z)
    np.testing.assert_allclose(found, -gradients @ np.linalg.solve(curvature, of_tests.T), rtol=1e-6, atol=1e-7)


def test_weights_follow_the_precision_of_the_data():
    seen = []

    def fit(train, weights):
        seen.append(weights.dtype)
        return lambda one: jnp.sum(weights)

    leave_one_out_retraining(fit, "squared", (X.astype(np.float32), Y.astype(np.float32)), (Z, T))
    assert set(seen) == {jnp.dtype("float32")}
    seen.clear()
    leave_one_out_retraining(fit, "squared", (np.arange(5), np.arange(5)), (np.arange(2), np.arange(2.0)))
    assert set(seen) == {jnp.result_type(float)}


def test_sentences():
    with pytest.raises(TypeError, match="fit must be a function of data and weights"):
        leave_one_out_retraining("ridge", "squared", (X, Y), (Z, T))
    with pytest.raises(TypeError, match="fit must return a network"):
        leave_one_out_retraining(lambda d, w: w, "squared", (X, Y), (Z, T))
    two = lambda d, w: lambda x: jnp.stack([x[0], w.sum()])  # noqa: E731
    with pytest.raises(ValueError, match="targets must hold labels from 0 to 1, got 2 at index 0"):
        leave_one_out_retraining(two, "cross_entropy", (X, Y), (Z[:1], np.array([2])))
    with pytest.raises(ValueError, match="targets must hold labels from 0 to 1, got 2 at index 0"):
        infinitesimal_influence(two, "cross_entropy", (X, Y), (Z[:1], np.array([2])), epsilon=1e-3)
    with pytest.raises(ValueError, match="epsilon must be in"):
        infinitesimal_influence(_fit, "squared", (X, Y), (Z, T), epsilon=1.0)
    with pytest.raises(ValueError, match="penalty must be zero or more"):
        least_squares_removal((X, Y), penalty=-1.0)
    with pytest.raises(TypeError, match="train must be a pair"):
        least_squares_removal(X)
    with pytest.raises(ValueError, match=r"train\[1\] must have shape \(n,\)"):
        least_squares_removal((X, X))


def test_can_be_mapped():
    found = jax.vmap(lambda y: leave_one_out_retraining(_fit, "squared", (X, y), (Z, T)).changes)(jnp.stack([Y, 2 * Y]))
    np.testing.assert_allclose(found[0], leave_one_out_retraining(_fit, "squared", (X, Y), (Z, T)).changes, atol=1e-12)
