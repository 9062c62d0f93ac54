"""Moments of random layers, against enumeration of all signs, closed forms and finite differences."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.landscape import (
    deep_linear_gradients,
    expected_gradient_norms,
    forward_fourth_moments,
    forward_second_moments,
    fourth_moment_through,
    gaussian_gradient_bound,
    gaussian_gradient_norm,
    matrix_jacobian,
    second_moment_through,
    squared_product_moments,
)

RNG = np.random.default_rng(0)
# all matrices of signs: exact expectations for kurtosis 1
SIGNS = {
    shape: np.array(list(itertools.product((-1.0, 1.0), repeat=shape[0] * shape[1]))).reshape(-1, *shape)
    for shape in ((2, 2), (3, 2), (2, 3), (3, 3))
}


def test_jacobian_by_the_matrix():
    a, x = RNG.normal(size=(3, 4)), RNG.normal(size=4)
    exact = np.asarray(jax.jacobian(lambda a: a @ x)(jnp.asarray(a)))  # (3, 3, 4)
    np.testing.assert_allclose(matrix_jacobian(x, 3, "row"), exact.reshape(3, 12))
    np.testing.assert_allclose(matrix_jacobian(x, 3), exact.transpose(0, 2, 1).reshape(3, 12))
    np.testing.assert_allclose(matrix_jacobian(x, 3) @ a.ravel("F"), a @ x)


def test_gradients_of_a_deep_linear_network():
    weights = [RNG.normal(size=s) for s in ((3, 2), (4, 3), (2, 4))]
    x, y = RNG.normal(size=2), RNG.normal(size=2)

    def loss(weights):
        return 0.5 * jnp.sum((weights[2] @ weights[1] @ weights[0] @ x - y) ** 2)

    for ours, exact in zip(deep_linear_gradients(weights, x, y), jax.grad(loss)(weights), strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-12)


def test_second_and_fourth_moment_by_enumeration():
    w = 0.7 * SIGNS[3, 3]
    a, b, xi = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 4)), RNG.normal(size=3)
    exact = np.mean(np.sum((a @ w @ b) ** 2, axis=(1, 2)))
    assert second_moment_through(a, b, 0.49) == pytest.approx(exact, rel=1e-12)
    exact = np.mean(np.sum((w @ xi) ** 2, axis=1) ** 2)
    assert fourth_moment_through(xi, 3, 0.49, 1.0) == pytest.approx(exact, rel=1e-12)
    assert fourth_moment_through(xi, 3, 0.49) > exact


def test_two_layers_by_enumeration():
    w1, w2 = 0.7 * SIGNS[3, 2], 0.7 * SIGNS[2, 3]
    x, y = RNG.normal(size=2), RNG.normal(size=2)
    pairs = np.einsum("aij,bjk->abik", w2, w1).reshape(-1, 2, 2)
    out = pairs @ x
    np.testing.assert_allclose(forward_second_moments(x, (3, 2), 0.49)[-1], np.mean(np.sum(out**2, 1)), rtol=1e-12)
    np.testing.assert_allclose(
        forward_fourth_moments(x, (3, 2), 0.49, 1.0)[-1], np.mean(np.sum(out**2, 1) ** 2), rtol=1e-12
    )
    grams = np.einsum("nij,nik->njk", pairs, pairs)
    products = squared_product_moments((2, 3, 2), 0.49, 1.0)
    np.testing.assert_allclose(products[0], np.mean(np.sum(grams**2, (1, 2))), rtol=1e-12)
    single = np.einsum("nij,nik->njk", w2, w2)
    np.testing.assert_allclose(products[1], np.mean(np.sum(single**2, (1, 2))), rtol=1e-12)
    assert products[2] == 2

    def norms(w1, w2):
        return jnp.stack([jnp.sum(g**2) for g in deep_linear_gradients((w1, w2), x, y)])

    exact = jax.jit(jax.vmap(lambda a: jax.vmap(lambda b: norms(a, b))(w2)))(w1).mean((0, 1))
    np.testing.assert_allclose(expected_gradient_norms(x, y, (3, 2), 0.49, 1.0), exact, rtol=1e-12)


def test_closed_form_for_normal_weights():
    x, y = RNG.normal(size=4), RNG.normal(size=4)
    rho, gamma = np.sum(x**2) ** 2, np.sum(x**2) * np.sum(y**2)
    general = expected_gradient_norms(x, y, (4,) * 6, 0.3)
    closed = gaussian_gradient_norm(4, 6, np.arange(1, 7), 0.3, rho, gamma)
    np.testing.assert_allclose(general, closed, rtol=1e-12)
    bound = gaussian_gradient_bound(4, 6, 0.3, rho, gamma)
    assert (closed < bound).all()
    m = squared_product_moments((4,) * 7, 0.3)
    k = np.arange(7)[::-1]
    np.testing.assert_allclose(m, 0.3 ** (2 * k) / 3 * (24.0 ** (k + 1) - 12.0 ** (k + 1)), rtol=1e-12)
    assert float(expected_gradient_norms(np.float32(x), np.float32(y), (4,) * 6, jnp.float32(0.3)).dtype.itemsize) == 4


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: matrix_jacobian([1.0], 1, "diagonal"), "order must be one of"),
        (lambda: matrix_jacobian([1.0], 0), "rows must be at least 1"),
        (lambda: deep_linear_gradients([], [1.0], [1.0]), "weights must hold at least one matrix"),
        (lambda: deep_linear_gradients([np.eye(2), np.eye(3)], np.ones(2), np.ones(3)), "must have 2 columns"),
        (lambda: deep_linear_gradients([np.eye(2)], np.ones(3), np.ones(2)), "x must have shape"),
        (lambda: second_moment_through(np.eye(2), np.eye(2), 0.0), "variance must be positive"),
        (lambda: fourth_moment_through([1.0], 1, 1.0, 0.5), "kurtosis must be at least 1"),
        (lambda: forward_second_moments([1.0], (), 1.0), "widths must hold at least 1"),
        (lambda: squared_product_moments((2,), 1.0), "widths must hold at least 2"),
        (lambda: expected_gradient_norms([1.0], [1.0], (2,), 1.0), "y must have shape"),
        (lambda: gaussian_gradient_norm(2, 3, 4, 1.0, 1.0, 1.0), r"k must be in \[1, 3\]"),
        (lambda: gaussian_gradient_bound(2, 3, 1.0, -1.0, 1.0), "rho must be zero or more"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
