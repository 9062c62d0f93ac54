"""Kernels against scikit-learn and Monte Carlo, Gram matrices and their expansions against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.kernels import (
    ArcCosineKernel,
    BrownianKernel,
    FeatureKernel,
    GaussianKernel,
    LaplaceKernel,
    LinearKernel,
    PolynomialKernel,
    brownian_eigenfunctions,
    definiteness,
    feature_cost,
    gram,
    gram_cost,
    is_kernel,
    mercer,
    mercer_features,
    monomial_features,
    nystrom,
    plane_features,
    truncated,
    truncation_error,
)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(7, 3)), RNG.normal(size=(5, 3))


def test_definiteness_proves_both_ways():
    yes = definiteness(X @ X.T)
    assert yes.semidefinite
    np.testing.assert_allclose(yes.factor @ yes.factor.T, X @ X.T, atol=1e-12)
    matrix = X @ X.T - 0.1 * np.eye(7)
    no = definiteness(matrix)
    assert not no.semidefinite
    assert no.witness @ matrix @ no.witness == pytest.approx(float(no.smallest)) == pytest.approx(-0.1)


def test_is_kernel():
    def sampler(key, n):
        return jax.random.normal(key, (n, 2))

    key = jax.random.key(0)
    assert is_kernel(GaussianKernel(), sampler, key=key)
    assert is_kernel(ArcCosineKernel(), sampler, key=key)
    assert not is_kernel(lambda a, b: -jnp.sum((a - b) ** 2), sampler, key=key)
    assert not is_kernel(lambda a, b: a[0] * b[1], sampler, key=key)  # not symmetric


def test_mercer_on_points_is_the_spectral_theorem():
    g = np.asarray(gram(GaussianKernel(), X))
    found = mercer(GaussianKernel(), X, np.ones(7), 7)
    np.testing.assert_allclose(found.eigenvalues, np.linalg.eigvalsh(g)[::-1])
    np.testing.assert_allclose(truncated(found), g, atol=1e-12)
    features = mercer_features(GaussianKernel(), X, np.ones(7), found, Y)
    # at the points themselves and between points and new ones the features reproduce the kernel
    own = mercer_features(GaussianKernel(), X, np.ones(7), found, X)
    np.testing.assert_allclose(own @ features.T, gram(GaussianKernel(), X, Y), atol=1e-9)


def test_nystrom_against_the_formula():
    g = np.asarray(gram(GaussianKernel(), X))
    marks = [0, 3, 5]
    f = nystrom(GaussianKernel(), X, marks)
    slow = g[:, marks] @ np.linalg.inv(g[np.ix_(marks, marks)]) @ g[marks]
    np.testing.assert_allclose(f @ f.T, slow, atol=1e-12)
    every = nystrom(GaussianKernel(), X, np.arange(7))
    np.testing.assert_allclose(every @ every.T, g)
    # a landmark that is there twice adds nothing
    twice = nystrom(GaussianKernel(), X, [0, 3, 5, 3])
    np.testing.assert_allclose(twice @ twice.T, slow, atol=1e-9)


def test_truncation_error_is_that_of_the_svd():
    g = np.asarray(gram(GaussianKernel(), X))
    u, s, vt = np.linalg.svd(g)
    slow = [np.linalg.norm(g - (u[:, :r] * s[:r]) @ vt[:r]) for r in range(8)]
    np.testing.assert_allclose(truncation_error(g), slow, atol=1e-12)


def test_costs():
    assert gram_cost(100, 7) == (70_000, 10_000)
    assert feature_cost(100, 20, 3) == (6_000, 2_000)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: PolynomialKernel(0), ValueError, "degree must be at least 1, got 0"),
        (lambda: PolynomialKernel(2, -1.0), ValueError, "offset must be zero or more, got -1.0"),
        (lambda: GaussianKernel(0.0), ValueError, "width must be positive, got 0.0"),
        (lambda: LaplaceKernel(-2.0), ValueError, "width must be positive, got -2.0"),
        (lambda: ArcCosineKernel(2), ValueError, "order must be from 0 to 1, got 2"),
        (lambda: BrownianKernel()(X[0], X[1]), ValueError, r"x must be a point of one coordinate, got shape \(3,\)"),
        (lambda: FeatureKernel(3), TypeError, "features must be a function of a point, got int"),
        (lambda: LinearKernel()(X[0], X[0, :2]), ValueError, r"y must have shape \(d,\) with d = 3, got \(2,\)"),
        (lambda: gram("rbf", X), TypeError, "kernel must be a function of two points, got str"),
        (lambda: gram(lambda a, b: a * b, X), ValueError, "kernel must return one number for two points"),
        (lambda: gram(LinearKernel(), X, Y[:, :2]), ValueError, r"y must have shape \(m, d\) with d = 3, got \(5, 2\)"),
        (lambda: gram(LinearKernel(), X[None]), ValueError, r"x must have shape \(n,\) or \(n, d\), got \(1, 7, 3\)"),
        (
            lambda: definiteness([[0.0, 1.0], [0.0, 0.0]]),
            ValueError,
            "g must be symmetric, got entries that differ",
        ),
        (lambda: is_kernel(LinearKernel(), 3, key=None), TypeError, "sampler must be a function of a key and a number"),
        (lambda: plane_features(X[0]), ValueError, r"x must have shape \(2,\), got \(3,\)"),
        (lambda: monomial_features(X[0], 0), ValueError, "degree must be at least 1, got 0"),
        (lambda: mercer(LinearKernel(), X, np.ones(7), 8), ValueError, "rank must be from 1 to 7, got 8"),
        (lambda: mercer(LinearKernel(), X, np.zeros(7), 3), ValueError, "weights must be positive, got 0.0 at index 0"),
        (lambda: truncated(3), TypeError, "expansion must be an Expansion"),
        (lambda: brownian_eigenfunctions([1.5], 2), ValueError, r"t must be in \[0, 1\], got 1.5 at index 0"),
        (lambda: nystrom(LinearKernel(), X, [7]), ValueError, "landmarks must hold labels from 0 to 6, got 7"),
        (lambda: gram_cost(0, 1), ValueError, "points must be at least 1, got 0"),
    ],
)
def test_bad_input_gets_a_sentence(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
