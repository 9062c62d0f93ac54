import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from corollary.optimization import (
    averaged_error,
    circle_grid,
    confusion_zone,
    diffusion_sgd,
    expectation,
    expected_value,
    gaussian_sgd,
    least_squares_moments,
    least_squares_sum,
    minimize,
    modified_drift,
    quadratic,
    quadratic_law,
    quadratic_moments,
    sgd,
    stationary_value,
    transition,
)

RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(4, 2)), RNG.normal(size=4)
KEY = jax.random.key(5)


def every_path(start, eta, steps):
    """All 4^steps sequences of single examples, in NumPy: the iterates (paths, steps + 1, 2)."""
    paths = np.array(start)[None, None]
    for _ in range(steps):
        last = paths[:, -1]
        new = [
            np.concatenate([paths, (last - eta * np.outer(last @ x - y, x))[:, None]], 1)
            for x, y in zip(X, Y, strict=True)
        ]
        paths = np.concatenate(new)
    return paths


def test_least_squares_moments_and_average_by_enumeration():
    start, eta = np.array([1.0, -2.0]), 0.3
    paths = every_path(start, eta, 5) - np.linalg.lstsq(X, Y)[0]
    moments = least_squares_moments(X, Y, start, eta, 5)
    np.testing.assert_allclose(moments.mean, paths.mean(0), rtol=1e-10)
    np.testing.assert_allclose(moments.variance, np.einsum("pki,pkj->kij", paths, paths) / len(paths), rtol=1e-10)
    means = np.cumsum(paths[:, 1:], axis=1) / np.arange(1, 6)[:, None]
    np.testing.assert_allclose(averaged_error(X, Y, start, eta, 5), (means**2).sum(-1).mean(0), rtol=1e-10)


def test_batches_and_changing_steps():
    start = np.zeros(2)
    etas = np.array([0.3, 0.2, 0.1])
    paths = jax.jit(
        jax.vmap(lambda k: minimize(least_squares_sum(X, Y), sgd(0.2, batch_size=2), steps=3, key=k).theta[-1])
    )(jax.random.split(KEY, 20000))
    square = np.sum((np.asarray(paths) - np.linalg.lstsq(X, Y)[0]) ** 2, 1)
    exact = np.trace(least_squares_moments(X, Y, start, 0.2, 3, batch_size=2).variance[-1])
    np.testing.assert_allclose(square.mean(), exact, atol=5 * square.std() / 20000**0.5)
    first = least_squares_moments(X, Y, start, etas, 3)
    np.testing.assert_allclose(first.variance[1], least_squares_moments(X, Y, start, 0.3, 1).variance[1], rtol=1e-12)
    last = every_path(start, 0.3, 1)[:, -1] - np.linalg.lstsq(X, Y)[0]
    np.testing.assert_allclose(first.mean[1], last.mean(0), rtol=1e-10)
    assert averaged_error(X, Y, start, 0.2, 30, batch_size=4).shape == (30,)


def test_quadratic_moments_against_the_powers_and_lyapunov():
    spectrum, noise, start = np.array([0.5, 2.0]), np.array([0.3, 0.1]), np.array([1.0, -1.0])
    moments = quadratic_moments(spectrum, noise, start, np.full(200, 0.4))
    np.testing.assert_allclose(moments.mean, start * (1 - 0.4 * spectrum) ** np.arange(201)[:, None], atol=1e-15)
    factor = np.diag(1 - 0.4 * spectrum)
    rest = solve_discrete_lyapunov(factor, np.diag(0.16 * noise))
    np.testing.assert_allclose(moments.variance[-1], np.diag(rest), rtol=1e-10)
    law = quadratic_law(spectrum, noise, start, 0.4, np.inf)
    np.testing.assert_allclose(law.variance, np.diag(rest), rtol=1e-10)
    np.testing.assert_allclose(law.mean, 0)
    np.testing.assert_allclose(stationary_value(spectrum, noise, 0.4), 0.5 * spectrum @ np.diag(rest), rtol=1e-10)
    np.testing.assert_allclose(expected_value(spectrum, moments)[0], 0.5 * spectrum @ start**2)
    long = quadratic_law(np.array([3.0]), np.ones(1), np.ones(1), 0.5, 3)  # a factor below zero, an odd power
    np.testing.assert_allclose(long.mean, [-0.125])


def test_confusion_zone():
    x, y = np.array([1.0, 2.0, -1.0]), np.array([1.0, 1.0, -3.0])
    zone = confusion_zone(x, y, 0.05)
    np.testing.assert_allclose((zone.low, zone.high, zone.minimiser), (0.5, 3.0, 1.0))
    exact = least_squares_moments(x[:, None], y, np.ones(1), 0.1, 500).variance[-1, 0, 0]
    np.testing.assert_allclose(zone.variance, exact, rtol=1e-10)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: quadratic_moments(np.ones(2), -np.ones(2), np.ones(2), np.ones(3)), "noise must be zero or more"),
        (lambda: quadratic_law(np.ones(1), np.ones(1), np.ones(1), 2.0, 1), r"step times spectrum must be in \(0, 2\)"),
        (
            lambda: least_squares_moments(X, Y, np.zeros(2), np.ones(2), 3),
            r"step must be a number or have shape \(3,\)",
        ),
        (lambda: least_squares_moments(X, Y, np.zeros(2), 0.1, 3, batch_size=0), "batch_size must be at least 1"),
        (lambda: confusion_zone(np.array([1.0, 0.0]), np.ones(2), 0.1), "the absolute value of x must be positive"),
        (lambda: confusion_zone(np.array([1.0, 2.0]), np.ones(2), 1.0), "must be positive"),
        (lambda: circle_grid(7), "size must be even"),
        (lambda: transition(1.0, jnp.sin, 0.1, 8), "slope must be a function of the angle"),
        (lambda: expectation(np.eye(2), np.ones(2), -1), "k must be at least 0"),
        (lambda: gaussian_sgd(-0.1), "step must be positive"),
        (lambda: diffusion_sgd(0.1, substeps=0), "substeps must be at least 1"),
        (lambda: minimize(quadratic(jnp.ones(2)), gaussian_sgd(0.1), steps=1), "problem must be a FiniteSum"),
        (lambda: modified_drift(3, np.ones(1), 0.1), "problem must be a Problem"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
