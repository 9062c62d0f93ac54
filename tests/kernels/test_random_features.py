"""Random features and Gaussian processes against scikit-learn, sampling and plain formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.kernels import (
    ArcCosineKernel,
    GaussianKernel,
    GaussianProcess,
    RandomFeatures,
    fourier_error_bound,
    fourier_features,
    fourier_uniform_bound,
    gram,
    sample_law,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 3))


def test_features_kernel_and_model():
    f = RandomFeatures.draw(3, 7, jnp.tanh, bias_std=0.5, key=jax.random.key(0))
    w, b = np.asarray(f.weight), np.asarray(f.bias)
    phi = np.tanh(X @ w.T + b)
    np.testing.assert_allclose(f.kernel(X), phi @ phi.T / 7, atol=1e-14)
    np.testing.assert_allclose(f.kernel(X, X[:2]), phi @ phi[:2].T / 7, atol=1e-14)
    theta = RNG.normal(size=7)
    np.testing.assert_allclose(f(theta, X), phi @ theta / 7**0.5, atol=1e-14)


@pytest.mark.parametrize("kind", ["relu", "fourier"])
def test_many_features_have_the_kernel_of_infinitely_many(kind):
    p = 200_000
    if kind == "relu":
        f, limit = RandomFeatures.draw(3, p, key=jax.random.key(1)), gram(ArcCosineKernel(), X) / 2
    else:
        f, limit = fourier_features(3, p, width=1.5, key=jax.random.key(1)), gram(GaussianKernel(1.5), X)
    terms = np.asarray(f.features(X)).T[:, :, None] * np.asarray(f.features(X)).T[:, None] * p
    error = terms.std(0) / p**0.5
    assert (np.abs(np.asarray(f.kernel(X)) - limit) < 5 * error).all()


def test_pairs_of_a_cosine_and_a_sine():
    f = fourier_features(3, 8, width=2.0, paired=True, key=jax.random.key(0))
    w = np.asarray(f.weight)[::2]
    np.testing.assert_allclose(f.kernel(X), np.cos((X[:, None] - X[None]) @ w.T).mean(-1), atol=1e-14)


def test_error_bounds():
    assert fourier_error_bound(1000, 0.2) == pytest.approx(2 * np.exp(-5))
    assert fourier_error_bound(1000, 0.2, paired=True) == pytest.approx(2 * np.exp(-10))
    assert fourier_error_bound(10, 0.1) == 1.0
    # the best radius of a fine grid is no better
    q, eps, d, size, h = 10_000.0, 0.2, 2, 3.0, 1.3
    r = np.geomspace(1e-12, 2 * size, 20_000)
    direct = 2 * (4 * size / r) ** d * np.exp(-q * eps**2 / 8) + 16 * r**2 * d / (h * eps) ** 2
    assert fourier_uniform_bound(2 * q, eps, d, size, h) == pytest.approx(direct.min(), rel=1e-5)
    assert fourier_uniform_bound(10, eps, d, size, h) == 1.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: RandomFeatures.draw(0, 3, key=jax.random.key(0)), ValueError, "dim must be at least 1"),
        (lambda: RandomFeatures.draw(1, 3, 5, key=jax.random.key(0)), TypeError, "phi must be a function"),
        (
            lambda: RandomFeatures.draw(1, 3, weight_std=0, key=jax.random.key(0)),
            ValueError,
            "weight_std must be positive",
        ),
        (lambda: RandomFeatures.draw(2, 3, key=jax.random.key(0)).features(X), ValueError, "x must have shape"),
        (lambda: RandomFeatures.draw(3, 4, key=jax.random.key(0))(np.ones(3), X), ValueError, "theta must have shape"),
        (lambda: fourier_features(1, 3, width=0, key=jax.random.key(0)), ValueError, "width must be positive"),
        (lambda: fourier_features(1, 3, paired=True, key=jax.random.key(0)), ValueError, "features must be even"),
        (lambda: fourier_error_bound(0, 0.1), ValueError, "features must be positive"),
        (lambda: fourier_error_bound(1, 0.0), ValueError, "error must be positive"),
        (lambda: fourier_uniform_bound(1, 0.1, 2, 0.0), ValueError, "diameter must be positive"),
        (lambda: GaussianProcess(3), TypeError, "kernel must be a function"),
        (lambda: GaussianProcess(GaussianKernel(), 1.0), TypeError, "mean must be a function"),
        (lambda: GaussianProcess(GaussianKernel()).condition(X, np.ones(4), X), ValueError, "y must have shape"),
        (lambda: GaussianProcess(GaussianKernel()).condition(X, np.ones(5), X, -1.0), ValueError, "noise must be zero"),
        (lambda: sample_law((0, 1), 3, key=jax.random.key(0)), TypeError, "law must be a Law"),
        (lambda: GaussianProcess(GaussianKernel()).sample(X, 0, key=jax.random.key(0)), ValueError, "size must be"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
