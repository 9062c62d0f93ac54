"""Polyak's heavy ball in every form of the texts, and what it does on a quadratic."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.integrate import solve_ivp

from corollary.optimization import (
    damped_oscillator,
    heavy_ball,
    heavy_ball_matrix,
    heavy_ball_of_flow,
    mass,
    minimize,
    nesterov,
    nesterov_matrix,
    quadratic,
)

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


@pytest.mark.parametrize("form", ["difference", "velocity", "scaled velocity", "intermediate"])
def test_heavy_ball_forms(form):
    expected = two_terms(lambda k, t, last: t - 0.1 * H @ t + 0.7 * (t - last))
    np.testing.assert_allclose(path_of(heavy_ball(0.1, 0.7, form=form)), expected, rtol=1e-11)
    np.testing.assert_allclose(path_of(optax.sgd(0.1, 0.7)), expected, rtol=1e-11)


def test_heavy_ball_average_form():
    expected = two_terms(lambda k, t, last: t - 0.1 * H @ t + 0.75 * (t - last))
    np.testing.assert_allclose(path_of(heavy_ball(0.4, 0.75, form="average")), expected, rtol=1e-11)


def test_heavy_ball_schedule():
    expected = two_terms(lambda k, t, last: t - 0.1 / (k + 1) * H @ t + 0.5 * (t - last))
    np.testing.assert_allclose(path_of(heavy_ball(lambda k: 0.1 / (k + 1), 0.5, form="difference")), expected)


def test_without_momentum_all_are_gradient_descent():
    expected = path_of(optax.sgd(0.1))
    for method in (heavy_ball(0.1, 0.0), nesterov(0.1, 0.0), mass(0.1, 0.0, 0.0)):
        np.testing.assert_allclose(path_of(method), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("matrix", "method"), [(heavy_ball_matrix, heavy_ball), (nesterov_matrix, nesterov)], ids=["heavy ball", "nesterov"]
)
def test_iteration_matrices(matrix, method):
    path = np.asarray(minimize(quadratic(jnp.array([0.7])), method(0.9, 0.4), steps=9).theta)[:, 0]
    state = np.array([1.0, 1.0])
    for k in range(9):
        state = np.asarray(matrix(0.9, 0.4, 0.7)) @ state
        np.testing.assert_allclose(state[0], path[k + 1], rtol=1e-12)
    assert matrix(0.9, jnp.array([0.4, 0.5]), 0.7).shape == (2, 2, 2)


@pytest.mark.parametrize("friction", [0.5, 4.0, 2 * np.sqrt(3.0)], ids=["swings", "creeps", "critical"])
def test_damped_oscillator(friction):
    times = np.linspace(0, 6, 7)
    exact = solve_ivp(
        lambda t, y: [y[1], -friction * y[1] - 1.5 * 2.0 * y[0]],
        (0, 6),
        [1.3, 0.0],
        t_eval=times,
        rtol=1e-11,
        atol=1e-12,
    )
    np.testing.assert_allclose(damped_oscillator(1.3, 2.0, friction, 1.5, times), exact.y[0], atol=1e-9)


def test_heavy_ball_of_flow():
    np.testing.assert_allclose(heavy_ball_of_flow(2.0, 3.0, 0.1), (0.03, 0.8), rtol=1e-12)


def test_traced():
    def final(step, momentum):
        problem = quadratic(VALUES, START, rotation=AXES)
        return minimize(problem, heavy_ball(step, momentum), steps=5).value[-1]

    found = jax.jit(jax.vmap(final))(jnp.array([0.1, 0.2]), jnp.array([0.3, 0.4]))
    np.testing.assert_allclose(found, [final(0.1, 0.3), final(0.2, 0.4)], rtol=1e-10)
