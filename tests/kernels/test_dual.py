"""Dual kernels against quadrature in polar coordinates, Gauss and Hermite, Isserlis, SciPy; and at correlation 1."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

from corollary.kernels import (
    GELU,
    LeakyReLU,
    Monomial,
    Quadrature,
    RectifiedPower,
    dual_derivative,
    dual_kernel,
    normalising_constant,
)
from corollary.kernels._arctan import arctan
from corollary.kernels.dual import NAMES, activation

NORMAL = lambda z: np.exp(-z * z / 2) / np.sqrt(2 * np.pi)  # noqa: E731
STEP = lambda z: np.heaviside(z, 0.0)  # noqa: E731
# the activation and its derivative, in NumPy
PLAIN = {
    "relu": (lambda z: np.maximum(z, 0), STEP),
    "step": (STEP, np.zeros_like),
    "squared relu": (lambda z: np.maximum(z, 0) ** 2, lambda z: 2 * np.maximum(z, 0)),
    "leaky relu": (lambda z: np.where(z > 0, z, 0.01 * z), lambda z: np.where(z > 0, 1, 0.01)),
    "linear": (lambda z: z, np.ones_like),
    "erf": (special.erf, lambda z: 2 / np.sqrt(np.pi) * np.exp(-z * z)),
    "gelu": (lambda z: z * special.ndtr(z), lambda z: special.ndtr(z) + z * NORMAL(z)),
    "sine": (np.sin, np.cos),
    "cosine": (np.cos, lambda z: -np.sin(z)),
    "gaussian": (lambda z: np.exp(-z * z), lambda z: -2 * z * np.exp(-z * z)),
    "softplus": (lambda z: np.logaddexp(0, z), special.expit),
    "logistic": (special.expit, lambda z: special.expit(z) * special.expit(-z)),
}
COVARIANCES = [(1.0, 0.3, 1.0), (1.3, -0.7, 0.6), (0.2, 0.19, 0.4), (2.0, 1.9, 1.9), (1.0, 0.0, 0.5), (0.7, -0.69, 0.7)]


def polar(f, g, a, c, b, nodes=80):
    """E[f(u) g(v)] in polar coordinates, by Gauss and Legendre between the angles where u or v changes sign."""
    theta = np.arccos(np.clip(c / np.sqrt(a * b), -1, 1))
    cuts = np.sort(np.mod([np.pi / 2, -np.pi / 2, theta + np.pi / 2, theta - np.pi / 2], 2 * np.pi))
    cuts = np.append(cuts, cuts[0] + 2 * np.pi)
    x, w = np.polynomial.legendre.leggauss(nodes)
    middle, half = (cuts[1:] + cuts[:-1]) / 2, (cuts[1:] - cuts[:-1]) / 2
    angle, weight = (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()
    r, rw = 6 * (x + 1), 6 * w
    u, v = np.sqrt(a) * np.outer(r, np.cos(angle)), np.sqrt(b) * np.outer(r, np.cos(angle - theta))
    return (rw * r * np.exp(-r * r / 2)) @ (f(u) * g(v)) @ weight / (2 * np.pi)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("q", COVARIANCES)
def test_against_polar_quadrature(name, q):
    f, slope = PLAIN[name]
    np.testing.assert_allclose(dual_kernel(name, *q), polar(f, f, *q), rtol=1e-10, atol=1e-12)
    if name != "step":
        np.testing.assert_allclose(dual_derivative(name, *q), polar(slope, slope, *q), rtol=1e-10, atol=1e-12)


def test_polar_quadrature_against_scipy():
    a, c, b = COVARIANCES[1]
    q = np.linalg.inv([[a, c], [c, b]])
    density = np.sqrt(np.linalg.det(q)) / (2 * np.pi)

    def integrand(v, u):
        return u * v * np.exp(-(q[0, 0] * u * u + 2 * q[0, 1] * u * v + q[1, 1] * v * v) / 2) * density

    value, _ = integrate.dblquad(integrand, 0, 12, 0, 12, epsabs=1e-12, epsrel=1e-11)
    assert polar(*(PLAIN["relu"][0],) * 2, a, c, b) == pytest.approx(value, abs=1e-11)
    assert float(dual_kernel("relu", a, c, b)) == pytest.approx(value, abs=1e-10)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
def test_monomials_against_gauss_hermite(degree):
    z, w = np.polynomial.hermite_e.hermegauss(12)  # exact for the degrees here
    w = w / w.sum()
    a, c, b = COVARIANCES[1]
    u = np.sqrt(a) * z[:, None] + 0 * z
    v = c / np.sqrt(a) * z[:, None] + np.sqrt(b - c * c / a) * z
    phi = Monomial(degree)
    np.testing.assert_allclose(dual_kernel(phi, a, c, b), w @ (u * v) ** degree @ w, rtol=1e-12)
    np.testing.assert_allclose(dual_derivative(phi, a, c, b), w @ (degree**2 * (u * v) ** (degree - 1)) @ w, rtol=1e-12)
    z = np.linspace(-2, 2, 5)
    np.testing.assert_allclose(phi(jnp.asarray(z)), z**degree)


def test_tanh_against_gauss_hermite_and_absolute_value_against_its_parts():
    a, c, b = 0.3, 0.2, 0.4
    z, w = np.polynomial.hermite_e.hermegauss(100)
    w = w / w.sum()
    v = c / np.sqrt(a) * z[:, None] + np.sqrt(b - c * c / a) * z
    exact = w @ (np.tanh(np.sqrt(a) * z[:, None]) * np.tanh(v)) @ w
    np.testing.assert_allclose(dual_kernel("tanh", a, c, b), exact, rtol=1e-12)
    np.testing.assert_allclose(dual_kernel(jnp.tanh, a, c, b), exact, rtol=1e-12)
    np.testing.assert_allclose(dual_kernel(LeakyReLU(-1.0), a, c, b), polar(np.abs, np.abs, a, c, b), rtol=1e-11)
    np.testing.assert_allclose(dual_derivative(LeakyReLU(-1.0), a, c, b), polar(np.sign, np.sign, a, c, b), rtol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_the_derivative_kernel_is_the_derivative_in_the_covariance(name):
    # Price's theorem; the step has a derivative of zero by convention, and a kink's own kernel is differenced at a
    # correlation where it is smooth
    if name == "step":
        return
    a, c, b = 0.8, 0.3, 1.1
    slope = jax.jit(jax.grad(lambda c: dual_kernel(name, a, c, b)))(c)
    np.testing.assert_allclose(slope, dual_derivative(name, a, c, b), rtol=1e-10)
    q, h = np.array([a, c, b]), 1e-5
    for f in (dual_kernel, dual_derivative):
        slopes = jax.jit(jax.grad(lambda *q, f=f: f(name, *q), (0, 1, 2)))(*q)
        for got, step in zip(slopes, h * np.eye(3), strict=True):
            np.testing.assert_allclose(
                got, (f(name, *(q + step)) - f(name, *(q - step))) / (2 * h), rtol=1e-6, atol=1e-9
            )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("q", [(1.7, 1.7, 1.7), (0.9, -0.9, 0.9), (0.3, np.sqrt(0.3 * 2.1), 2.1)])
def test_parallel_points_give_finite_values_and_gradients(name, dtype, q):
    q = tuple(dtype(v) for v in q)
    for f in (dual_kernel, dual_derivative):
        value, gradient = jax.jit(jax.value_and_grad(lambda *q, f=f: f(name, *q), (0, 1, 2)))(*q)
        assert value.dtype == dtype
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
    if name in PLAIN and q[1] > 0:  # one-dimensional: u and v are multiples of each other
        f = PLAIN[name][0]
        half = [
            integrate.quad(lambda z: f(np.sqrt(q[0]) * z) * f(np.sqrt(q[2]) * z) * NORMAL(z), *ends, epsabs=1e-13)[0]
            for ends in ((-12, 0), (0, 12))
        ]
        np.testing.assert_allclose(dual_kernel(name, *q), sum(half), rtol=2e-6 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_zero_variance(name):
    for f in (dual_kernel, dual_derivative):
        value, gradient = jax.value_and_grad(lambda c: f(name, 0.0, c, 1.3))(0.0)  # noqa: B023
        assert np.isfinite(value)
        assert np.isfinite(gradient)
    phi = NAMES[name]
    if name != "step":
        mean = sum(
            integrate.quad(lambda z: float(phi(jnp.asarray(np.sqrt(1.3) * z))) * NORMAL(z), *e)[0]
            for e in ((-9, 0), (0, 9))
        )
        np.testing.assert_allclose(dual_kernel(name, 0.0, 0.0, 1.3), float(phi(jnp.zeros(()))) * mean, atol=1e-7)


@pytest.mark.parametrize("name", ["relu", "erf", "gelu", "squared relu", "sine", "leaky relu"])
def test_single_precision(name):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 300, 2)).astype(np.float32)
    y[:100] = x[:100] + 1e-2 * y[:100]  # nearly parallel
    # a covariance within its variances also in the rounded numbers
    single = [np.sum(x * x, 1), np.sum(x * y, 1) * np.float32(1 - 1e-6), np.sum(y * y, 1)]
    double = [v.astype(np.float64) for v in single]
    # the covariances are the same numbers in both: what differs is the rounding of the formulas. A derivative kernel
    # with a kink feels the rounding of a product as its square root.
    for f, tolerance in ((dual_kernel, 4e-6), (dual_derivative, 5e-4)):
        np.testing.assert_allclose(f(name, *single), f(name, *double), rtol=tolerance, atol=tolerance)


def test_arctan():
    for dtype in (np.float32, np.float64):
        t = np.linspace(-1, 1, 100_001).astype(dtype)
        np.testing.assert_allclose(arctan(jnp.asarray(t)), np.arctan(t), rtol=3 * np.finfo(dtype).eps, atol=1e-300)


@pytest.mark.parametrize("name", NAMES)
def test_the_modules_are_the_activations(name):
    z = np.linspace(-3, 3, 20)
    if name in PLAIN:
        np.testing.assert_allclose(NAMES[name](jnp.asarray(z)), PLAIN[name][0](z), rtol=1e-12, atol=1e-15)
    assert NAMES[name](jnp.asarray(z, jnp.float32)).dtype == jnp.float32


def test_names_and_functions():
    assert activation(jax.nn.relu) is NAMES["relu"]
    assert activation(jnp.sin) is NAMES["sine"]
    assert activation(jax.scipy.special.erf) is NAMES["erf"]
    assert isinstance(activation(jax.nn.silu), Quadrature)
    assert isinstance(activation(gelu := GELU()), GELU)
    assert activation(gelu) is gelu


def test_normalising_constant():
    assert float(normalising_constant("relu")) == pytest.approx(2)
    assert float(normalising_constant("erf")) == pytest.approx(1 / (2 / np.pi * np.arcsin(2 / 3)))
    tanh = integrate.quad(lambda z: np.tanh(z) ** 2 * NORMAL(z), -12, 12, epsabs=1e-13)[0]
    assert float(normalising_constant("tanh")) == pytest.approx(1 / tanh, rel=1e-10)


def test_jit_vmap_and_broadcast():
    q11, q22 = jnp.array([0.5, 1.0, 2.0])[:, None], jnp.array([0.7, 1.1])
    q12 = jnp.full((3, 2), 0.3)
    for name in NAMES:
        got = jax.jit(lambda *q, name=name: dual_kernel(name, *q))(q11, q12, q22)
        assert got.shape == (3, 2)
        np.testing.assert_allclose(got[2, 1], dual_kernel(name, 2.0, 0.3, 1.1), rtol=1e-10)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: dual_kernel("rely", 1.0, 0.0, 1.0), ValueError, "activation must be one of 'relu', "),
        (lambda: dual_kernel(3, 1.0, 0.0, 1.0), TypeError, "activation must be a name or a function, got int."),
        (lambda: dual_kernel("relu", -1.0, 0.0, 1.0), ValueError, "q11 must be zero or more, got -1.0."),
        (lambda: dual_kernel("relu", 1.0, 0.0, -1.0), ValueError, "q22 must be zero or more, got -1.0."),
        (
            lambda: dual_kernel("relu", 1.0, 1.5, 1.0),
            ValueError,
            "q12 must be a covariance for the variances",
        ),
        (lambda: dual_kernel("relu", 1.0, np.nan, 1.0), ValueError, "q12 must be finite, got nan."),
        (lambda: normalising_constant("relu", -1.0), ValueError, "variance must be zero or more, got -1.0."),
        (lambda: RectifiedPower(3), ValueError, "order must be from 0 to 2, got 3."),
        (lambda: Monomial(0), ValueError, "degree must be from 1 to 30, got 0."),
        (lambda: LeakyReLU(np.inf), ValueError, "slope must be finite, got inf."),
        (lambda: Quadrature(3), TypeError, "function must be a function of an array, got int."),
        (lambda: Quadrature(jnp.tanh, 1), ValueError, "nodes must be from 2 to 1000, got 1."),
    ],
)
def test_sentences(call, error, sentence):
    with pytest.raises(error, match=sentence.replace("(", r"\(")):
        call()
