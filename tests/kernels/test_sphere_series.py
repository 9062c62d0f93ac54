"""Power series of kernels on the sphere, polynomial features, and the Euclidean Laplace kernel."""

import jax
import numpy as np
import pytest
from numpy.polynomial import chebyshev

from corollary.kernels import LaplaceKernel, PolynomialKernel, gram, polynomial_features, sphere_series

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


def test_laplace_kernel_of_the_euclidean_norm():
    distance = np.linalg.norm(X[:, None] - X[None], axis=-1)
    np.testing.assert_allclose(gram(LaplaceKernel(2.0, order=2), X), np.exp(-distance / 2), atol=1e-14)
    slope = jax.grad(LaplaceKernel(order=2))
    assert np.isfinite(slope(X[0], X[0])).all()
    np.testing.assert_allclose(slope(X[0], X[1]), -np.exp(-distance[0, 1]) * (X[0] - X[1]) / distance[0, 1], rtol=1e-12)


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
