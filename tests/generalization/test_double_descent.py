"""Risk of least squares against draws and NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.generalization import first_features_fit, least_squares_risk, ols_variance

RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(6, 9)), RNG.normal(size=6)


def test_the_law_is_infinite_at_the_threshold_and_tends_to_what_is_known_far_from_it():
    w = np.full(128, 128**-0.5)
    assert np.isinf(least_squares_risk(32, [31, 32, 33], w, 0.5).risk).all()
    np.testing.assert_allclose(least_squares_risk(32, 0, w, 0.5).risk, 1.25)
    np.testing.assert_allclose(least_squares_risk(10**6, 128, w, 0.5).risk, 0.25, rtol=1e-3)


def test_the_parts_against_draws():
    n, d, sigma = 8, 22, 0.7
    w = np.linspace(1, 0.1, d)

    @jax.jit
    def draws(keys, p):
        def one(key):
            x_key, e_key = jax.random.split(key)
            x = jax.random.normal(x_key, (n, d))
            return first_features_fit(x, x @ w + sigma * jax.random.normal(e_key, (n,)), p)

        return jax.vmap(one)(keys)

    for p in (0, 3, 20):
        found = np.asarray(draws(jax.random.split(jax.random.key(p), 20_000), p))
        law = least_squares_risk(n, p, w, sigma)
        mean = found.mean(0)
        np.testing.assert_allclose(law.bias, ((mean - w) ** 2).sum(), rtol=0.03)
        np.testing.assert_allclose(law.variance, ((found - mean) ** 2).sum(1).mean(), rtol=0.03)
        np.testing.assert_allclose(law.risk, law.bias + law.variance + sigma**2)


def test_the_fit_on_some_columns_is_the_shortest():
    every = jax.jit(jax.vmap(lambda p: first_features_fit(X, Y, p)))(jnp.arange(10))
    for p, found in enumerate(every):
        np.testing.assert_allclose(found[:p], np.linalg.pinv(X[:, :p]) @ Y, rtol=1e-9, atol=1e-11)
        np.testing.assert_array_equal(found[p:], 0)


def test_more_rows_than_columns():
    found = jax.jit(jax.vmap(lambda p: first_features_fit(X.T, RNG.normal(size=9) * 0 + 1, p)))(jnp.arange(7))
    for p in range(1, 7):
        np.testing.assert_allclose(found[p, :p], np.linalg.lstsq(X.T[:, :p], np.ones(9), rcond=None)[0], atol=1e-11)


def test_variance_against_the_inverse():
    phi, sigma = RNG.normal(size=(8, 3)), np.diag([1.0, 2.0, 3.0])
    hand = 0.3**2 / 8 * np.trace(sigma @ np.linalg.inv(phi.T @ phi / 8))
    np.testing.assert_allclose(ols_variance(phi, sigma, 0.3), hand, rtol=1e-12)
    phi[:, 2] = phi[:, 1]
    assert np.isinf(ols_variance(phi, sigma, 0.3))


def test_sentences():
    with pytest.raises(ValueError, match="p must hold labels from 0 to 4"):
        least_squares_risk(3, 5, np.ones(4), 0.1)
    with pytest.raises(ValueError, match="noise must be zero or more"):
        least_squares_risk(3, 2, np.ones(4), -0.1)
    with pytest.raises(ValueError, match="features must have no more columns than rows"):
        ols_variance(X, np.eye(9), 0.1)
