"""Polynomials against NumPy, SciPy's linear programs and scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import BarycentricInterpolator
from scipy.optimize import linprog
from sklearn.linear_model import Ridge
from sklearn.preprocessing import PolynomialFeatures

from corollary.generalization import (
    chebyshev_nodes,
    interpolating_polynomial,
    least_absolute_polynomial,
    polynomial_fit,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=12) * 3 + 1
Y = RNG.normal(size=12)
NEW = np.linspace(-5, 7, 9)


@pytest.mark.parametrize("basis", ["orthonormal", "legendre", "monomial"])
def test_least_squares_against_numpy(basis):
    p = polynomial_fit(X, Y, 4, basis=basis)
    reference = np.polynomial.Polynomial.fit(X, Y, 4)
    np.testing.assert_allclose(p(NEW), reference(NEW), rtol=1e-8)
    np.testing.assert_allclose(p.monomials(), reference.convert().coef, rtol=1e-7, atol=1e-10)


def test_truncation_is_the_fit_of_a_lower_degree_for_a_traced_degree():
    p = polynomial_fit(X, Y, 8)
    found = jax.vmap(lambda d: p.truncated(d)(NEW))(jnp.arange(9))
    for d in range(9):
        np.testing.assert_allclose(found[d], np.polynomial.Polynomial.fit(X, Y, d)(NEW), rtol=1e-7, atol=1e-9)


def test_penalty_on_monomials_against_scikit_learn():
    features = PolynomialFeatures(5).fit_transform(X[:, None])
    reference = Ridge(alpha=12 * 0.3, fit_intercept=False, solver="svd").fit(features, Y)
    p = polynomial_fit(X, Y, 5, penalty=0.3, basis="monomial")
    np.testing.assert_allclose(p.coefficients, reference.coef_, rtol=1e-8)
    np.testing.assert_allclose(p(NEW), PolynomialFeatures(5).fit_transform(NEW[:, None]) @ reference.coef_, rtol=1e-8)


def test_legendre_coefficients_are_those_of_numpy_after_scaling():
    p = polynomial_fit(X, Y, 4, basis="legendre", penalty=0.1)
    u = (X - (X.min() + X.max()) / 2) / np.ptp(X) * 2
    features = np.polynomial.legendre.legvander(u, 4) * np.sqrt(2 * np.arange(5) + 1)
    hand = np.linalg.solve(features.T @ features + 12 * 0.1 * np.eye(5), features.T @ Y)
    np.testing.assert_allclose(p.coefficients, hand, rtol=1e-9)


def test_more_coefficients_than_points_interpolate_with_the_least_norm():
    x, y = X[:5] / 4, Y[:5]
    p = polynomial_fit(x, y, 9, basis="monomial")
    np.testing.assert_allclose(p(x), y, atol=1e-9)
    np.testing.assert_allclose(p.coefficients, np.linalg.pinv(np.vander(x, 10, increasing=True)) @ y, rtol=1e-6)


def test_interpolation_against_scipy():
    p = interpolating_polynomial(X, Y)
    # outside the points sums of terms up to 1e8 times the labels are taken: rounding is 1e-8 of that in either
    np.testing.assert_allclose(p(NEW), BarycentricInterpolator(X, Y)(NEW), rtol=1e-6)
    np.testing.assert_array_equal(p(X), Y)
    np.testing.assert_allclose(polynomial_fit(X, Y, 11)(NEW), p(NEW), rtol=1e-6)


def test_least_absolute_deviations_against_a_linear_program():
    features = np.vander(X, 3, increasing=True)
    cost = np.concatenate([np.zeros(3), np.ones(12)])
    above = np.block([[features, -np.eye(12)], [-features, -np.eye(12)]])
    program = linprog(cost, above, np.concatenate([Y, -Y]), bounds=[(None, None)] * 3 + [(0, None)] * 12)
    p = least_absolute_polynomial(X, Y, 2)
    np.testing.assert_allclose(np.abs(Y - p(X)).sum(), program.fun, rtol=1e-9)


def test_chebyshev_nodes_are_zeros():
    np.testing.assert_allclose(np.sort(chebyshev_nodes(7)), np.polynomial.chebyshev.chebpts1(7), atol=1e-15)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: polynomial_fit(X, Y, 12), "degree must be below the number of points for the orthonormal basis"),
        (lambda: polynomial_fit(X, Y, 2, basis="fourier"), "basis must be one of 'orthonormal'"),
        (lambda: polynomial_fit(X, Y, 2, penalty=-1.0), "penalty must be zero or more"),
        (lambda: interpolating_polynomial([1.0, 1.0], [0.0, 1.0]), "x must have no value twice"),
        (lambda: least_absolute_polynomial(np.arange(40.0), np.arange(40.0), 9), "at most 2\\^17 choices"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
