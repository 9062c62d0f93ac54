"""Linear networks under the squared loss, against NumPy, SciPy, automatic differentiation and brute force."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from corollary.landscape import (
    MATRIX_DERIVATIVES,
    SecondMoments,
    alternating_least_squares,
    best_inner,
    best_outer,
    deep_linear_loss,
    least_squares_map,
    matrix_difference,
    projected_least_squares,
    second_moments,
    squared_loss_gradient,
    squared_loss_of_moments,
)
from corollary.landscape._chain import around

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 4)), RNG.normal(size=(20, 3))
SIZES = [(4, 3), (4, 2, 3), (4, 5, 2, 3), (4, 2, 3, 3, 3)]


def network(sizes, seed=1):
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(m, n)) for n, m in pairwise(sizes))


@pytest.mark.parametrize("sizes", SIZES)
def test_loss_and_gradient(sizes):
    weights = network(sizes)
    whole = np.linalg.multi_dot(weights[::-1]) if len(weights) > 1 else weights[0]
    expected = sum(np.sum((y - whole @ x) ** 2) for x, y in zip(X, Y, strict=True)) / 2
    assert deep_linear_loss(weights, X, Y) == pytest.approx(expected, rel=1e-12)
    assert squared_loss_of_moments(whole, second_moments(X, Y)) == pytest.approx(expected, rel=1e-12)
    for ours, automatic in zip(
        squared_loss_gradient(weights, X, Y), jax.grad(deep_linear_loss)(weights, X, Y), strict=True
    ):
        np.testing.assert_allclose(ours, automatic, rtol=1e-10, atol=1e-10)


def test_moments_and_regression():
    second = second_moments(X, Y)
    np.testing.assert_allclose(second.yx, sum(np.outer(y, x) for x, y in zip(X, Y, strict=True)), rtol=1e-12)
    np.testing.assert_allclose(least_squares_map(X, Y), np.linalg.lstsq(X, Y, rcond=None)[0].T, rtol=1e-10)


def test_around_leaves_out_one_layer():
    weights = network((4, 5, 2, 3))
    after, before = around(tuple(map(jnp.asarray, weights)))[1]
    np.testing.assert_allclose(after, weights[2], rtol=1e-14)
    np.testing.assert_allclose(before, weights[0], rtol=1e-14)
    after, before = around(tuple(map(jnp.asarray, weights)))[0]
    np.testing.assert_allclose(after, weights[2] @ weights[1], rtol=1e-14)
    np.testing.assert_allclose(before, np.eye(4))


@pytest.mark.parametrize("sizes", SIZES[1:])
def test_projection_is_that_of_numpy(sizes):
    weights = network(sizes)
    outer = np.linalg.multi_dot(weights[:0:-1]) if len(weights) > 2 else weights[1]
    expected = outer @ np.linalg.pinv(outer) @ np.linalg.lstsq(X, Y, rcond=None)[0].T
    np.testing.assert_allclose(projected_least_squares(weights, X, Y), expected, rtol=1e-9, atol=1e-10)


def test_zero_has_no_range():
    weights = (jnp.ones((2, 4)), jnp.zeros((3, 2)))
    np.testing.assert_array_equal(projected_least_squares(weights, X, Y), np.zeros((3, 4)))


def test_critical_point_of_scipy_has_the_projected_form():
    weights = network((4, 2, 3))
    flat, unravel = jax.flatten_util.ravel_pytree(tuple(map(jnp.asarray, weights)))
    value = jax.jit(jax.value_and_grad(lambda f: deep_linear_loss(unravel(f), X, Y)))
    found = unravel(jnp.asarray(optimize.minimize(value, flat, jac=True, tol=1e-12, options={"gtol": 1e-10}).x))
    np.testing.assert_allclose(found[1] @ found[0], projected_least_squares(found, X, Y), atol=1e-6)


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


@pytest.mark.parametrize("row", MATRIX_DERIVATIVES, ids=lambda row: row.name)
def test_matrix_derivatives(row):
    sizes = {"m": 3, "n": 4, "k": 2}
    rng = np.random.default_rng(3)
    arguments = {name: rng.normal(size=[sizes[a] for a in shape.split()]) for name, shape in row.shapes.items()}

    def alone(variable):
        return row.value(**arguments | {row.variable: variable})

    exact = row(**arguments)
    np.testing.assert_allclose(jax.grad(alone)(arguments[row.variable]), exact, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(matrix_difference(alone, arguments[row.variable]), exact, rtol=1e-11, atol=1e-11)


def test_precision_follows_the_input():
    x, y = jnp.asarray(X, jnp.float32), jnp.asarray(Y, jnp.float32)
    weights = tuple(jnp.asarray(w, jnp.float32) for w in network((4, 2, 3)))
    assert deep_linear_loss(weights, x, y).dtype == jnp.float32
    assert squared_loss_gradient(weights, x, y)[0].dtype == jnp.float32
    assert projected_least_squares(weights, x, y).dtype == jnp.float32
    assert alternating_least_squares(weights[1], x, y, 2).value.dtype == jnp.float32
    assert matrix_difference(jnp.sum, x).dtype == jnp.float32


def test_compiles_and_batches():
    weights = tuple(jnp.stack([jnp.asarray(w)] * 3) for w in network((4, 2, 3)))
    batch = jax.jit(jax.vmap(lambda w: projected_least_squares(w, X, Y)))(weights)
    np.testing.assert_allclose(batch[2], projected_least_squares(network((4, 2, 3)), X, Y), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: deep_linear_loss(3.0, X, Y), TypeError, "weights must be a sequence of matrices"),
        (lambda: deep_linear_loss((), X, Y), ValueError, "weights must hold at least 1 matrices"),
        (lambda: deep_linear_loss((np.ones((2, 4)), np.ones((3, 5))), X, Y), ValueError, "must have 2 columns"),
        (lambda: deep_linear_loss((np.ones((3, 5)),), X, Y), ValueError, "x must have 5 columns"),
        (lambda: deep_linear_loss((np.ones((2, 4)),), X, Y), ValueError, "y must have 2 columns"),
        (lambda: deep_linear_loss((np.ones((3, 4)),), X, Y[:5]), ValueError, "y must have shape"),
        (lambda: deep_linear_loss((np.full((3, 4), np.nan),), X, Y), ValueError, "weights.0. must be finite"),
        (lambda: projected_least_squares((np.ones((3, 4)),), X, Y), ValueError, "at least 2 matrices"),
        (lambda: projected_least_squares(network((4, 2, 3)), X, Y, 0.0), ValueError, "rank_tolerance must be positive"),
        (lambda: least_squares_map(X[:2], Y[:2]), ValueError, "x must span its space"),
        (lambda: squared_loss_of_moments(np.ones((3, 4)), (1, 2, 3)), TypeError, "second must be Moments"),
        (
            lambda: squared_loss_of_moments(np.ones((3, 5)), second_moments(X, Y)),
            ValueError,
            "second.xx must have shape",
        ),
        (
            lambda: squared_loss_of_moments(np.ones((3, 4)), SecondMoments(X, Y, Y)),
            ValueError,
            "second.xx must have shape",
        ),
        (lambda: best_inner(np.ones((2, 2)), X, Y), ValueError, "y must have shape"),
        (lambda: best_outer(np.ones((2, 2)), X, Y), ValueError, "x must have shape"),
        (lambda: alternating_least_squares(np.ones((3, 2)), X, Y, 0), ValueError, "steps must be at least 1"),
        (lambda: matrix_difference(3, X), TypeError, "f must be a function"),
        (lambda: matrix_difference(jnp.sum, X, 0.0), ValueError, "step must be positive"),
        (lambda: MATRIX_DERIVATIVES[0](A=X), TypeError, "takes the arguments X, got A"),
        (lambda: MATRIX_DERIVATIVES[1](A=X, X=X), ValueError, "X must have shape"),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
