import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from corollary.optimization import (
    batch_constants,
    batch_factor,
    coin,
    decreasing_step,
    example_noise,
    gradient_covariance,
    gradient_variance,
    least_growth,
    least_squares_sum,
    noise_constants,
    quadratic,
    sigmoid_sum,
    walk,
)

RNG = np.random.default_rng(1)
X, Y = RNG.normal(size=(6, 2)), RNG.normal(size=6)
THETA = np.array([0.3, -1.0])
EACH = X * (X @ THETA - Y)[:, None]


def test_variance_and_covariance_against_numpy():
    problem = least_squares_sum(X, Y)
    np.testing.assert_allclose(gradient_covariance(problem, THETA), np.cov(EACH.T, bias=True), rtol=1e-12)
    np.testing.assert_allclose(gradient_variance(problem, THETA), np.trace(np.cov(EACH.T, bias=True)), rtol=1e-12)
    np.testing.assert_allclose(example_noise(problem, THETA), EACH.mean(0) - EACH, rtol=1e-12)


@pytest.mark.parametrize("batch", [1, 2, 3, 6])
def test_batch_factor_by_enumeration(batch):
    one = EACH.var(0).sum()
    without = np.array([EACH[list(c)].mean(0) for c in itertools.combinations(range(6), batch)])
    np.testing.assert_allclose(batch_factor(6, batch, replacement=False), without.var(0).sum() / one, atol=1e-14)
    if batch < 4:
        index = np.array(list(itertools.product(range(6), repeat=batch)))
        np.testing.assert_allclose(batch_factor(6, batch), EACH[index].mean(1).var(0).sum() / one)


def second_moment_less(theta, kappa2):
    each = X * (X @ theta - Y)[:, None]
    return np.mean(np.sum(each**2, 1)) - kappa2 * np.sum(each.mean(0) ** 2)


def test_least_squares_constants_are_the_maximum_that_scipy_finds():
    kappa2 = 1.3 * float(least_growth(X))
    found = noise_constants(X, Y, kappa2)
    best = scipy_minimize(lambda t: -second_moment_less(t, kappa2), np.zeros(2), tol=1e-12)
    np.testing.assert_allclose(found.kappa1, -best.fun, rtol=1e-8)
    np.testing.assert_allclose(second_moment_less(np.asarray(found.attained), kappa2), found.kappa1, rtol=1e-10)
    assert noise_constants(X, Y, 0.99 * float(least_growth(X))).kappa1 == np.inf
    interpolating = noise_constants(X, X @ THETA, kappa2)
    np.testing.assert_allclose(interpolating.kappa1, 0, atol=1e-20)


def test_growth_is_the_worst_direction():
    grid = np.linspace(0, np.pi, 20001)
    u = np.stack([np.cos(grid), np.sin(grid)])
    fourth = (np.sum(X**2, 1) * X.T) @ X / 6
    ratio = np.sum(u * (fourth @ u), 0) / np.sum((X.T @ X / 6 @ u) ** 2, 0)
    np.testing.assert_allclose(least_growth(X), ratio.max(), rtol=1e-6)


def test_batch_constants_and_step():
    np.testing.assert_allclose(batch_constants(3.0, 5.0, 4), (0.75, 2.0))
    np.testing.assert_allclose(decreasing_step(2.0, 3.0, 18.0), 0.5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: gradient_variance(quadratic(jnp.ones(2)), jnp.ones(2)), "problem must be a FiniteSum"),
        (lambda: gradient_variance(least_squares_sum(X, Y), jnp.ones(3)), r"theta must have shape \(2,\)"),
        (lambda: batch_factor(4, 5, replacement=False), "batch_size must be from 1 to 4"),
        (lambda: noise_constants(X, Y, 0.5), "kappa2 must be at least 1"),
        (lambda: noise_constants(X, Y[:3], 2.0), "y must have shape"),
        (lambda: batch_constants(-1.0, 2.0, 3), "kappa1 must be zero or more"),
        (lambda: decreasing_step(0.0, 1.0, 1.0), "L must be positive"),
        (lambda: coin(3, 1.0), "problem must be a Problem"),
        (lambda: walk(-1.0, 1.0), "L must be positive"),
        (lambda: sigmoid_sum(X, 2 * Y), "y must be in"),
        (lambda: least_squares_sum(X, Y[:2]), "y must have shape"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
