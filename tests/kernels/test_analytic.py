"""Kernels of wide dense networks against reference values, closed forms, the architecture's, and finite differences."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.kernels import (
    Activation,
    Architecture,
    Dense,
    dual_derivative,
    dual_kernel,
    first_layer_ntk,
    nngp,
    ntk,
)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 4)), RNG.normal(size=(3, 4))


def test_reference_values():
    x = np.array([[1, 0.5, -0.3, 0.8], [-0.2, 0.7, 0.4, 0.1]])
    arguments = {"depth": 2, "bias_std": 0.1**0.5}
    assert float(nngp(x, **arguments)[0, 1]) == pytest.approx(0.59362, abs=1e-5)
    assert float(ntk(x, **arguments)[0, 1]) == pytest.approx(0.92356, abs=1e-5)


def test_recursion_entry_by_entry():
    for name in ("relu", "erf", "gelu", "tanh"):
        ws, bs = 1.2, 0.3
        for i, j in ((0, 1), (2, 2)):
            x, y = X[i], Y[j]
            a, c, b = (ws**2 * p / 4 + bs**2 for p in (x @ x, x @ y, y @ y))
            tangent = c
            for _ in range(3):
                slope = ws**2 * dual_derivative(name, a, c, b)
                c2 = ws**2 * dual_kernel(name, a, c, b) + bs**2
                a, b = (ws**2 * dual_kernel(name, v, v, v) + bs**2 for v in (a, b))
                c, tangent = c2, slope * tangent + c2
            arguments = {"depth": 3, "activation": name, "weight_std": ws, "bias_std": bs}
            np.testing.assert_allclose(nngp(X, Y, **arguments)[i, j], c, rtol=1e-11)
            np.testing.assert_allclose(ntk(X, Y, **arguments)[i, j], tangent, rtol=1e-11)


@pytest.mark.parametrize("depth", [0, 1, 3, 10])
def test_linear_networks_and_the_diagonal_of_relu(depth):
    products = X @ X.T / 4
    np.testing.assert_allclose(
        ntk(X, depth=depth, activation="linear", weight_std=1), (depth + 1) * products, rtol=1e-12
    )
    # with weight_std² = 2 ReLU keeps the variance, and each layer adds as much
    diagonal = 2 * np.diagonal(products)
    np.testing.assert_allclose(np.diagonal(nngp(X, depth=depth)), diagonal, rtol=1e-12)
    np.testing.assert_allclose(np.diagonal(ntk(X, depth=depth)), (depth + 1) * diagonal, rtol=1e-12)


@pytest.mark.parametrize(("depth", "name"), [(4, "relu"), (1, "erf"), (1, "gelu"), (1, "sine"), (1, "gaussian")])
def test_the_same_as_the_architecture(depth, name):
    layers = [Dense(3, 1.1, 0.2), Activation(name)] * depth + [Dense(1, 1.1, 0.2)]
    arguments = {"depth": depth, "activation": name, "weight_std": 1.1, "bias_std": 0.2}
    for y in (None, Y):
        np.testing.assert_allclose(Architecture(layers).nngp(X, y), nngp(X, y, **arguments), rtol=1e-12)
        np.testing.assert_allclose(Architecture(layers).ntk(X, y), ntk(X, y, **arguments), rtol=1e-12)


def test_first_layer():
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    z = unit @ unit.T
    expected = z * (np.pi - np.arccos(np.clip(z, -1, 1))) / (2 * np.pi)
    np.testing.assert_allclose(first_layer_ntk(unit), expected, atol=1e-8)  # the arc cosine loses half the digits
    np.testing.assert_allclose(np.diagonal(first_layer_ntk(unit)), 0.5, rtol=1e-15)
    # the share of the first layer in the tangent kernel of both, at weights of scale 1 on unscaled inputs
    both = Architecture([Dense(3, 2.0), Activation("relu"), Dense(1, 1.0)])
    np.testing.assert_allclose(first_layer_ntk(X, Y), both.ntk(X, Y) - both.nngp(X, Y), rtol=1e-12)


@pytest.mark.parametrize("name", ["relu", "leaky relu", "squared relu", "erf", "gelu", "tanh"])
def test_gradients_at_equal_points_are_finite(name):
    for kernel in (nngp, ntk):

        def entry(x, kernel=kernel):
            return kernel(x, X, depth=1, activation=name, bias_std=0.1)[1, 1]

        gradient = jax.jit(jax.grad(entry))(jnp.asarray(X))
        assert np.isfinite(gradient).all()
        # on the diagonal the kernel is a function of one point; half of its gradient, where the kernel is smooth
        if name in ("erf", "gelu", "tanh") or (name == "relu" and kernel is nngp):
            own = jax.jit(jax.grad(lambda x, k=kernel: k(x, depth=1, activation=name, bias_std=0.1)[1, 1]))(
                jnp.asarray(X)
            )
            np.testing.assert_allclose(gradient[1], own[1] / 2, rtol=1e-7, atol=1e-9)


def test_semidefinite_symmetric_and_single():
    x = RNG.normal(size=(30, 3))
    for name in ("relu", "erf", "tanh"):
        arguments = {"depth": 2, "activation": name, "weight_std": 1.0, "bias_std": 0.1}
        double = np.asarray(ntk(x, **arguments))
        # a product has two orders; a quadrature has its own error, which depends on which point comes first
        np.testing.assert_allclose(double, double.T, rtol=1e-12 if name != "tanh" else 1e-8)
        assert np.linalg.eigvalsh(double).min() > 0
        single = ntk(x.astype(np.float32), **arguments)
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, double, rtol=1e-4)
        # no rounding of a product counts as an angle between a point and itself
        np.testing.assert_allclose(np.diagonal(single), np.diagonal(double), rtol=3e-6)


def test_single_precision_on_many_inputs():
    x = RNG.normal(size=(50, 784)).astype(np.float32)
    np.testing.assert_allclose(np.diagonal(ntk(x, depth=5)), 12 * np.mean(x.astype(float) ** 2, 1), rtol=1e-5)


def test_jit_vmap_and_scales():
    assert jax.jit(lambda x: ntk(x, depth=2))(X).shape == (6, 6)
    stacked = jax.vmap(lambda x: nngp(x, depth=1))(jnp.stack([X, 2 * X]))
    np.testing.assert_allclose(stacked[1], 4 * stacked[0], rtol=1e-12)
    slope = jax.grad(lambda s: nngp(X, depth=2, weight_std=s)[0, 1])(1.5)
    np.testing.assert_allclose(slope, 6 / 1.5 * nngp(X, depth=2, weight_std=1.5)[0, 1], rtol=1e-10)  # homogeneous


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: ntk(X, depth=-1), ValueError, "depth must be at least 0, got -1."),
        (lambda: ntk(X[0], depth=1), ValueError, "x1 must have shape (n, d), got (4,)."),
        (lambda: nngp(X, Y[:, :2], depth=1), ValueError, "x2 must have shape (m, d) with d = 4, got (3, 2)."),
        (lambda: nngp(X, depth=1, weight_std=-1.0), ValueError, "weight_std must be zero or more, got -1.0."),
        (lambda: nngp(X, depth=1, bias_std=[1.0]), ValueError, "bias_std must have shape (), got (1,)."),
        (lambda: nngp(np.full((2, 2), np.nan), depth=1), ValueError, "x1 must be finite, got nan at index (0, 0)."),
        (lambda: ntk(X, depth=1, activation="swish"), ValueError, "activation must be one of 'relu'"),
        (lambda: first_layer_ntk(X, activation=1), TypeError, "activation must be a name or a function, got int."),
    ],
)
def test_sentences(call, error, sentence):
    with pytest.raises(error, match=re.escape(sentence)):
        call()
