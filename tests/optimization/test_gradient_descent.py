import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import expm

from corollary.optimization import gradient_descent, quadratic_descent, quadratic_flow

HESSIAN = jnp.diag(jnp.array([18.0, 2.0]))  # of 9 x1^2 + x2^2


def slope(x):
    return jnp.array([18.0, 2.0]) * x


def test_path_holds_the_start_and_the_powers():
    path = gradient_descent(slope, jnp.array([1.0, 1.0]), 0.11, 40)
    assert path.shape == (41, 2)
    k = np.arange(41)
    np.testing.assert_allclose(path, np.stack([(1 - 18 * 0.11) ** k, (1 - 2 * 0.11) ** k], 1), rtol=1e-12)


def test_a_matrix_is_a_point_too_and_no_steps_is_the_start():
    start = jnp.ones((3, 2))
    assert gradient_descent(lambda x: x, start, 0.5, 3).shape == (4, 3, 2)
    np.testing.assert_array_equal(gradient_descent(lambda x: x, start, 0.5, 0), start[None])


def test_threshold_of_exercise_2_1():
    start = jnp.array([1.0, 1.0])
    paths = jax.vmap(lambda step: gradient_descent(slope, start, step, 2000))(jnp.array([0.11, 0.1112]))
    assert jnp.linalg.norm(paths[0, -1]) < 1e-12
    assert jnp.linalg.norm(paths[1, -1]) > 2


def test_vmap_over_start_equals_one_by_one():
    starts = jax.random.normal(jax.random.key(0), (5, 2))
    many = jax.vmap(lambda s: gradient_descent(slope, s, 0.05, 7))(starts)
    np.testing.assert_allclose(many, jnp.stack([gradient_descent(slope, s, 0.05, 7) for s in starts]), rtol=1e-14)


def test_keeps_single_precision():
    assert gradient_descent(lambda x: x, jnp.ones(2, jnp.float32), 0.1, 2).dtype == jnp.float32


def test_differentiable_in_the_step():
    end = jax.grad(lambda step: gradient_descent(slope, jnp.array([1.0, 1.0]), step, 3)[-1, 1])(0.1)
    np.testing.assert_allclose(end, -6 * (1 - 0.2) ** 2, rtol=1e-12)


def test_quadratic_descent_is_the_iteration_for_a_full_matrix():
    root = jax.random.normal(jax.random.key(1), (4, 4))
    hessian, start, centre = root @ root.T, jnp.arange(4.0), jnp.array([1.0, -1.0, 2.0, 0.5])
    path = gradient_descent(lambda t: hessian @ (t - centre), start, 0.05, 50)
    np.testing.assert_allclose(quadratic_descent(hessian, start, 0.05, 50, centre), path, rtol=1e-11, atol=1e-12)


def test_flow_against_the_matrix_exponential_and_the_limit_of_descent():
    start, times = jnp.array([1.0, 2.0]), jnp.array([0.0, 0.1, 0.7])
    expected = np.stack([expm(-t * np.asarray(HESSIAN)) @ start for t in times])
    np.testing.assert_allclose(quadratic_flow(HESSIAN, start, times), expected, rtol=1e-12)
    error = [
        jnp.abs(gradient_descent(slope, start, 0.5**m, 2**m)[-1] - jnp.exp(-1.0 * jnp.diag(HESSIAN)) * start)[1]
        for m in (9, 10)
    ]
    np.testing.assert_allclose(error[0] / error[1], 2, atol=0.05)  # first order in the step
