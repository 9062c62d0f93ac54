"""The rank-one landscape, against automatic and finite differences, NumPy's spectra and brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.landscape import (
    factor_critical_points,
    factor_forms,
    factor_gradient,
    factor_hessian,
    improvement_ratio,
    rank_one_plane,
    top_eigenvector,
)

RNG = np.random.default_rng(0)
ROOT = RNG.normal(size=(4, 4))
M, X, D = ROOT @ ROOT.T, RNG.normal(size=4), RNG.normal(size=4)


def _value(x, m=M):
    return 0.25 * np.sum((m - np.outer(x, x)) ** 2)


def test_problem_knows_its_minimum():
    problem = top_eigenvector(M, X)
    assert problem(X) == pytest.approx(_value(X))
    assert problem(problem.minimiser) == pytest.approx(float(problem.minimum))
    assert problem.minimum == pytest.approx(0.25 * np.sum(np.linalg.eigvalsh(M)[:-1] ** 2))
    np.testing.assert_allclose(problem.gradient(problem.minimiser), 0, atol=1e-12)
    inside = RNG.normal(size=(200, 4))
    inside *= np.sqrt(2 * np.linalg.eigvalsh(M)[-1]) / np.linalg.norm(inside, axis=1, keepdims=True)
    assert max(np.abs(np.linalg.eigvalsh(factor_hessian(M, x))).max() for x in inside) <= problem.L


def test_derivatives():
    problem = top_eigenvector(M, X)
    np.testing.assert_allclose(factor_gradient(M, X), problem.gradient(X), rtol=1e-12)
    np.testing.assert_allclose(factor_hessian(M, X), problem.hessian(X), rtol=1e-11, atol=1e-12)
    first, second = factor_forms(M, X, D)
    h = 1e-4
    assert first == pytest.approx((_value(X + h * D) - _value(X - h * D)) / (2 * h), rel=1e-6)
    assert second == pytest.approx((_value(X + h * D) - 2 * _value(X) + _value(X - h * D)) / h**2, rel=1e-4)


def test_critical_points_and_their_index():
    found = factor_critical_points(M)
    assert found.points.shape == (9, 4)
    top = np.linalg.eigh(M)[1][:, -1]
    for x, index, curvature in zip(*map(np.asarray, found), strict=True):
        np.testing.assert_allclose(factor_gradient(M, x), 0, atol=1e-10)
        assert np.sum(np.linalg.eigvalsh(factor_hessian(M, x)) < 0) == index
        assert top @ factor_hessian(M, x) @ top == pytest.approx(curvature, rel=1e-9)


def test_plane_is_the_function_in_any_dimension():
    z = np.linalg.qr(RNG.normal(size=(6, 2)))[0]
    a, b = 0.7, -0.4
    x = a * z[:, 0] + b * z[:, 1]
    m = np.outer(z[:, 0], z[:, 0])
    p = rank_one_plane(a, b)
    g, h = factor_gradient(m, x), factor_hessian(m, x)
    assert p.value == pytest.approx(_value(x, m))
    assert p.slope_x == pytest.approx(float(g @ x / np.linalg.norm(x)))
    assert p.slope_z == pytest.approx(float(g @ z[:, 0]))
    assert p.curvature_x == pytest.approx(float(x @ h @ x / (x @ x)))
    assert p.curvature_z == pytest.approx(float(z[:, 0] @ h @ z[:, 0]))
    zero = rank_one_plane(0.0, 0.0)
    assert (float(zero.slope_x), float(zero.curvature_x), float(zero.curvature_z)) == (0.0, 0.0, -1.0)


def test_ratio_at_its_least_and_where_curvature_helps():
    assert improvement_ratio(1 / (2 * np.sqrt(2)), np.sqrt(3 / 8), 0.25 + 1e-12) == pytest.approx(1 / np.sqrt(2))
    assert np.isinf(improvement_ratio(0.1, 0.1))
    assert np.isinf(improvement_ratio(1.0, 0.0))
    grad = jax.grad(lambda a: improvement_ratio(a, 0.2))(1.3)
    assert np.isfinite(grad)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: top_eigenvector(np.ones((2, 3))), ValueError, "matrix must have shape"),
        (lambda: top_eigenvector(np.eye(2), np.ones(3)), ValueError, "start must have shape"),
        (lambda: factor_gradient(np.eye(2), np.ones(3)), ValueError, "x must have shape"),
        (lambda: factor_hessian(np.eye(2) * np.nan, np.ones(2)), ValueError, "matrix must be finite"),
        (lambda: factor_forms(np.eye(2), np.ones(2), np.ones(3)), ValueError, "delta must have shape"),
        (lambda: factor_critical_points(np.ones(3)), ValueError, "matrix must have shape"),
        (lambda: rank_one_plane(np.inf, 0.0), ValueError, "a must be finite"),
        (lambda: improvement_ratio(1.0, 0.0, jnp.ones(2)), ValueError, "gamma must have shape"),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
