import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import (
    Elman,
    Recurrent,
    Stacked,
    iterate_map,
    jacobian_bound,
    linear_sensitivity,
    linear_solution,
    memory_horizon,
    rescale_to_radius,
    spectral_radius,
    state_jacobians,
    step_jacobians,
    time_horizon,
)

KEY = jax.random.key(0)


def test_linear_solution_is_the_recursion():
    rng = np.random.default_rng(0)
    w, drive, z = rng.normal(size=(3, 3)), rng.normal(size=(7, 3)), rng.normal(size=3)
    found = linear_solution(w, drive, z)
    for t in range(7):
        z = w @ z + drive[t]
        np.testing.assert_allclose(found[t], z, rtol=1e-11)
    np.testing.assert_allclose(linear_solution(-0.5, [1.0, 2.0], 4.0), [-1.0, 2.5], rtol=1e-14)


def test_linear_sensitivity_is_the_difference_quotient():
    drive, h = np.random.default_rng(1).normal(size=5), 1e-6
    jitted = jax.jit(linear_sensitivity)
    for w in (0.7, -1.2, 0.0):
        quotient = (linear_solution(w + h, drive, 0.4) - linear_solution(w - h, drive, 0.4)) / (2 * h)
        np.testing.assert_allclose(jitted(w, drive, 0.4), quotient, atol=1e-8)


def test_horizons():
    np.testing.assert_allclose(time_horizon(np.exp([-0.5, -0.01])), [2.0, 100.0], rtol=1e-12)
    assert time_horizon(-np.exp(-0.5)) == pytest.approx(2.0)
    w = np.random.default_rng(2).normal(size=(4, 4))
    scaled = rescale_to_radius(w, 0.9)
    assert spectral_radius(scaled) == pytest.approx(np.abs(np.linalg.eigvals(scaled)).max(), rel=1e-10)
    np.testing.assert_allclose(scaled / w, np.full((4, 4), scaled[0, 0] / w[0, 0]), rtol=1e-10)
    assert memory_horizon(scaled) == pytest.approx(1 / np.log(1 / 0.9), rel=1e-10)


def test_jacobians_are_those_of_automatic_differentiation():
    xs = jax.random.normal(jax.random.key(1), (5, 2))
    model = Elman(2, 3, 1, key=KEY, start=0.3)
    states = np.concatenate([np.full((1, 3), 0.3), model.run(xs).states])
    steps = eqx.filter_jit(step_jacobians)(model, xs)
    u = np.asarray(model.cell.recurrent)
    np.testing.assert_allclose(steps, (1 - states[1:, :, None] ** 2) * u, rtol=1e-12)
    found = eqx.filter_jit(state_jacobians)(model, xs)
    assert found.shape == (6, 6, 3, 3)
    by_state = jax.jit(jax.jacfwd(lambda z: model.run(xs[2:], z).states))(jnp.asarray(states[2]))
    np.testing.assert_allclose(found[3:, 2], by_state, rtol=1e-10, atol=1e-15)
    np.testing.assert_array_equal(found[2, 2], np.eye(3))
    assert not np.any(found[1, 2])


def test_jacobian_bound():
    u = np.diag([3.0, -4.0])
    np.testing.assert_allclose(jacobian_bound(u, 0.25, [0, 1, 2]), [1, 1, 1])
    np.testing.assert_allclose(jacobian_bound(u, 1.0, 3), 64)


def test_bad_arguments():
    xs = jnp.ones((3, 2))
    with pytest.raises(ValueError, match="recurrent must have shape"):
        linear_solution(np.ones((2, 3)), np.ones((4, 2)), np.ones(2))
    with pytest.raises(ValueError, match=r"the modulus of weight must be in \(0, 1\), got 1.5"):
        time_horizon(-1.5)
    with pytest.raises(ValueError, match="radius must be positive, got 0.0"):
        rescale_to_radius(np.eye(2), 0.0)
    with pytest.raises(ValueError, match="the spectral radius must be positive, got 0.0"):
        rescale_to_radius(np.zeros((2, 2)), 1.0)
    with pytest.raises(ValueError, match="slope must be zero or more, got -1.0"):
        jacobian_bound(np.eye(2), -1.0, 1)
    with pytest.raises(TypeError, match="network must be a Recurrent network, got function"):
        step_jacobians(lambda xs: xs, xs)
    with pytest.raises(TypeError, match="network must have a cell whose state is a vector"):
        step_jacobians(Recurrent(Stacked.elman(2, 3, 1, key=KEY), lambda z: z[0]), xs)
    with pytest.raises(TypeError, match="f must be a function of the state, got int"):
        iterate_map(3, 0.0, 5)
    with pytest.raises(ValueError, match="keep must be from 1 to 5, got 6"):
        iterate_map(jnp.sin, 0.0, 5, keep=6)
