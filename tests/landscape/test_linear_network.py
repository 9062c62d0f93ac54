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
        (lambda: least_squares_map(X[:2], Y[:2]), ValueError, "x must span the space of inputs"),
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
