r"""The gradient flow $\dot\theta=-\nabla f(\theta)$, of which gradient descent is the explicit Euler method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from corollary.optimization import Problem, gradient_flow, quadratic_flow, random_quadratic, taylor_model


def test_flow_against_the_exponential_and_an_adaptive_solver():
    times = jnp.array([0.0, 0.5, 2.0])
    problem = random_quadratic(4, 10.0, key=jax.random.key(1))
    hessian, centre = problem.data
    flow = gradient_flow(problem, times, substeps=200)
    exact = np.stack([centre + expm(-t * np.asarray(hessian)) @ (problem.start - centre) for t in np.asarray(times)])
    np.testing.assert_allclose(flow.theta, exact, atol=1e-10)
    np.testing.assert_allclose(quadratic_flow(hessian, problem.start, times, centre), exact, atol=1e-12)
    np.testing.assert_allclose(flow.dissipated, problem(problem.start) - flow.value, atol=1e-10)
    bend = Problem(lambda t: jnp.sum(jnp.cos(t)) + 0.1 * t @ t, (), jnp.array([1.0, -2.0]))
    there = solve_ivp(lambda _, y: np.sin(y) - 0.2 * y, (0, 3), [1.0, -2.0], rtol=1e-11, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(gradient_flow(bend, jnp.array([3.0]), substeps=300).theta[0], there, atol=1e-8)


def test_wrong_kinds():
    with pytest.raises(TypeError, match="problem must be a Problem"):
        gradient_flow(jnp.sum, np.array([1.0]))
    with pytest.raises(TypeError, match="f must be a function of a point"):
        taylor_model(2.0, np.ones(2))
