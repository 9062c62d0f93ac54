"""Variances through layers, against quadrature, sampling and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from corollary.landscape import (
    delta_method_variance,
    layer_variance_bound,
    linear_layer_variances,
    product_variance,
    variance_profile,
)


def test_delta_method():
    assert delta_method_variance(lambda x: 3 * x + 1, 2.0, 0.5) == pytest.approx(4.5)  # exact for affine functions
    # the logarithm of a log-normal variable, and back: Var exp(X) = e^(2 mu + s^2) (e^(s^2) - 1)
    exact = np.exp(2 * 0.3 + 1e-4) * np.expm1(1e-4)
    assert delta_method_variance(jnp.exp, 0.3, 1e-4) == pytest.approx(exact, rel=1e-3)


def test_layer_variances():
    rng = np.random.default_rng(0)
    w, v = rng.normal(size=(4, 3)), rng.uniform(size=3)
    np.testing.assert_allclose(linear_layer_variances(w, v), np.diag(w @ np.diag(v) @ w.T), rtol=1e-13)
    bound = layer_variance_bound(w, v, 0.25)
    np.testing.assert_allclose(bound, 0.25**4 * np.sum(w**4) * np.sum(v**2), rtol=1e-13)
    assert np.sum(np.asarray(linear_layer_variances(w, v)) ** 2) <= layer_variance_bound(w, v)


def test_product_variance():
    u, p = np.array([1.0, 2.0, -1.0]), np.array([0.2, 0.5, 0.3])
    v, q = np.array([0.5, 3.0]), np.array([0.4, 0.6])
    products, weights = np.outer(u, v), np.outer(p, q)
    exact = np.sum(weights * products**2) - np.sum(weights * products) ** 2
    moments = [(a @ w, a**2 @ w - (a @ w) ** 2) for a, w in ((u, p), (v, q))]
    assert product_variance(*moments[0], *moments[1]) == pytest.approx(exact, rel=1e-13)


def test_variance_profile():
    profile = np.asarray(variance_profile(jnp.tanh, 1.3, 0.5, 4))
    v = 0.5
    for got in profile[1:]:
        s = np.sqrt(1.3 * v)
        v = integrate.quad(lambda z, s=s: np.tanh(s * z) ** 2 * stats.norm.pdf(z), -12, 12, epsabs=1e-13)[0]
        assert got == pytest.approx(v, rel=1e-7)
    # rectified units pass one half on
    np.testing.assert_allclose(variance_profile(jax.nn.relu, 2.0, 0.7, 3), 0.7, rtol=1e-12)
    np.testing.assert_allclose(variance_profile(lambda z: z, 0.5, 1.0, 3), 0.5 ** np.arange(4), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: delta_method_variance(1.0, 0.0, 1.0), "g must be a function of a number"),
        (lambda: delta_method_variance(jnp.exp, 0.0, -1.0), "variance must be zero or more"),
        (lambda: linear_layer_variances(np.eye(2), [1.0]), "variances must have shape"),
        (lambda: linear_layer_variances(np.eye(2), [1.0, -1.0]), "variances must be zero or more"),
        (lambda: layer_variance_bound(np.eye(2), [1.0, 1.0], 0.0), "slope must be positive"),
        (lambda: product_variance(0.0, -1.0, 0.0, 1.0), "variance_u must be zero or more"),
        (lambda: product_variance(0.0, 1.0, 0.0, -1.0), "variance_v must be zero or more"),
        (lambda: variance_profile(1.0, 1.0, 1.0, 1), "activation must be a function"),
        (lambda: variance_profile(jnp.tanh, 0.0, 1.0, 1), "gain must be positive"),
        (lambda: variance_profile(jnp.tanh, 1.0, 0.0, 1), "start must be positive"),
        (lambda: variance_profile(jnp.tanh, 1.0, 1.0, 0), "depth must be at least 1"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
