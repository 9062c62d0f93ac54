"""Kernels: functions of two points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import pairwise

from corollary.kernels import (
    ArcCosineKernel,
    BrownianKernel,
    FeatureKernel,
    GaussianKernel,
    LaplaceKernel,
    LinearKernel,
    PolynomialKernel,
    gram,
    monomial_features,
)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(7, 3)), RNG.normal(size=(5, 3))


@pytest.mark.parametrize(
    ("kernel", "reference"),
    [
        (LinearKernel(), pairwise.linear_kernel),
        (PolynomialKernel(3, 0.5), lambda a, b: pairwise.polynomial_kernel(a, b, degree=3, gamma=1, coef0=0.5)),
        (GaussianKernel(0.7), lambda a, b: pairwise.rbf_kernel(a, b, gamma=1 / (2 * 0.7**2))),
        (LaplaceKernel(1.3), lambda a, b: pairwise.laplacian_kernel(a, b, gamma=1 / 1.3)),
    ],
)
def test_kernels_against_scikit_learn(kernel, reference):
    # parameters are made before the double-precision scope opens, hence in single precision
    np.testing.assert_allclose(gram(kernel, X, Y), reference(X, Y), rtol=2e-6)
    np.testing.assert_allclose(gram(kernel, X), reference(X, X), rtol=2e-6)


@pytest.mark.parametrize("order", [0, 1])
def test_arc_cosine_is_an_average_over_random_units(order):
    w = np.random.default_rng(1).normal(size=(400_000, 3))
    act = (lambda z: (z > 0) * 1.0) if order == 0 else (lambda z: np.maximum(z, 0))
    for a, b in ((X[0], X[1]), (X[2], -X[2]), (X[3], X[3])):
        values = 2 * act(w @ a) * act(w @ b)
        error = values.std() / np.sqrt(len(values))
        assert ArcCosineKernel(order)(a, b) == pytest.approx(values.mean(), abs=5 * error + 1e-12)


def test_feature_kernel_and_user_functions():
    kernel = FeatureKernel(lambda p: monomial_features(p, 2))
    np.testing.assert_allclose(gram(kernel, X), (X @ X.T) ** 2)
    np.testing.assert_allclose(gram(lambda a, b: a[0] * b[0], X, Y), np.outer(X[:, 0], Y[:, 0]))
    np.testing.assert_allclose(gram(BrownianKernel(), jnp.array([0.2, 0.7])), [[0.2, 0.2], [0.2, 0.7]])


def test_kernels_are_differentiable_in_their_parameters():
    slope = jax.grad(lambda h: GaussianKernel(h)(X[0], X[1]))(0.9)
    gap = float(np.sum((X[0] - X[1]) ** 2))
    assert slope == pytest.approx(np.exp(-gap / (2 * 0.81)) * gap / 0.9**3)


def test_laplace_kernel_of_the_euclidean_norm():
    distance = np.linalg.norm(X[:, None] - X[None], axis=-1)
    np.testing.assert_allclose(gram(LaplaceKernel(2.0, order=2), X), np.exp(-distance / 2), atol=1e-14)
    slope = jax.grad(LaplaceKernel(order=2))
    assert np.isfinite(slope(X[0], X[0])).all()
    np.testing.assert_allclose(slope(X[0], X[1]), -np.exp(-distance[0, 1]) * (X[0] - X[1]) / distance[0, 1], rtol=1e-12)
