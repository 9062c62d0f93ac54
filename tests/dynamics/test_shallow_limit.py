"""The infinitely wide shallow network against Monte Carlo and quadrature by SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from corollary.dynamics import (
    distinct_directions,
    draw_shallow,
    gaussian_output_variance,
    limit_kernel,
    limit_parts,
    limit_premises,
    linearised_output_variance,
    start_covariance,
    tangent_parts,
)

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(4, 3)), RNG.normal(size=(2, 3))


@pytest.mark.parametrize("bias", [False, True])
def test_parts_against_many_units(bias):
    net = draw_shallow(400_000, 3, key=jax.random.key(0), bias=bias)
    for limit, found, name in zip(
        limit_parts(X, NEW, bias=bias), tangent_parts(net, X, NEW), ("outer", "inner"), strict=True
    ):
        # six standard errors: the terms are at most 1, and c²σ'σ' x·x' at most 3·4/π·10
        np.testing.assert_allclose(limit, found, atol=6 * (1 if name == "outer" else 12) / np.sqrt(400_000))


def test_kernel_and_covariance_share_the_first_part():
    first, second = limit_parts(X, outer_variance=2.5)
    np.testing.assert_allclose(limit_kernel(X, outer_variance=2.5), first + second, rtol=1e-14)
    np.testing.assert_allclose(start_covariance(X, outer_variance=2.5), 2.5 * first, rtol=1e-14)
    np.testing.assert_allclose(second, 2.5 * limit_parts(X)[1], rtol=1e-14)
    ones = np.c_[np.ones(4), X]
    np.testing.assert_allclose(limit_kernel(X, bias=True), limit_kernel(ones), rtol=1e-14)


def test_closed_form_of_the_error_function():
    q, norms = X @ X.T, 1 + 2 * np.sum(X**2, 1)
    both = np.outer(norms, norms)
    np.testing.assert_allclose(start_covariance(X), 2 / np.pi * np.arcsin(2 * q / np.sqrt(both)), rtol=1e-12)
    np.testing.assert_allclose(limit_parts(X)[1], q * 4 / np.pi / np.sqrt(both - 4 * q**2), rtol=1e-12)


def test_distinct_directions():
    assert distinct_directions(X)
    for extra in (X[0], -X[0], 2 * X[1], np.zeros(3)):
        assert not distinct_directions(np.r_[X, extra[None]])
    near = np.r_[X, (X[0] + 1e-6)[None]]
    assert distinct_directions(near)
    assert not distinct_directions(near, 1e-4)
    assert jax.jit(distinct_directions)(X)


@pytest.mark.parametrize(
    ("activation", "bounded", "smooth"),
    [
        ("erf", True, True),
        ("tanh", True, True),
        ("sine", True, True),
        ("gaussian", True, True),
        ("relu", False, False),
        ("step", True, False),
        ("gelu", False, True),
        ("linear", False, True),
        ("softplus", False, True),
        (jax.nn.hard_tanh, True, False),
        (jax.nn.elu, False, False),
        (lambda z: jnp.where(z > 0, z**2, 0) / (1 + z**2), True, False),  # the second derivative jumps
    ],
)
def test_premises(activation, bounded, smooth):
    found = limit_premises(activation)
    assert (found.bounded, found.smooth, found.bounded_outer) == (bounded, smooth, True)
    assert found.hold == (bounded and smooth)
    assert not limit_premises(activation, "normal").hold


def test_premises_measure_the_bounds():
    largest = limit_premises("erf").largest
    slope = 2 / np.sqrt(np.pi)
    np.testing.assert_allclose(largest, (1, slope, slope * np.sqrt(2 / np.e)), rtol=1e-4)


def test_variance_of_a_sigmoid_layer():
    c, w, b = RNG.normal(size=(3, 5))

    def y(x):
        return c @ expit(w * x + b)

    mean = quad(lambda x: y(x) * norm.pdf(x), -12, 12)[0]
    square = quad(lambda x: (y(x) - mean) ** 2 * norm.pdf(x), -12, 12, epsabs=1e-13)[0]
    np.testing.assert_allclose(gaussian_output_variance(c, w, b), square, rtol=1e-9)
    small = 1e-3
    np.testing.assert_allclose(
        linearised_output_variance(c, small * w, b), gaussian_output_variance(c, small * w, b), rtol=1e-4
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: limit_kernel(X, NEW[:, :2]), r"x2 must have shape \(m, d\) with d = 3, got \(2, 2\)"),
        (lambda: limit_kernel(X, outer_variance=0.0), "outer_variance must be positive, got 0.0"),
        (lambda: start_covariance(X, outer_variance=-1.0), "outer_variance must be positive, got -1.0"),
        (lambda: limit_kernel(X, activation=3), "activation must be a name or a function, got int"),
        (lambda: distinct_directions(X[0]), r"x must have shape \(n, d\), got \(3,\)"),
        (lambda: distinct_directions(X, 0.0), "tolerance must be positive, got 0.0"),
        (lambda: limit_premises("erf", "cauchy"), "outer must be one of"),
        (lambda: limit_premises("erf", reach=0.0), "reach must be positive, got 0.0"),
        (lambda: gaussian_output_variance([1.0], [1.0, 2.0], [0.0]), "slopes must have shape"),
        (lambda: gaussian_output_variance([1.0], [1.0], [0.0], nodes=1), "nodes must be at least 2, got 1"),
        (lambda: linearised_output_variance([1.0], [1.0], [0.0, 1.0]), "offsets must have shape"),
    ],
)
def test_bad_arguments(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
