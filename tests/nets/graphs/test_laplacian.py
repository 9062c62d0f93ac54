"""The Laplacian as a deviation from the mean: of a function near a point, and of a signal on a graph."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse.csgraph import laplacian as scipy_laplacian

from corollary import data
from corollary.nets.graphs import Edges, graph_laplacian, laplacian, laplacian_apply, sphere_mean_defect, sphere_rule

RNG = np.random.default_rng(0)
A = data.barbell_graph(3, 1)
X = RNG.normal(size=(7, 2))


def test_laplacian_of_a_function():
    point = np.array([0.3, -0.7, 1.1])
    # x y^2 + e^z + x^3
    found = laplacian(lambda x: x[0] * x[1] ** 2 + jnp.exp(x[2]) + x[0] ** 3, point)
    np.testing.assert_allclose(found, 2 * point[0] + np.exp(point[2]) + 6 * point[0], rtol=1e-13)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_sphere_rule(dim):
    points, weights = sphere_rule(dim, 12)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-14)
    # the means of x^2 and x^4 over the sphere are 1/d and 3/(d(d+2)), of odd powers zero
    powers = [weights @ points**k for k in (1, 2, 4, 5)]
    for mean, exact in zip(powers, (0, 1 / dim, 3 / (dim * (dim + 2)), 0), strict=True):
        np.testing.assert_allclose(mean, exact, atol=1e-14)
    defect = sphere_mean_defect(lambda x: jnp.sum(x**2), points[0], 0.5)
    np.testing.assert_allclose(defect, 0.25, rtol=1e-12)


def test_graph_laplacian():
    np.testing.assert_array_equal(graph_laplacian(A), scipy_laplacian(A))
    np.testing.assert_allclose(graph_laplacian(A, normalised=True), scipy_laplacian(A, normed=True), atol=1e-15)
    for graph in (A, Edges.of(A)):
        for normed in (False, True):
            expected = scipy_laplacian(A, normed=normed) @ X
            np.testing.assert_allclose(laplacian_apply(graph, X, normalised=normed), expected, atol=1e-14)
