"""The graph Fourier transform, filters in its domain, and filters by polynomials that never go there."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

from corollary import data
from corollary.nets.graphs import (
    Edges,
    GraphFourier,
    chebyshev_coefficients,
    chebyshev_filter,
    eigendecomposition_cost,
    graph_convolve,
    graph_laplacian,
    laplacian_apply,
    polynomial_filter,
    polynomial_filter_cost,
    spectral_filter,
    sphere_mean_defect,
    sphere_rule,
)

RNG = np.random.default_rng(0)
A = data.barbell_graph(3, 1)
L = np.diag(A.sum(0)) - A
X = RNG.normal(size=(7, 2))


def test_fourier_and_filters():
    waves = GraphFourier(L)
    frequencies, basis = np.linalg.eigh(L)
    np.testing.assert_allclose(waves.frequencies, frequencies, atol=1e-13)
    np.testing.assert_allclose(waves.inverse(waves.forward(X)), X, atol=1e-13)
    np.testing.assert_allclose(waves.forward(X), np.asarray(waves.basis).T @ X, atol=1e-14)
    x, y = X.T
    np.testing.assert_allclose(graph_convolve(x, y, basis), basis @ ((basis.T @ x) * (basis.T @ y)), atol=1e-13)
    np.testing.assert_allclose(spectral_filter(L, lambda f: jnp.exp(-f), X), expm(-L) @ X, atol=1e-12)
    alpha = [0.5, -1.0, 0.25, 2.0]
    expected = sum(c * np.linalg.matrix_power(L, k) for k, c in enumerate(alpha)) @ X
    np.testing.assert_allclose(polynomial_filter(L, alpha, X), expected, rtol=1e-12)
    np.testing.assert_allclose(
        polynomial_filter(lambda v: laplacian_apply(Edges.of(A), v), alpha, X), expected, rtol=1e-12
    )
    np.testing.assert_allclose(polynomial_filter(L, [3.0], X), 3 * X)
    top = 2 * A.sum(0).max()
    c = chebyshev_coefficients(lambda f: np.exp(-f), 30, top)
    np.testing.assert_allclose(chebyshev_filter(L, c, X, top=top), expm(-L) @ X, atol=1e-12)


def test_costs():
    """The counts against a tridiagonalisation and a filter that count what they do."""

    def tridiagonalise(a):
        a, operations = a.copy(), 0
        for k in range(len(a) - 2):
            v = a[k + 1 :, k].copy()
            v[0] += np.copysign(np.linalg.norm(v), v[0])
            v /= np.linalg.norm(v)
            row = a[k + 1 :, k] - 2 * (v @ a[k + 1 :, k]) * v
            a[k + 1 :, k] = a[k, k + 1 :] = row
            block = a[k + 1 :, k + 1 :]
            p = block @ v
            operations += 2 * len(v) ** 2
            w = p - (v @ p) * v
            block -= 2 * (np.outer(v, w) + np.outer(w, v))
            operations += 2 * len(v) ** 2  # four operations an entry, of one triangle
        return a, operations

    dense = RNG.normal(size=(60, 60))
    dense = dense + dense.T
    flat, operations = tridiagonalise(dense)
    assert np.abs(np.triu(flat, 2)).max() < 1e-12
    np.testing.assert_allclose(np.linalg.eigvalsh(flat), np.linalg.eigvalsh(dense), atol=1e-11)
    assert operations / eigendecomposition_cost(60) == pytest.approx(1.0, abs=0.05)

    pairs, operations, alpha = np.argwhere(np.triu(A)), 0, [0.5, -1.0, 0.25]
    total, operations = alpha[-1] * X[:, 0], 7
    for a in alpha[-2::-1]:
        heard = np.zeros(7)
        for i, j in pairs:
            heard[i] += total[j]
            heard[j] += total[i]
            operations += 2
        total = A.sum(0) * total - heard + a * X[:, 0]
        operations += 4 * 7
    np.testing.assert_allclose(total, polynomial_filter(L, alpha, X[:, 0]), rtol=1e-12)
    assert polynomial_filter_cost(7, len(pairs), 2) == operations


def test_bad_input():
    with pytest.raises(ValueError, match="laplacian must be symmetric"):
        GraphFourier(np.triu(L))
    with pytest.raises(ValueError, match=r"x must be a signal \(7,\)"):
        spectral_filter(L, jnp.exp, X[:3])
    with pytest.raises(ValueError, match=r"spectrum must be a signal \(7,\)"):
        GraphFourier(L).inverse(X[:3])
    with pytest.raises(ValueError, match="basis must be a square matrix"):
        graph_convolve(X[:, 0], X[:, 1], np.ones((7, 6)))
    with pytest.raises(ValueError, match=r"y must have shape \(7,\)"):
        graph_convolve(X[:, 0], X[:3, 1], np.eye(7))
    with pytest.raises(ValueError, match="vertex 2 has none"):
        graph_laplacian(data.adjacency([(0, 1)], 3), normalised=True)
    with pytest.raises(TypeError, match="use laplacian_apply"):
        graph_laplacian(Edges.of(A))
    with pytest.raises(ValueError, match="dim must be from 1 to 3"):
        sphere_rule(4)
    with pytest.raises(ValueError, match="radius must be positive"):
        sphere_mean_defect(jnp.sum, np.zeros(2), 0.0)
    with pytest.raises(ValueError, match="top must be positive"):
        chebyshev_filter(L, [1.0], X, top=0.0)
    with pytest.raises(ValueError, match="top must be positive"):
        chebyshev_coefficients(np.exp, 3, -1.0)
    with pytest.raises(ValueError, match="coefficients must have shape"):
        polynomial_filter(L, 1.0, X)
    with pytest.raises(ValueError, match="nodes must be at least 1"):
        eigendecomposition_cost(0)
    with pytest.raises(ValueError, match="order must be at least 0"):
        polynomial_filter_cost(4, 3, -1)
