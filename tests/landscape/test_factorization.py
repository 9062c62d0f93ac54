"""Factorisation and completion, against NumPy and SciPy's orthogonal Procrustes."""

import jax
import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes

from corollary.landscape import procrustes, symmetric_completion, symmetric_factorization

RNG = np.random.default_rng(0)
Z, X = RNG.normal(size=(6, 2)), RNG.normal(size=(6, 2))
M = Z @ Z.T


def test_factorization_knows_its_minimum():
    problem = symmetric_factorization(M, X)
    assert problem(X) == pytest.approx(0.25 * np.linalg.norm(M - X @ X.T) ** 2)
    assert problem(Z) == pytest.approx(0.0, abs=1e-25)
    assert problem.minimum == pytest.approx(0.0, abs=1e-10)
    indefinite = M - 3 * np.eye(6)
    problem = symmetric_factorization(indefinite, X)
    assert problem(problem.minimiser) == pytest.approx(float(problem.minimum))
    np.testing.assert_allclose(problem.gradient(problem.minimiser), 0, atol=1e-10)


def test_procrustes_is_scipys():
    expected, _ = orthogonal_procrustes(Z, X)
    np.testing.assert_allclose(procrustes(X, Z), expected, atol=1e-12)
    np.testing.assert_allclose(procrustes(-Z[:, :1], Z[:, :1]), [[-1.0]])


def test_completion_by_hand():
    observed = (RNG.uniform(size=(6, 6)) < 0.6).astype(float)
    observed = np.triu(observed) + np.triu(observed, 1).T
    problem = symmetric_completion(M, observed, X, level=1.0, penalty=0.7)
    fit = sum(observed[i, j] * (M - X @ X.T)[i, j] ** 2 for i in range(6) for j in range(6))
    long = sum(max(np.linalg.norm(row) - 1.0, 0) ** 4 for row in X)
    assert problem(X) == pytest.approx(fit / (4 * observed.mean()) + 0.7 * long)
    assert symmetric_completion(M, observed, X, level=10.0)(Z) == pytest.approx(0.0, abs=1e-25)
    assert np.isfinite(jax.grad(problem)(np.zeros((6, 2)))).all()
    full = symmetric_completion(M, np.ones((6, 6)), X, level=1.0, penalty=0.0)
    assert full(X) == pytest.approx(float(symmetric_factorization(M, X)(X)))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: symmetric_factorization(M, X[:3]), "start must have shape"),
        (lambda: symmetric_factorization(X, X), "matrix must have shape"),
        (lambda: procrustes(X, Z[:, :1]), "z must have shape"),
        (lambda: symmetric_completion(M, np.ones((5, 5)), X, level=1.0), "observed must have shape"),
        (lambda: symmetric_completion(M, 2 * np.ones((6, 6)), X, level=1.0), "observed must be in"),
        (lambda: symmetric_completion(M, np.ones((6, 6)), X, level=0.0), "level must be positive"),
        (lambda: symmetric_completion(M, np.ones((6, 6)), X, level=1.0, penalty=-1.0), "penalty must be zero or more"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
