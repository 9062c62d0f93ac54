"""Local predictors against plain loops, NumPy and scikit-learn."""

import jax
import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor

from corollary.generalization import broken_line, nadaraya_watson, nearest_neighbour, singular_kernel

RNG = np.random.default_rng(1)
X, Y, NEW = RNG.normal(size=(15, 2)), RNG.normal(size=15), RNG.normal(size=(6, 2))


def test_weighted_average_by_hand():
    f = nadaraya_watson(X, Y, singular_kernel(0.7, 2.0))
    for x in NEW:
        r = np.linalg.norm(X - x, axis=1)
        w = np.where(r <= 2, r**-0.7, 0)
        np.testing.assert_allclose(f(x), w @ Y / w.sum(), rtol=1e-12)
    np.testing.assert_array_equal(jax.vmap(f)(X), Y)


def test_a_kernel_without_a_singularity_averages_and_nothing_in_reach_is_nan():
    f = nadaraya_watson(X[:, 0], Y, lambda r: (r < 0.5).astype(float))
    near = np.abs(X[:, 0] - X[3, 0]) < 0.5
    np.testing.assert_allclose(f(X[3, 0]), Y[near].mean())
    assert np.isnan(f(100.0))


def test_broken_line_against_numpy():
    order = np.argsort(X[:, 0])
    f = broken_line(X[:, 0], Y)
    np.testing.assert_allclose(f(np.linspace(-3, 3, 50)), np.interp(np.linspace(-3, 3, 50), X[order, 0], Y[order]))


def test_nearest_neighbour_against_scikit_learn():
    reference = KNeighborsRegressor(1).fit(X, Y)
    np.testing.assert_allclose(jax.vmap(nearest_neighbour(X, Y))(NEW), reference.predict(NEW))


def test_sentences():
    with pytest.raises(TypeError, match="kernel must be a function of distances"):
        nadaraya_watson(X, Y, 0.5)
    with pytest.raises(ValueError, match=r"x must be one point of shape \(2,\), got \(6, 2\)"):
        nearest_neighbour(X, Y)(NEW)
    with pytest.raises(ValueError, match="width must be positive"):
        singular_kernel(0.5, 0.0)
