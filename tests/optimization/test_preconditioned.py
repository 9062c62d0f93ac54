"""Gradient descent in other coordinates."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.optimization import Problem, jacobi, minimize, preconditioned, preconditioned_spectrum


@pytest.fixture
def matrix():
    a = np.random.default_rng(0).normal(size=(5, 5))
    return a @ a.T + 0.5 * np.eye(5)


def test_preconditioning_is_descent_in_other_coordinates(matrix):
    rng = np.random.default_rng(2)
    b = rng.normal(size=(5, 5))
    q = b @ b.T + np.eye(5)
    problem = Problem(lambda t, h: 0.5 * t @ h @ t, (jnp.asarray(matrix),), jnp.ones(5))
    path = minimize(problem, preconditioned(q, 0.01), steps=20)
    root = np.linalg.cholesky(q)
    inner = Problem(lambda z, r: problem(r @ z), (jnp.asarray(root),), jnp.asarray(np.linalg.solve(root, np.ones(5))))
    np.testing.assert_allclose(path.theta, minimize(inner, optax.sgd(0.01), steps=20).theta @ root.T, rtol=1e-10)
    np.testing.assert_allclose(
        preconditioned_spectrum(matrix, q), np.sort(np.linalg.eigvals(q @ matrix).real), rtol=1e-9
    )
    np.testing.assert_allclose(jacobi(matrix), 1 / np.diag(matrix))
    diagonal = minimize(problem, preconditioned(jacobi(matrix), 0.3), steps=3)
    full = minimize(problem, preconditioned(np.diag(1 / np.diag(matrix)), 0.3), steps=3)
    np.testing.assert_allclose(diagonal.theta, full.theta, rtol=1e-12)
