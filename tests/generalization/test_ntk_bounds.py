"""Bounds from the tangent kernel against plain formulas, SciPy and sampling."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import factorial2

from corollary.generalization.ntk_bounds import (
    ball_complexity,
    flow_movement,
    kernel_change_bound,
    kernel_deviation,
    label_energy,
    ntk_complexity,
    ntk_generalisation_bound,
    polynomial_teacher_norm,
    relu_ntk_coefficients,
    relu_ntk_series,
    sufficient_width,
    teacher_bound,
    weight_movement_bound,
)
from corollary.kernels import first_layer_ntk

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 3))
X /= np.linalg.norm(X, axis=1, keepdims=True)
Y = RNG.normal(size=6)
H = np.asarray(X @ X.T * (np.pi - np.arccos(np.clip(X @ X.T, -1, 1))) / (2 * np.pi))
np.fill_diagonal(H, 0.5)


def test_energy_and_complexity_against_the_inverse():
    energy = Y @ np.linalg.inv(H) @ Y
    np.testing.assert_allclose(label_energy(H, Y), energy, rtol=1e-10)
    np.testing.assert_allclose(label_energy(H, np.stack([Y, 2 * Y], 1)), [energy, 4 * energy], rtol=1e-10)
    np.testing.assert_allclose(ntk_complexity(H, Y), np.sqrt(energy / 6), rtol=1e-10)
    np.testing.assert_allclose(ntk_complexity(7 * H, Y), np.sqrt(energy / 6), rtol=1e-10)
    assert label_energy(H.astype(np.float32), Y).dtype == jnp.float32


def test_labels_that_nothing_interpolates():
    g = X @ X.T  # of rank 3
    inside = g @ Y
    np.testing.assert_allclose(label_energy(g, inside), Y @ inside, rtol=1e-9)
    assert np.isinf(label_energy(g, Y))
    assert np.isinf(ntk_complexity(g, Y))


def test_ball_complexity_is_above_the_supremum_over_the_ball():
    signs = np.array(np.meshgrid(*[[-1, 1]] * 6)).reshape(6, -1)
    exact = 2.0 / 6 * np.sqrt(np.einsum("is,ij,js->s", signs, H, signs)).mean()
    bound = float(ball_complexity(H, 2.0))
    assert 0.9 * bound < exact <= bound
    np.testing.assert_allclose(bound, 2 / 6 * np.sqrt(3))


def test_generalisation_bound_by_hand():
    y = Y * 3 / np.sqrt(Y @ np.linalg.inv(H) @ Y)  # of norm 3: the ball of radius 4
    hand = 2 * 4 * np.sqrt(3) / 6 + 3 * np.sqrt(np.log(2 * 3 * 4 / 0.1) / 12)
    np.testing.assert_allclose(ntk_generalisation_bound(H, y, 0.1), hand, rtol=1e-10)
    small = 2 * np.sqrt(3) / 6 + 3 * np.sqrt(np.log(4 / 0.1) / 12)
    np.testing.assert_allclose(ntk_generalisation_bound(H, 0.01 * Y, 0.1), small, rtol=1e-10)


def test_movement_against_an_integrator():
    phi, start = RNG.normal(size=(4, 7)), RNG.normal(size=4)
    y, times = RNG.normal(size=4), [0.05, 0.3, 1.0]
    flow = solve_ivp(
        lambda _, w: phi.T @ (y - start - phi @ w), (0, 1), np.zeros(7), t_eval=times, rtol=1e-10, atol=1e-12
    )
    found = flow_movement(phi @ phi.T, y, times, start=start)
    np.testing.assert_allclose(found, (flow.y**2).sum(0), rtol=1e-7)
    end = flow_movement(phi @ phi.T, y, [1e6])
    np.testing.assert_allclose(end, [label_energy(phi @ phi.T, y)], rtol=1e-9)


def test_series_and_coefficients():
    c = relu_ntk_coefficients(6)
    double = lambda k: 1.0 if k <= 0 else float(factorial2(k))  # noqa: E731
    for ell in range(1, 7):
        assert c[2 * ell] == pytest.approx(
            double(2 * ell - 3) / (2 * np.pi * double(2 * ell - 2) * (2 * ell - 1)), rel=1e-14
        )
        # the same as B writes it, from l = 0
        k = ell - 1
        written = math.factorial(2 * k) / (4**k * math.factorial(k) ** 2 * (2 * k + 1)) / (2 * np.pi)
        assert c[2 * ell] == pytest.approx(written, rel=1e-14)
    assert c[1] == 0.25
    assert not c[:1].any()
    assert not c[3::2].any()
    z = np.linspace(-0.8, 0.8, 7)
    np.testing.assert_allclose(relu_ntk_series(z, 60), z * (np.pi - np.arccos(z)) / (2 * np.pi), atol=1e-13)
    np.testing.assert_allclose(relu_ntk_series(z, 6), np.polynomial.polynomial.polyval(z, c), atol=1e-14)


def test_deviation_and_width():
    np.testing.assert_allclose(kernel_deviation(10, 100, 0.05), np.sqrt(2 / 100 * np.log(200 / 0.05)))
    np.testing.assert_allclose(kernel_deviation(10, 100, 0.05, spread=1.0), np.sqrt(np.log(4000) / 200))
    m = sufficient_width(10, 0.5, 0.05)
    assert m == math.ceil(1600 * math.log(200) / 0.25)
    assert 10 * kernel_deviation(10, m, 0.05) <= 0.5


def test_movement_and_change_bounds():
    residuals = np.array([[1.0, -2.0], [0.5, 0.5], [0.0, 1.0]])
    np.testing.assert_allclose(weight_movement_bound(residuals, 0.1, 4), np.array([0, 3, 4]) * 0.1 / 2)
    np.testing.assert_allclose(kernel_change_bound([[1.0, 2.0, 0.0]]), [2.0])
    np.testing.assert_allclose(kernel_change_bound([1.0, 2.0, 0.0], 2), 3.0)


def test_teachers():
    c = relu_ntk_coefficients(3)
    np.testing.assert_allclose(
        polynomial_teacher_norm([0, 0.5, 0, 0, 2.0], 1.5), np.sqrt(0.75**2 / 0.25 + 4 * 1.5**8 / c[4])
    )
    assert np.isinf(polynomial_teacher_norm([0, 0, 0, 1.0], 1.0))
    assert np.isinf(polynomial_teacher_norm([1.0], 1.0))
    alpha, beta = [1.0, -2.0], [[3.0, 4.0], [0.0, 1.0]]
    np.testing.assert_allclose(teacher_bound("linear", alpha, beta, 4), 2 * (5 + 2) / 2)
    np.testing.assert_allclose(teacher_bound("power", alpha, beta, 4, power=4), 12 * (625 + 2) / 2)
    np.testing.assert_allclose(teacher_bound("cosine", alpha, beta, 4), 3 * (5 * np.sinh(5) + 2 * np.sinh(1)) / 2)
    h = np.asarray(first_layer_ntk(X))
    y = X @ [0.3, -1.0, 2.0]
    assert ntk_complexity(h, y) <= teacher_bound("linear", [1.0], [[0.3, -1.0, 2.0]], 6)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: label_energy(H, Y[:3]), "y must have shape"),
        (lambda: label_energy(H, Y[:, None, None]), r"y must have shape \(n,\) or \(n, k\)"),
        (lambda: ntk_complexity(H[:3], Y), "h must have shape"),
        (lambda: label_energy(H, np.full(6, np.nan)), "y must be finite"),
        (lambda: ball_complexity(H, -1.0), "radius must be zero or more"),
        (lambda: ntk_generalisation_bound(H, Y, 0.0), "delta must be in"),
        (lambda: flow_movement(H, Y, [-1.0]), "times must be zero or more"),
        (lambda: flow_movement(H, Y, [1.0], start=Y[:2]), "start must have shape"),
        (lambda: kernel_deviation(0, 10, 0.1), "n must be at least 1"),
        (lambda: kernel_deviation(2, 10, 1.5), "delta must be in"),
        (lambda: kernel_deviation(2, 10, 0.5, spread=0.0), "spread must be positive"),
        (lambda: sufficient_width(1, 0.1, 0.1), "n must be at least 2"),
        (lambda: sufficient_width(2, -0.1, 0.1), "epsilon must be positive"),
        (lambda: sufficient_width(2, 0.1, 2.0), "delta must be in"),
        (lambda: weight_movement_bound(Y, 0.1, 4), "residuals must have shape"),
        (lambda: weight_movement_bound(Y[None], 0.0, 4), "step must be positive"),
        (lambda: weight_movement_bound(Y[None], 0.1, 0), "width must be positive"),
        (lambda: kernel_change_bound([-1.0]), "movement must be zero or more"),
        (lambda: kernel_change_bound([1.0], 0), "width must be positive"),
        (lambda: relu_ntk_coefficients(0), "terms must be at least 1"),
        (lambda: relu_ntk_series(1.5, 3), "z must be in"),
        (lambda: polynomial_teacher_norm([[1.0]], 1.0), "coefficients must have shape"),
        (lambda: polynomial_teacher_norm([1.0], -1.0), "size must be zero or more"),
        (lambda: teacher_bound("odd", [1.0], [[1.0]], 3), "kind must be one of"),
        (lambda: teacher_bound("power", [1.0], [[1.0]], 3, power=3), "power must be even"),
        (lambda: teacher_bound("linear", [1.0, 2.0], [[1.0]], 3), "beta must have shape"),
        (lambda: teacher_bound("linear", [1.0], [[1.0]], 0), "n must be at least 1"),
    ],
)
def test_bad_input_is_refused(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
