"""The bounded loss against its formula, finite differences of the slope, and its constants on a grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.optimization import geman_mcclure
from corollary.optimization.geman_mcclure import STEEPEST

X = np.random.default_rng(0).normal(size=(12, 3))
Y = np.random.default_rng(1).normal(size=12)


def test_value_and_bounds():
    problem = geman_mcclure(X, Y)
    theta = np.array([0.3, -1.0, 2.0])
    r = X @ theta - Y
    np.testing.assert_allclose(problem(theta), np.mean(r**2 / (1 + r**2)), rtol=1e-14)
    np.testing.assert_allclose(problem.gradient(theta), (2 * r / (1 + r**2) ** 2) @ X / 12, rtol=1e-13)


def test_constants_are_attained_on_the_line():
    problem = geman_mcclure(np.ones((1, 1)), np.zeros(1))
    grid = jnp.linspace(-4, 4, 80_001)[:, None]
    slopes = np.abs(jax.jit(jax.vmap(problem.gradient))(grid))
    assert slopes.max() == pytest.approx(STEEPEST, rel=1e-7)
    curvature = np.abs(jax.jit(jax.vmap(problem.hessian))(grid))
    assert curvature.max() == pytest.approx(float(problem.L), rel=1e-7)


def test_bad_input():
    with pytest.raises(ValueError, match=r"y must have shape \(n,\) with n = 12, got \(3,\)"):
        geman_mcclure(X, Y[:3])
