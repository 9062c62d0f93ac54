import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.foundations import (
    column_space,
    commutator,
    in_span,
    inverse,
    is_orthogonal,
    matrix_product,
    orthogonality_defect,
)

RNG = np.random.default_rng(1)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def test_in_span():
    vectors = np.array([[1.0, 2.0], [2.0, 4.0]])
    assert in_span(vectors, np.array([2.0, 4.0])).inside
    out = in_span(vectors, np.array([1.0, 0.0]))
    assert not out.inside
    assert out.distance == pytest.approx(2 / 5**0.5)
    assert in_span(vectors, np.array([1.0, 0.0]), tolerance=1.0).inside
    v = RNG.normal(size=(6, 3))
    c = RNG.normal(size=3)
    found = jax.jit(in_span)(v, v @ c)
    assert found.inside
    np.testing.assert_allclose(found.coefficients, c, rtol=1e-10)


def test_column_space_projects_the_columns_onto_themselves():
    a = RNG.normal(size=(6, 2)) @ RNG.normal(size=(2, 4))
    basis, rank = column_space(a)
    assert rank == 2 == np.linalg.matrix_rank(a)
    first = np.asarray(basis)[:, :2]
    np.testing.assert_allclose(first @ first.T @ a, a, atol=1e-12)


def test_product_commutator_inverse():
    a, b = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 5))
    np.testing.assert_allclose(matrix_product(a, b), a @ b, rtol=1e-12)
    s, t = RNG.normal(size=(2, 4, 4))
    np.testing.assert_allclose(commutator(s, t), s @ t - t @ s, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(inverse)(s), np.linalg.inv(s), rtol=1e-9)
    pivot = np.array([[0.0, 1.0], [1.0, 0.0]])  # the first pivot is zero
    np.testing.assert_allclose(inverse(pivot), pivot)
    assert inverse(s.astype(np.float32)).dtype == jnp.float32


def test_orthogonality():
    q = np.linalg.qr(RNG.normal(size=(5, 5)))[0]
    assert is_orthogonal(q)
    assert not is_orthogonal(2 * q)
    assert orthogonality_defect(2 * q) == pytest.approx(3)
    assert is_orthogonal(2 * q, tolerance=4.0)


def test_bad_input():
    with pytest.raises(ValueError, match="a must be invertible"):
        inverse(np.ones((2, 2)))
    with pytest.raises(ValueError, match="b must have shape"):
        matrix_product(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="a must have shape"):
        is_orthogonal(np.ones((2, 3)))
    with pytest.raises(ValueError, match="tolerance must be zero or more"):
        in_span(np.eye(2), np.ones(2), tolerance=-1)
    with pytest.raises(ValueError, match="b must have shape"):
        in_span(np.eye(2), np.ones(3))
