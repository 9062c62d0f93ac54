"""Nesterov's accelerated gradient: the convex schedules, the constant momentum for strong convexity, all forms."""

import numpy as np
import optax
import pytest

from corollary.optimization import convex_momentum, minimize, nesterov, quadratic

RNG = np.random.default_rng(2)
A = RNG.normal(size=(4, 4))
H = A @ A.T + 0.1 * np.eye(4)
VALUES, AXES = np.linalg.eigh(H)
START = RNG.normal(size=4)
STEPS = 15


def path_of(method, steps=STEPS):
    return np.asarray(minimize(quadratic(VALUES, START, rotation=AXES), method, steps=steps).theta)


def two_terms(rule):
    """theta_{k+1} = rule(k, theta_k, theta_{k-1}) from theta_{-1} = theta_0."""
    path = [START, START]
    for k in range(STEPS):
        path.append(rule(k, path[-1], path[-2]))
    return np.array(path[1:])


@pytest.mark.parametrize("form", ["lookahead", "velocity", "scaled velocity"])
def test_nesterov_forms(form):
    def rule(k, t, last):
        chi = t + 0.6 * (t - last)
        return chi - 0.1 * H @ chi

    np.testing.assert_allclose(path_of(nesterov(0.1, 0.6, form=form)), two_terms(rule), rtol=1e-11)


def test_nesterov_shifted_is_optax():
    points = path_of(nesterov(0.1, 0.6))
    ahead = points[1:] + 0.6 * (points[1:] - points[:-1])
    np.testing.assert_allclose(path_of(nesterov(0.1, 0.6, form="shifted"))[1:], ahead, rtol=1e-11)
    np.testing.assert_allclose(path_of(optax.sgd(0.1, 0.6, nesterov=True))[1:], ahead, rtol=1e-11)


@pytest.mark.parametrize("form", ["lookahead", "velocity", "scaled velocity"])
def test_nesterov_schedules(form):
    t = [1.0]
    while len(t) <= STEPS:
        t.append((1 + np.sqrt(1 + 4 * t[-1] ** 2)) / 2)

    def rule(momentum):
        def advance(k, theta, last):
            chi = theta + momentum(k) * (theta - last)
            return chi - 0.1 * H @ chi

        return advance

    classic = two_terms(rule(lambda k: 0.0 if k == 0 else (t[k - 1] - 1) / t[k]))
    simple = two_terms(rule(lambda k: (k - 1) / (k + 2)))
    np.testing.assert_allclose(path_of(nesterov(0.1, form=form)), classic, rtol=1e-11)
    np.testing.assert_allclose(path_of(nesterov(0.1, convex_momentum, form=form)), simple, rtol=1e-11)
