"""Sums of cosines: smooth, bounded, not convex, with certified constants."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.optimization import cosines, random_cosines

RNG = np.random.default_rng(1)


def test_cosines():
    problem = random_cosines(3, key=jax.random.key(0), terms=5, scale=2.0, frequency=3.0)
    c, a, b = map(np.asarray, problem.data)
    w = RNG.normal(size=(200, 3))
    np.testing.assert_allclose(jax.jit(jax.vmap(problem))(w), np.cos(w @ a.T + b) @ c, rtol=1e-12)
    curvature = np.abs(np.linalg.eigvalsh(jax.jit(jax.vmap(problem.hessian))(w))).max()
    assert curvature <= problem.L * (1 + 1e-12)
    line = cosines([2.0], [[3.0]], [0.0])
    assert float(line.L) == pytest.approx(18.0)
    assert float(line.hessian(jnp.zeros(1))[0, 0]) == pytest.approx(-18.0)
