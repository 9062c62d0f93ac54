"""Underdetermined least squares against NumPy, and gradient descent against the loop."""

import jax
import numpy as np
import pytest

from corollary.linear import (
    descent_from_zero,
    interpolants,
    min_norm_interpolant,
    moore_penrose,
    sparse_interpolant,
    sum_of_squares,
    sum_of_squares_gradient,
)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 11)), RNG.normal(size=6)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_loss_and_gradient():
    w = RNG.normal(size=11)
    assert sum_of_squares(w, X, Y) == pytest.approx(0.5 * np.sum((X @ w - Y) ** 2))
    np.testing.assert_allclose(sum_of_squares_gradient(w, X, Y), jax.grad(sum_of_squares)(w, X, Y))
    np.testing.assert_allclose(sum_of_squares_gradient(w, X, Y, 1.0), 2 * X.T @ (X @ w - Y))


@pytest.mark.parametrize(("m", "n", "k"), [(5, 3, 2), (3, 5, 3), (30, 50, 10)])
def test_pseudo_inverse_of_any_rank(m, n, k):
    a = RNG.normal(size=(m, k)) @ RNG.normal(size=(k, n))
    np.testing.assert_allclose(moore_penrose(a), np.linalg.pinv(a, rcond=1e-13), atol=1e-11)


def test_pseudo_inverse_of_zero_and_with_a_tolerance():
    np.testing.assert_array_equal(moore_penrose(np.zeros((2, 3))), np.zeros((3, 2)))
    np.testing.assert_allclose(moore_penrose(np.diag([1.0, 0.01]), tolerance=0.1), np.diag([1.0, 0.0]))


def test_shortest_interpolant():
    np.testing.assert_allclose(min_norm_interpolant(X, Y), np.linalg.lstsq(X, Y)[0], atol=1e-12)
    several = RNG.normal(size=(6, 2))
    np.testing.assert_allclose(min_norm_interpolant(X, several), np.linalg.lstsq(X, several)[0], atol=1e-12)
    np.testing.assert_allclose(min_norm_interpolant(X.T, Y @ X), np.linalg.lstsq(X.T, Y @ X)[0], atol=1e-12)


def test_solution_space():
    space = interpolants(X, Y)
    assert space.null.shape == (11, 5)
    c = RNG.normal(size=5)
    np.testing.assert_allclose(X @ (space.shortest + space.null @ c), Y, atol=1e-12)
    np.testing.assert_allclose(space.null.T @ space.null, np.eye(5), atol=1e-12)


def test_sparse_solution():
    support = [0, 2, 3, 7, 8, 10]
    w = sparse_interpolant(X, Y, support)
    np.testing.assert_allclose(X @ w, Y, atol=1e-11)
    assert not np.delete(np.asarray(w), support).any()
    twin = X.copy()
    twin[:, 2] = twin[:, 0]
    assert np.isnan(sparse_interpolant(twin, Y, support)).any()


def test_descent_is_the_iteration():
    step, w, path = 0.9 / np.linalg.norm(X, 2) ** 2, np.zeros(11), []
    for _ in range(30):
        path.append(w)
        w = w - step * X.T @ (X @ w - Y)
    np.testing.assert_allclose(descent_from_zero(X, Y, step, np.arange(30)), path, atol=1e-12)
    tall = X.T
    w = np.zeros(6)
    for _ in range(3):
        w = w - step * tall.T @ (tall @ w - X[0])
    np.testing.assert_allclose(descent_from_zero(tall, X[0], step, [3])[0], w, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sum_of_squares(np.ones(3), X, Y), "w must have shape"),
        (lambda: sum_of_squares(np.ones(11), X, Y, 0.0), "scale must be positive"),
        (lambda: moore_penrose(np.ones(3)), "m must have shape"),
        (lambda: moore_penrose(X, tolerance=-1.0), "tolerance must be zero or more"),
        (lambda: min_norm_interpolant(X, np.ones((6, 1, 1))), "y must have shape"),
        (lambda: interpolants(X.T, np.ones(11)), "fewer rows than columns"),
        (lambda: interpolants(np.ones((2, 3)), np.ones(2)), "independent rows"),
        (lambda: sparse_interpolant(X, Y, [0, 1, 2, 3, 4, 4]), "different coordinates"),
        (lambda: sparse_interpolant(X, Y, [0, 1, 2, 3, 4, 11]), "from 0 to 10"),
        (lambda: sparse_interpolant(X, Y, [0, 1]), "support must have shape"),
        (lambda: descent_from_zero(X, np.ones((6, 2)), 0.1, [1]), "y must have shape"),
        (lambda: descent_from_zero(X, Y, 0.0, [1]), "step must be positive"),
        (lambda: descent_from_zero(X, Y, 0.1, [-1]), "0 or more"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
