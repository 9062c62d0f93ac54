"""Alternating least squares for $ABx$: in each factor alone the squared loss is convex with a known minimum."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import optimize

from corollary.landscape import alternating_least_squares, best_inner, best_outer, deep_linear_loss, second_moments

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 4)), RNG.normal(size=(20, 3))


def network(sizes, seed=1):
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(m, n)) for n, m in pairwise(sizes))


def test_best_factors_solve_the_normal_equations_and_are_best():
    inner, outer = network((4, 2, 3))
    second = second_moments(X, Y)
    b, a = best_inner(outer, X, Y), best_outer(inner, X, Y)
    np.testing.assert_allclose(outer.T @ outer @ b @ second.xx, outer.T @ second.yx, atol=1e-10)
    np.testing.assert_allclose(a @ inner @ second.xx @ inner.T, second.yx @ inner.T, atol=1e-10)
    # the same by SciPy, over one factor alone
    search = optimize.minimize(
        lambda f: float(deep_linear_loss((f.reshape(2, 4), outer), X, Y)), inner.ravel(), tol=1e-12
    )
    assert deep_linear_loss((b, outer), X, Y) == pytest.approx(search.fun, rel=1e-6)
    search = optimize.minimize(
        lambda f: float(deep_linear_loss((inner, f.reshape(3, 2)), X, Y)), outer.ravel(), tol=1e-12
    )
    assert deep_linear_loss((inner, a), X, Y) == pytest.approx(search.fun, rel=1e-6)


def test_best_factors_where_the_other_is_deficient():
    outer = np.outer(np.ones(3), [1.0, 2.0])
    b, second = best_inner(outer, X, Y), second_moments(X, Y)
    np.testing.assert_allclose(outer.T @ outer @ b @ second.xx, outer.T @ second.yx, atol=1e-10)
    inner = np.outer([1.0, 2.0], np.ones(4))
    a = best_outer(inner, X, Y)
    np.testing.assert_allclose(a @ inner @ second.xx @ inner.T, second.yx @ inner.T, atol=1e-10)


def test_alternating_least_squares_reaches_reduced_rank_regression():
    got = alternating_least_squares(network((4, 2, 3))[1], X, Y, 400)
    fitted = X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    floor = (np.sum((Y - fitted) ** 2) + np.linalg.svd(fitted)[1][2] ** 2) / 2
    assert got.value.shape == (800,)
    assert np.all(np.diff(got.value) <= 1e-12 * got.value[0])
    assert got.value[-1] == pytest.approx(floor, rel=1e-9)
    assert deep_linear_loss((got.inner, got.outer), X, Y) == pytest.approx(float(got.value[-1]), rel=1e-13)
