"""Features behind kernels: monomials for powers, eigenfunctions for any kernel."""

import jax
import numpy as np
import pytest
from numpy.polynomial import chebyshev

from corollary.kernels import (
    LaplaceKernel,
    PolynomialKernel,
    brownian_eigenfunctions,
    brownian_eigenvalues,
    gram,
    monomial_count,
    monomial_features,
    plane_features,
    polynomial_features,
    sphere_series,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 3))


def test_polynomial_features():
    for degree, offset in ((2, 1.0), (3, 0.5), (2, 0.0)):
        phi = np.asarray(jax.vmap(lambda p, k=degree, c=offset: polynomial_features(p, k, c))(X))
        np.testing.assert_allclose(phi @ phi.T, gram(PolynomialKernel(degree, offset), X), atol=1e-11)
    np.testing.assert_allclose(
        np.sort(polynomial_features([2.0, 3.0], 2)), np.sort([1, 2 * 2**0.5, 3 * 2**0.5, 6 * 2**0.5, 4, 9])
    )


@pytest.mark.parametrize(("name", "g"), [("gaussian", lambda s: np.exp(-s * s)), ("laplace", lambda s: np.exp(-s))])
def test_series_sum_to_the_kernel(name, g):
    u = np.linspace(-0.8, 0.8, 33)
    c = np.asarray(sphere_series(name, 120))
    np.testing.assert_allclose(np.polynomial.polynomial.polyval(u, c), g(np.sqrt(2 - 2 * u)), atol=1e-12)
    assert (c > 0).all()


def test_coefficients_against_interpolation():
    # the same function interpolated on a small interval: an independent way to its Taylor coefficients
    for name, sign in (("laplace", -1), ("growing", 1)):
        r = 0.2
        c = chebyshev.cheb2poly(chebyshev.chebinterpolate(lambda t, s=sign: np.exp(s * np.sqrt(2 - 2 * 0.2 * t)), 14))
        np.testing.assert_allclose(sphere_series(name, 5), c[:5] / r ** np.arange(5), rtol=1e-6)
    assert len(sphere_series("laplace", 1)) == len(sphere_series("gaussian", 1)) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: polynomial_features([1.0], 2, -1.0), "offset must be zero or more"),
        (lambda: polynomial_features([1.0], 0), "degree must be at least 1"),
        (lambda: sphere_series("cubic", 3), "kernel must be one of"),
        (lambda: sphere_series("laplace", 0), "terms must be at least 1"),
        (lambda: LaplaceKernel(order=3), "order must be from 1 to 2"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_monomials():
    np.testing.assert_allclose(plane_features([2.0, 3.0]), [4, 6 * 2**0.5, 9])
    assert monomial_features(X[0], 4).size == monomial_count(3, 4) == 15
    np.testing.assert_allclose(monomial_features(X[0], 3) @ monomial_features(X[1], 3), (X[0] @ X[1]) ** 3)


def test_brownian_expansion():
    t = np.linspace(0, 1, 41)
    psi, mu = brownian_eigenfunctions(t, 3000), brownian_eigenvalues(3000)
    np.testing.assert_allclose((psi * mu) @ psi.T, np.minimum.outer(t, t), atol=2 / (np.pi**2 * 3000))
    assert float(mu.sum()) == pytest.approx(0.5, abs=1e-4)  # the trace: the integral of min(t, t)
