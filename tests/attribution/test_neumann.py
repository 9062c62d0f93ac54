"""The Neumann series against dense inverses and against its own terms, added one by one with NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.attribution import (
    neumann_error,
    neumann_inverse,
    neumann_solve,
    neumann_terms,
    stochastic_neumann_solve,
)


def _matrix(spectrum):
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(len(spectrum),) * 2))[0]
    return (axes * spectrum) @ axes.T


def test_terms_are_counted_from_the_identity():
    a = _matrix(np.linspace(0.1, 0.9, 5))
    powers = [np.linalg.matrix_power(np.eye(5) - a, i) for i in range(4)]
    np.testing.assert_allclose(neumann_inverse(a, 1), np.eye(5), atol=1e-15)
    np.testing.assert_allclose(neumann_inverse(a, 4), sum(powers), atol=1e-13)
    scaled = neumann_inverse(7 * a, 4, scale=7.0)
    np.testing.assert_allclose(scaled, sum(powers) / 7, atol=1e-13)


def test_a_matrix_that_is_not_symmetric():
    a = np.array([[0.5, 0.2], [0.0, 0.7]])
    np.testing.assert_allclose(neumann_inverse(a, 200), np.linalg.inv(a), atol=1e-12)


def test_one_product_fewer_than_terms():
    calls = []

    def product(u):
        jax.debug.callback(lambda: calls.append(1))
        return 0.3 * u

    jax.block_until_ready(neumann_solve(product, jnp.ones(2), 9))
    jax.effects_barrier()
    assert len(calls) == 8


def test_solution_and_error():
    a = _matrix(np.linspace(0.2, 0.8, 6))
    v = np.arange(6.0)
    for terms in (1, 5, 60):
        left = np.linalg.inv(a) - np.asarray(neumann_inverse(a, terms))
        np.testing.assert_allclose(np.linalg.eigvalsh(left)[-1], neumann_error(0.2, terms), rtol=1e-10)
    found = neumann_solve(lambda u: jnp.asarray(a) @ u, v, neumann_terms(0.2, 1e-9))
    assert np.linalg.norm(found - np.linalg.solve(a, v)) <= 1e-9 * np.linalg.norm(v)


@pytest.mark.parametrize(("least", "epsilon"), [(0.5, 0.25), (0.01, 1e-3), (0.9, 1e-12), (1.0, 0.1), (0.3, 10.0)])
def test_the_number_of_terms_is_the_least(least, epsilon):
    r = neumann_terms(least, epsilon)
    assert neumann_error(least, r) <= epsilon * (1 + 1e-9)
    assert r == 1 or neumann_error(least, r - 1) > epsilon


def test_fresh_matrices_against_the_mean_matrix():
    rng = np.random.default_rng(1)
    parts = np.stack([_matrix(s) for s in rng.uniform(0.1, 0.9, (4, 3))])
    v = np.array([1.0, -2.0, 0.5])

    def product(u, key):
        return jnp.asarray(parts)[jax.random.randint(key, (), 0, 4)] @ u

    def one(key):
        return stochastic_neumann_solve(product, v, 3, scale=2.0, key=key)

    found = jax.vmap(one)(jax.random.split(jax.random.key(0), 4000))
    # every pair of matrices there is, all alike: two products make three terms
    eye = np.eye(3)
    sums = [v + (eye - b / 2) @ (v + (eye - a / 2) @ v) for a in parts for b in parts]
    error = np.std(found, axis=0) / len(found) ** 0.5
    assert np.all(np.abs(found.mean(0) - np.mean(sums, 0) / 2) < 5 * error)


def test_sentences():
    with pytest.raises(ValueError, match="terms must be at least 1"):
        neumann_inverse(np.eye(2), 0)
    for matrix, scale, worst in [
        (_matrix([0.5, 2.1]), 1.0, "2.1"),
        (np.diag([0.5, 9.0]), 4.0, "9"),
        (np.diag([1.0, 0.0]), 1.0, "0"),
        ([[0.5, -1.0], [1.0, 0.5]], 1.0, r"0.5\+1j"),
    ]:
        with pytest.raises(ValueError, match=f"eigenvalues of matrix must lie less than scale = .* got {worst}"):
            neumann_inverse(matrix, 10_000, scale=scale)
    assert np.isfinite(neumann_inverse([[0.5, -0.8], [0.8, 0.5]], 10_000)).all()
    with pytest.raises(ValueError, match="scale must be positive"):
        neumann_solve(lambda u: u, np.ones(2), 3, scale=0.0)
    with pytest.raises(ValueError, match=r"least must be in \(0, 1\]"):
        neumann_error(1.5, 3)
    with pytest.raises(ValueError, match="epsilon must be positive"):
        neumann_terms(0.5, 0.0)
    with pytest.raises(TypeError, match="a number of terms is static"):
        jax.jit(lambda e: neumann_terms(0.5, e))(0.1)
