import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as special

from corollary.linear import (
    location_scale,
    logistic_function,
    logistic_prime,
    logit,
    odds,
    slope_intercept,
    transition_interval,
    vote,
)

Z = np.concatenate([np.linspace(-700, 700, 2001), np.linspace(-40, 40, 2001), [-1e4, 1e4, 0.0]])


def test_logistic_against_scipy_into_the_tails():
    np.testing.assert_allclose(logistic_function(Z), special.expit(Z), rtol=4e-15)
    np.testing.assert_allclose(logistic_function(-Z) + logistic_function(Z), 1, rtol=1e-15)


def test_derivative_is_the_product_and_the_slope():
    np.testing.assert_allclose(logistic_prime(Z), special.expit(Z) * special.expit(-Z), rtol=1e-14)
    z = np.linspace(-20, 20, 101)
    h = 1e-5  # central differences: h^2/6 |S'''| + eps/h
    np.testing.assert_allclose(logistic_prime(z), (special.expit(z + h) - special.expit(z - h)) / (2 * h), atol=3e-11)
    np.testing.assert_allclose(
        jax.vmap(jax.grad(logistic_function))(jnp.asarray(z)), logistic_prime(z), rtol=1e-7, atol=1e-16
    )
    assert logistic_prime(400.0) > 0


def test_logit_and_odds_invert():
    z = np.linspace(-30, 15, 91)
    np.testing.assert_allclose(logit(logistic_function(z)), z, rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(odds(logistic_function(z)), np.exp(z), rtol=1e-8)
    p = np.linspace(0.001, 0.999, 999)
    np.testing.assert_allclose(logit(p), special.logit(p), rtol=1e-12, atol=1e-15)


def test_quantiser_is_the_sign_of_the_logit():
    z = jax.random.normal(jax.random.key(0), (1000,))
    np.testing.assert_array_equal(vote(logistic_function(z)), z > 0)
    assert vote(0.5) == 0


@pytest.mark.parametrize("w", [2.2227, -0.3])
def test_location_and_scale(w):
    curve = location_scale(w, -15.49)
    x = np.linspace(-10, 10, 41)
    np.testing.assert_allclose(
        logistic_function(w * x - 15.49), logistic_function(curve.sign * (x - curve.location) / curve.scale), rtol=1e-12
    )
    np.testing.assert_allclose(slope_intercept(*curve), (w, -15.49), rtol=1e-14)


def test_numbers_of_section_3_4():
    curve = location_scale(2.2227, -15.49)
    np.testing.assert_allclose(curve.location, 6.9689, atol=2e-4)
    np.testing.assert_allclose(curve.scale, 0.45, atol=5e-3)
    np.testing.assert_allclose(transition_interval(1.0, 0.0), (-np.log(19), np.log(19)), rtol=1e-14)
    np.testing.assert_allclose(transition_interval(1.0, 0.0, 0.025)[1], 3.6636, atol=5e-5)


@pytest.mark.parametrize("w", [3.0, -3.0])
def test_the_transition_ends_at_its_levels(w):
    low, high = transition_interval(w, 1.0, 0.1)
    np.testing.assert_allclose(
        sorted([logistic_function(w * low + 1), logistic_function(w * high + 1)]), [0.1, 0.9], rtol=1e-13
    )
