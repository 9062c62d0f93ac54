"""Newton's method, its approximations by a part of the Hessian, and the local models that they minimise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.optimization import (
    Problem,
    best_step,
    block_newton,
    gradient_flow,
    isotropic_model,
    minimize,
    newton,
    preconditioned,
    preconditioned_spectrum,
    quadratic,
    random_quadratic,
    rates,
    ridge_logistic,
    steps_to_shrink,
    taylor_model,
)


@pytest.fixture
def matrix():
    a = np.random.default_rng(0).normal(size=(5, 5))
    return a @ a.T + 0.5 * np.eye(5)


def test_newton_solves_a_quadratic_and_finds_the_logistic_minimum():
    problem = random_quadratic(4, 10.0, key=jax.random.key(0))
    path = minimize(problem, newton(), steps=1)
    np.testing.assert_allclose(path.theta[1], problem.minimiser, atol=1e-12)
    rng = np.random.default_rng(1)
    logistic = ridge_logistic(rng.normal(size=(40, 3)), np.arange(40) % 2.0, 0.1, np.ones(3))
    np.testing.assert_allclose(minimize(logistic, newton(), steps=8).theta[-1], logistic.minimiser, atol=1e-12)


def test_block_newton_keeps_the_blocks(matrix):
    problem = Problem(lambda t, h: 0.5 * t @ h @ t, (jnp.asarray(matrix),), jnp.ones(5))
    blocks = np.array([0, 1, 0, 2, 1])
    kept = np.where(blocks[:, None] == blocks, matrix, 0)
    expected = np.ones(5) - 0.5 * np.linalg.solve(kept, matrix @ np.ones(5))
    np.testing.assert_allclose(minimize(problem, block_newton(blocks, 0.5), steps=1).theta[1], expected, rtol=1e-12)
    everything = minimize(problem, block_newton(np.zeros(5)), steps=1).theta[1]
    np.testing.assert_allclose(everything, 0, atol=1e-12)


def test_models_against_a_cubic():
    def f(w):
        return w[0] ** 3 + w[0] * w[1]

    c, w = np.array([1.0, 2.0]), np.array([1.5, 1.0])
    # value 3, gradient (5, 1), Hessian [[6, 1], [1, 0]]
    assert taylor_model(f, c, 1)(w) == pytest.approx(3 + 2.5 - 1)
    assert taylor_model(f, c)(w) == pytest.approx(4.5 + 0.5 * (6 * 0.25 + 2 * 0.5 * -1))
    assert isotropic_model(f, c, 0.1)(w) == pytest.approx(4.5 + 5 * 1.25)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: best_step(np.array([0.0, 1.0])), "spectrum must be positive"),
        (lambda: steps_to_shrink(1.0, 0.1), r"factor must be in \(0, 1\)"),
        (lambda: newton(0.0), "damping must be positive"),
        (lambda: taylor_model(jnp.sum, np.ones(2), 3), "order must be one of"),
        (lambda: isotropic_model(jnp.sum, np.ones(2), -1.0), "step must be positive"),
        (lambda: preconditioned(np.ones((2, 3))), r"matrix must have shape \(d, d\) or \(d,\)"),
        (lambda: preconditioned_spectrum(np.eye(2), np.ones(3)), "with d = 2"),
        (lambda: gradient_flow(quadratic(np.ones(2)), np.array([1.0, 0.5])), "times must increase"),
        (
            lambda: gradient_flow(quadratic(np.ones(2)), np.array([1.0]), start=np.ones(3)),
            r"start must have shape \(2,\)",
        ),
        (lambda: rates.flow.convex(1.0, 0.0), "t must be positive"),
    ],
)
def test_sentences(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_block_newton_solves_no_more_than_its_blocks():
    """Blocks of one size are never put into a system of all coordinates; the answer is that of the masked system."""
    d = 6
    root = np.random.default_rng(3).normal(size=(d, d))
    matrix = root @ root.T + d * np.eye(d)
    problem = Problem(lambda t, h: 0.5 * t @ h @ t, (jnp.asarray(matrix),), jnp.arange(1.0, d + 1))
    for blocks in (np.arange(d), np.array([1, 0, 2, 0, 2, 1]), np.array([0, 1, 1, 0, 0, 1])):
        kept = np.where(blocks[:, None] == blocks, matrix, 0)
        expected = np.arange(1.0, d + 1) - np.linalg.solve(kept, matrix @ np.arange(1.0, d + 1))
        method = block_newton(blocks)
        np.testing.assert_allclose(minimize(problem, method, steps=1).theta[1], expected, rtol=1e-10, atol=1e-12)
        text = str(jax.make_jaxpr(lambda t, m=method: m.step(problem, t, None))(problem.start))
        size = int((blocks == 0).sum())
        solved = [line for line in text.splitlines() if "= lu[" in line or "= lu " in line]
        assert len(solved) == (0 if size == 1 else 1)
        assert all(f"f64[{size},{size}]" in line for line in solved)
