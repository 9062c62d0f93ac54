import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.foundations import (
    characteristic_polynomial,
    is_psd,
    jacobi_svd,
    loewner_geq,
    numerical_rank,
    rank_one_terms,
    singular_values,
    sorted_eigen,
    svd,
    svd_geometry,
    truncation_errors,
)

RNG = np.random.default_rng(2)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def test_sorted_eigen():
    a = RNG.normal(size=(5, 5))
    a = a + a.T
    values, vectors = sorted_eigen(a)
    np.testing.assert_allclose(values, np.sort(np.linalg.eigvalsh(a))[::-1], rtol=1e-12)
    np.testing.assert_allclose(a @ vectors, vectors * values, atol=1e-12)
    with pytest.raises(ValueError, match="a must be symmetric"):
        sorted_eigen(np.array([[1.0, 2.0], [0.0, 1.0]]))


def test_characteristic_polynomial_against_numpy():
    a = RNG.normal(size=(6, 6))
    np.testing.assert_allclose(jax.jit(characteristic_polynomial)(a), np.poly(a), atol=1e-11)


def test_order_of_matrices():
    assert is_psd(np.eye(3))
    assert not is_psd(np.array([[1.0, -10.0], [0.0, 1.0]]))
    one, other = np.diag([1.0, 0.0]), np.diag([0.0, 1.0])
    assert not loewner_geq(one, other)
    assert not loewner_geq(other, one)
    assert loewner_geq(one + other, one)
    assert is_psd(np.diag([1.0, -1e-3]), tolerance=1e-2)
    with pytest.raises(ValueError, match="the same shape"):
        loewner_geq(np.eye(2), np.eye(3))
    with pytest.raises(ValueError, match="b must be symmetric"):
        loewner_geq(np.eye(2), np.array([[1.0, 2.0], [0.0, 1.0]]))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
def test_svd(shape):
    a = RNG.normal(size=shape)
    parts = svd(a)
    np.testing.assert_allclose(parts.u @ parts.d @ parts.v.T, a, atol=1e-12)
    np.testing.assert_allclose(singular_values(a), np.linalg.svd(a, compute_uv=False), rtol=1e-12)
    np.testing.assert_allclose(rank_one_terms(a).sum(0), a, atol=1e-12)
    np.testing.assert_allclose(truncation_errors(a)[0], np.linalg.norm(a), rtol=1e-12)


def test_numerical_rank():
    a = RNG.normal(size=(7, 2)) @ RNG.normal(size=(2, 5))
    assert numerical_rank(a) == 2
    assert numerical_rank(np.diag([1.0, 1e-3]), tolerance=1e-2) == 1


@pytest.mark.parametrize("shape", [(6, 4), (5, 5), (3, 1)])
def test_jacobi_svd_against_lapack(shape):
    a = RNG.normal(size=shape)
    u, s, v = jax.jit(jacobi_svd)(a)
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), rtol=1e-12)
    np.testing.assert_allclose((u * s) @ v.T, a, atol=1e-12)
    np.testing.assert_allclose(u.T @ u, np.eye(shape[1]), atol=1e-12)


def test_jacobi_svd_of_deficient_rank_and_of_a_wide_matrix():
    a = RNG.normal(size=(6, 2)) @ RNG.normal(size=(2, 4))
    u, s, v = jacobi_svd(a)
    np.testing.assert_allclose(s[2:], 0, atol=1e-13)
    np.testing.assert_allclose((u * s) @ v.T, a, atol=1e-12)
    with pytest.raises(ValueError, match="transpose it"):
        jacobi_svd(a.T)


def test_geometry():
    a = np.array([[1.0, 1.0], [0.0, 1.0]])
    g = svd_geometry(a, 400)
    np.testing.assert_allclose(g.image, g.circle @ a.T, atol=1e-12)
    np.testing.assert_allclose(jnp.linalg.norm(g.rotated, axis=1), 1, rtol=1e-12)
    assert jnp.abs(g.scaled[:, 0]).max() == pytest.approx(np.linalg.norm(a, 2), rel=1e-4)
    with pytest.raises(ValueError, match="a must have shape"):
        svd_geometry(np.eye(3))
