"""Singular values of a linear network under gradient flow, against SciPy's integrator and the logistic curve."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from corollary.optimization import linear_network_loss, mode_strength, mode_times

TARGET = np.array([[3.0, 0.4], [-0.2, 1.0], [0.5, 0.1]])


def _flow(theta, t):
    """W1 and W2 by their own equations, written out."""
    h = theta.shape[0]

    def velocity(_, z):
        w2, w1 = z.reshape(h, 5)[:, :3].T, z.reshape(h, 5)[:, 3:]
        residual = TARGET - w2 @ w1
        return np.concatenate([(residual @ w1.T).T, w2.T @ residual], axis=1).ravel()

    end = solve_ivp(velocity, (0, t), theta.ravel(), rtol=1e-11, atol=1e-14, method="DOP853").y[:, -1].reshape(h, 5)
    return end[:, :3].T @ end[:, 3:]


def test_strength_solves_its_equation():
    s, u0 = 1.7, 1e-3
    t = np.linspace(0.0, 6.0, 13)
    found = solve_ivp(lambda _, u: 2 * u * (s - u), (0, 6), [u0], t_eval=t, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(mode_strength(s, u0, t), found.y[0], rtol=1e-8)
    np.testing.assert_allclose(mode_strength(s, u0, 0.0), u0, rtol=1e-12)


def test_loss_gradient_is_the_flow():
    theta = np.random.default_rng(0).normal(size=(4, 5))
    p = linear_network_loss(TARGET, theta)
    w2, w1 = theta[:, :3].T, theta[:, 3:]
    residual = w2 @ w1 - TARGET
    np.testing.assert_allclose(p(p.start), 0.5 * np.sum(residual**2), rtol=1e-12)
    expected = np.concatenate([(residual @ w1.T).T, w2.T @ residual], axis=1)
    np.testing.assert_allclose(p.gradient(p.start), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_times_of_small_random_weights(seed):
    """At the predicted time each singular value is half of its target."""
    theta = 1e-5 * np.random.default_rng(seed).normal(size=(3, 5))
    modes = mode_times(TARGET, theta)
    u, s, vt = np.linalg.svd(TARGET, full_matrices=False)
    np.testing.assert_allclose(modes.target, s, rtol=1e-12)
    for i, t in enumerate(np.asarray(modes.time)):
        np.testing.assert_allclose(u[:, i] @ _flow(theta, t) @ vt[i], s[i] / 2, rtol=1e-3)
        np.testing.assert_allclose(mode_strength(s[i], modes.start[i], t), s[i] / 2, rtol=1e-10)


def test_compiles_and_maps():
    theta = 1e-3 * jax.random.normal(jax.random.key(0), (6, 4, 5))
    each = jnp.stack([mode_times(TARGET, w).time for w in theta])
    np.testing.assert_allclose(jax.jit(jax.vmap(lambda w: mode_times(TARGET, w).time))(theta), each, rtol=1e-10)


def test_bad_input():
    with pytest.raises(ValueError, match=r"start must have shape \(h, 5\)"):
        linear_network_loss(TARGET, np.ones((2, 4)))
    with pytest.raises(ValueError, match=r"theta must have shape \(h, 5\)"):
        mode_times(TARGET, np.ones((2, 4)))
    with pytest.raises(ValueError, match="theta must have at least 2 rows"):
        mode_times(TARGET, np.ones((1, 5)))
    with pytest.raises(ValueError, match="start must be positive"):
        mode_strength(1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="target must be positive"):
        mode_strength(-1.0, 0.1, 1.0)
    with pytest.raises(ValueError, match="t must be zero or more"):
        mode_strength(1.0, 0.1, -1.0)
