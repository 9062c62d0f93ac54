"""The point of a convex polytope nearest to the origin, by Wolfe's method."""

import jax
import numpy as np
import pytest
from scipy.optimize import nnls

from corollary.linear import min_norm_point


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("shift", [0.0, 0.5, 3.0])
def test_nearest_point_against_nonnegative_least_squares(shift):
    points = np.random.default_rng(1).normal(size=(40, 6)) + shift
    found = min_norm_point(points)
    # the same weights up to a factor: least squares with the sum as one more equation
    reference, _ = nnls(np.vstack([points.T, np.ones(40)]), np.append(np.zeros(6), 1.0))
    np.testing.assert_allclose(found.point, reference @ points / reference.sum(), atol=1e-12)
    np.testing.assert_allclose(found.weights @ points, found.point, atol=1e-13)
    np.testing.assert_allclose(found.weights.sum(), 1)
    assert (np.asarray(found.weights) >= 0).all()
    assert 0 <= float(found.gap) < 1e-13 or float(np.linalg.norm(found.point)) < 1e-14
