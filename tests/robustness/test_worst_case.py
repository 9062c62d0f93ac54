"""Worst cases against corners, linear programs over all patterns, and grids."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

from corollary.robustness import Ball, flip_distance, linear_adversarial_risk, relu_worst_margin, worst_margin

RNG = np.random.default_rng(0)
W = RNG.normal(size=4)
X = RNG.uniform(size=(6, 4))
Y = np.where(X @ W > 0.1, 1.0, -1.0)


def test_worst_margin_of_a_linear_model_is_at_a_corner():
    corners = np.array(list(itertools.product([-1, 1], repeat=4)))
    found = worst_margin(W, X, Y, Ball(np.inf, 0.3), 0.1)
    every = Y[:, None] * ((X[:, None] + 0.3 * corners) @ W + 0.1)
    np.testing.assert_allclose(found, every.min(1), rtol=1e-12)
    boxed = worst_margin(W, X, Y, Ball(np.inf, 0.3, 0.0, 1.0), 0.1)
    every = Y[:, None] * (np.clip(X[:, None] + 0.3 * corners, 0, 1) @ W + 0.1)
    np.testing.assert_allclose(boxed, every.min(1), rtol=1e-12)
    axes = np.concatenate([np.eye(4), -np.eye(4)])
    sparse = worst_margin(W, X, Y, Ball(1, 0.3))
    np.testing.assert_allclose(sparse, (Y[:, None] * ((X[:, None] + 0.3 * axes) @ W)).min(1), rtol=1e-12)


def test_linear_adversarial_risk():
    ball = Ball(np.inf, 0.2)
    margins = Y * (X @ W) - 0.2 * np.abs(W).sum()
    np.testing.assert_allclose(linear_adversarial_risk(W, X, Y, ball), np.log1p(np.exp(-margins)).mean(), rtol=1e-12)
    hinge = linear_adversarial_risk(W, X, Y, ball, loss="hinge")
    np.testing.assert_allclose(hinge, np.maximum(0, 1 - margins).mean(), rtol=1e-12)


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_flip_distance_is_where_the_worst_margin_is_zero(p):
    distance = np.asarray(flip_distance(W, X, p, 0.1))
    side = np.sign(X @ W + 0.1)
    for x, s, d in zip(X, side, distance, strict=True):
        np.testing.assert_allclose(worst_margin(W, x[None], [s], Ball(p, d), 0.1), 0, atol=1e-12)
    assert np.isinf(flip_distance(np.zeros(4), X, p, 1.0)).all()


def least_by_patterns(weight, bias, a, centre, radius):
    """The least value over the cube: one linear program for each pattern, in the region where that is the pattern."""
    bounds = [(c - radius, c + radius) for c in centre]
    least = np.inf
    for pattern in itertools.product([0, 1], repeat=a.size):
        on = np.array(pattern)
        side = np.where(on, -1, 1)
        found = linprog((a * on) @ weight, A_ub=side[:, None] * weight, b_ub=-side * bias, bounds=bounds)
        if found.status == 0:
            least = min(least, found.fun + (a * on) @ bias)
    return least


@pytest.mark.parametrize("units", [1, 5])
def test_two_layer_networks_against_a_linear_program_for_each_pattern(units):
    rng = np.random.default_rng(units)
    weight, bias = rng.normal(size=(units, 3)), rng.normal(size=units)
    outer, x = rng.normal(size=(3, units)), rng.normal(size=(2, 3))
    y = np.array([0, 2])
    found = relu_worst_margin(weight, bias, outer, x, y, Ball(np.inf, 0.7))
    for i in range(2):
        others = [j for j in range(3) if j != y[i]]
        expected = min(least_by_patterns(weight, bias, outer[y[i]] - outer[j], x[i], 0.7) for j in others)
        np.testing.assert_allclose(found.upper[i], expected, atol=1e-8)
        np.testing.assert_allclose(found.lower[i], expected, atol=1e-8)
        values = outer @ np.maximum(weight @ np.asarray(found.witness[i]) + bias, 0)
        np.testing.assert_allclose(values[y[i]] - values[others].max(), expected, atol=1e-8)


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_two_layer_networks_against_a_grid(p):
    rng = np.random.default_rng(7)
    weight, bias, outer = rng.normal(size=(6, 2)), rng.normal(size=6), rng.normal(size=(1, 6))
    x, y = np.array([[0.2, 0.3], [0.7, 0.6]]), np.array([1, 0])
    found = relu_worst_margin(weight, bias, outer, x, y, Ball(p, 0.5, 0.0, 1.0))
    side = np.linspace(-0.5, 0.5, 401)
    grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    grid = grid[np.linalg.norm(grid, p, axis=1) <= 0.5]
    for i in range(2):
        inputs = x[i] + grid
        inputs = inputs[((inputs >= 0) & (inputs <= 1)).all(1)]
        values = (2 * y[i] - 1) * (np.maximum(inputs @ weight.T + bias, 0) @ outer[0])
        # between two points of the grid the value changes by less than the slope times their distance
        assert found.lower[i] <= values.min() + 1e-9
        assert found.upper[i] >= values.min() - 0.0025 * np.abs(outer[0]) @ np.abs(weight).sum(1)
        np.testing.assert_allclose(found.lower[i], found.upper[i], atol=1e-8)
        assert np.linalg.norm(found.witness[i] - x[i], p) <= 0.5 * (1 + 1e-9)


def test_a_ball_of_radius_zero():
    weight, bias, outer = np.eye(2), np.zeros(2), np.array([[1.0, -2.0]])
    found = relu_worst_margin(weight, bias, outer, np.array([[1.0, 3.0]]), [1], Ball(2, 0.0))
    np.testing.assert_allclose([found.lower[0], found.upper[0]], -5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: worst_margin(W, X, 2 * Y, Ball(2, 0.1)), "y must be in"),
        (lambda: worst_margin(W[:3], X, Y, Ball(2, 0.1)), "x must have shape"),
        (lambda: linear_adversarial_risk(W, X, Y, Ball(2, 0.1), loss="squared"), "loss must be one of"),
        (lambda: flip_distance(W, X, 3), "p must be one of"),
        (
            lambda: relu_worst_margin(np.ones((13, 4)), np.ones(13), np.ones((1, 13)), X, Y > 0, Ball(2, 0.1)),
            "at most 12",
        ),
        (
            lambda: relu_worst_margin(np.ones((3, 4)), np.ones(3), np.ones((2, 3)), X, [5] * 6, Ball(2, 0.1)),
            "from 0 to 1",
        ),
        (lambda: worst_margin(W, X, Y, Ball(2, 0.1, 2.0, 3.0)), "lie in the box"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_maps_and_differentiates():
    risk = lambda r: linear_adversarial_risk(W, X, Y, Ball(2, r))  # noqa: E731
    risks = jax.jit(jax.vmap(risk))(jnp.array([0.0, 0.1, 0.2]))
    assert (jnp.diff(risks) > 0).all()
    slope = jax.jit(jax.grad(lambda r: worst_margin(W, X, Y, Ball(2, r)).sum()))(0.1)
    np.testing.assert_allclose(slope, -6 * np.linalg.norm(W), rtol=1e-9)


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_differentiates_where_the_box_is_met(p):
    total = jax.jit(lambda w: worst_margin(w, X, Y, Ball(p, 0.9, 0.0, 1.0)).sum())
    quotients = [(total(W + 1e-6 * e) - total(W - 1e-6 * e)) / 2e-6 for e in np.eye(4)]
    np.testing.assert_allclose(jax.grad(total)(W), quotients, atol=1e-7)
