"""Problems on which momentum shows what it can and cannot do."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.optimization import bent_line, heavy_ball, minimize, nesterov_chain


def test_bent_line():
    problem = bent_line()
    x = jnp.array([-1.0, 0.5, 1.5, 3.0])
    np.testing.assert_allclose(jax.vmap(problem.gradient)(x), [-25.0, 12.5, 25.5, 51.0])
    edges = jnp.array([1.0, 2.0])
    np.testing.assert_allclose(jax.vmap(problem)(edges - 1e-9), jax.vmap(problem)(edges + 1e-9), rtol=1e-7)
    path = np.asarray(minimize(problem, heavy_ball(1 / 9, 4 / 9), steps=300).theta)
    np.testing.assert_allclose(np.sort(path[-3:]), [-1.80245, 0.64653, 2.11592], atol=1e-5)


def test_nesterov_chain():
    problem = nesterov_chain(5)
    chain = 0.25 * (2 * np.eye(5) - np.eye(5, k=1) - np.eye(5, k=-1))
    np.testing.assert_allclose(problem.hessian(problem.start), chain, atol=1e-14)
    np.testing.assert_allclose(problem.gradient(problem.start), [-0.25, 0, 0, 0, 0], atol=1e-14)
