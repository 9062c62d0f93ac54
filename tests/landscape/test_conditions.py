"""Definitions of minima, saddles and easy landscapes, against closed forms, polynomial roots and brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.landscape import (
    critical_points,
    direction_of_improvement,
    inertia,
    nearby,
    optimizability_curve,
    quasi_convex_rate,
    quasi_convexity,
    restricted_secant,
    secant_rate,
    second_order_stationary,
    spurious,
)


@pytest.mark.parametrize(
    ("f", "size", "verdict"),
    [
        (lambda w: w[0] ** 4, 1, (True, False, False)),
        (lambda w: -(w[0] ** 4), 1, (False, True, False)),
        (lambda w: w[0] ** 3, 1, (False, False, True)),
        (lambda w: w[0] ** 2 - w[1] ** 2, 2, (False, False, True)),
        (lambda w: w[0] ** 3 - 3 * w[0] * w[1] ** 2, 2, (False, False, True)),
        (lambda w: 5.0 + w @ w, 3, (True, False, False)),
        (lambda w: 0.0 * w.sum() + 3.0, 2, (True, True, False)),
        # a cone of descent that is half a degree wide: only the axes of the Hessian find it
        (lambda w: 1e4 * w[0] ** 2 + 1e4 * w[1] ** 2 - w[2] ** 2, 3, (False, False, True)),
    ],
)
def test_nearby_on_examples(f, size, verdict):
    found = jax.jit(lambda w: nearby(f, w, key=jax.random.key(0)))(jnp.zeros(size))
    assert (bool(found.minimum), bool(found.maximum), bool(found.saddle)) == verdict
    assert found.radius.shape == found.lowest.shape == (3,)
    assert (np.diff(found.lowest) <= 0).all()
    assert (np.diff(found.highest) >= 0).all()


def test_nearby_in_single_precision():
    with jax.enable_x64(False):
        found = nearby(lambda w: w[0] ** 4 + w[1] ** 2, jnp.zeros(2), key=jax.random.key(1))
        assert found.lowest.dtype == jnp.float32
        assert found.minimum
        assert not found.maximum


def test_inertia_counts_signs():
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    found = inertia(q @ np.diag([-3.0, -1e-3, 0.0, 0.0, 2.0, 5.0]) @ q.T)
    assert tuple(map(int, found)) == (2, 2, 2)
    assert tuple(map(int, inertia(np.diag([-1e-3, 1.0]), tolerance=1e-2))) == (0, 1, 1)


def test_second_order_stationary():
    f = lambda w: w[0] ** 2 - 0.3 * w[1] ** 2  # noqa: E731
    found = second_order_stationary(f, jnp.array([0.05, 0.0]), 0.11, 0.61)
    assert found.holds
    assert found.gradient_norm == pytest.approx(0.1)
    assert found.least_curvature == pytest.approx(-0.6)
    np.testing.assert_allclose(np.abs(found.direction), [0, 1], atol=1e-12)
    assert not second_order_stationary(f, jnp.array([0.05, 0.0]), 0.09, 0.61).holds
    assert not second_order_stationary(f, jnp.array([0.05, 0.0]), 0.11, 0.59).holds
    assert second_order_stationary(lambda w: w**3, 0.0).holds  # necessary, not sufficient
    assert not second_order_stationary(f, jnp.zeros(2)).holds


def test_direction_of_improvement():
    f = lambda w: w[0] ** 2 - w[1] ** 2 + 3 * w[0]  # noqa: E731
    found = direction_of_improvement(f, jnp.zeros(2), jnp.array([0.0, 2.0]))
    assert (found.slope, found.curvature) == (pytest.approx(0.0), pytest.approx(-2.0))
    assert found.improves
    assert not direction_of_improvement(f, jnp.zeros(2), jnp.array([0.0, 2.0]), 0.0, 2.0).improves
    assert direction_of_improvement(f, jnp.zeros(2), jnp.array([-5.0, 0.0]), 2.9, 0.0).improves
    assert not direction_of_improvement(f, jnp.zeros(2), jnp.zeros(2)).improves


def test_critical_points_of_a_quartic_are_the_roots():
    starts = jnp.linspace(-3.0, 3.0, 41)
    found = critical_points(lambda w: w**4 - 4 * w**2 + w, starts)
    assert found.converged.all()
    np.testing.assert_allclose(np.sort(found.points[found.first]), np.sort(np.roots([4, 0, -8, 1])), atol=1e-9)
    value = jax.vmap(lambda w: w**4 - 4 * w**2 + w)(found.points)
    curvature = 12 * found.points**2 - 8
    false = spurious(value, found.first & (curvature > 0))
    assert int(false.sum()) == 1
    assert found.points[false][0] == pytest.approx(np.roots([4, 0, -8, 1]).max(), abs=1e-9)


def test_critical_points_where_there_are_none():
    found = critical_points(lambda w: jnp.exp(w[0]) + w[1] ** 2, jnp.ones((3, 2)), steps=3)
    assert not found.converged.any()
    assert not found.first.any()


def test_curve_against_brute_force():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(400, 2))
    f = lambda w: (w[0] ** 2 - 1) ** 2 + w[1] ** 2  # noqa: E731
    epsilons = np.array([0.1, 1.0, 3.0])
    value = (points[:, 0] ** 2 - 1) ** 2 + points[:, 1] ** 2
    slope = np.hypot(4 * points[:, 0] * (points[:, 0] ** 2 - 1), 2 * points[:, 1])
    least = np.minimum(12 * points[:, 0] ** 2 - 4, 2.0)
    for gammas in (epsilons, np.array([0.0, 5.0, 0.5])):
        expected = [max([0, *value[(slope <= e) & (least >= -g)]]) for e, g in zip(epsilons, gammas, strict=True)]
        got = optimizability_curve(f, 0.0, points, epsilons, None if gammas is epsilons else gammas)
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_constants_of_homogeneous_and_quadratic_functions():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(300, 3))
    assert quasi_convexity(lambda w: (w @ w) ** 2, jnp.zeros(3), points) == pytest.approx(4.0, rel=1e-12)
    spectrum = jnp.array([0.5, 1.0, 2.0])
    centre = jnp.array([1.0, -1.0, 0.5])
    axis = np.concatenate([points, centre + np.eye(3)])
    f = lambda w: 0.5 * jnp.sum(spectrum * (w - centre) ** 2) + 7.0  # noqa: E731
    assert restricted_secant(f, centre, axis) == pytest.approx(0.5, rel=1e-12)
    assert quasi_convexity(f, centre, axis) == pytest.approx(2.0, rel=1e-9)
    # the minimiser itself has no ratio
    assert np.isinf(quasi_convexity(f, centre, centre[None]))
    assert np.isinf(restricted_secant(f, centre, centre[None]))


def test_rates():
    assert secant_rate(2.0, 1.0, 3.0, 2) == pytest.approx(0.75**2 * 9)
    assert quasi_convex_rate(2.0, 0.5, 3.0, 4) == pytest.approx(2 * 2 * 9 / (0.25 * 4))


F, P = (lambda w: jnp.sum(w**2)), np.ones((2, 2))


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: nearby(3, P[0], key=jax.random.key(0)), TypeError, "f must be a function of a point, got int"),
        (lambda: nearby(F, P[0], key=jax.random.key(0), radii=[0.1, -1.0]), ValueError, "radii must be positive"),
        (lambda: nearby(F, P[0], key=jax.random.key(0), samples=0), ValueError, "samples must be at least 1"),
        (lambda: nearby(F, [1.0, np.nan], key=jax.random.key(0)), ValueError, "w must be finite"),
        (lambda: inertia(np.ones((2, 3))), ValueError, "matrix must have shape"),
        (lambda: inertia(P, tolerance=-1.0), ValueError, "tolerance must be zero or more"),
        (lambda: second_order_stationary(F, P[0], -1.0), ValueError, "epsilon must be zero or more"),
        (lambda: second_order_stationary(F, P[0], 1.0, -1.0), ValueError, "gamma must be zero or more"),
        (lambda: direction_of_improvement(F, P[0], np.ones(3)), ValueError, "delta must have the shape"),
        (lambda: direction_of_improvement(F, P[0], P[0], epsilon=-1.0), ValueError, "epsilon must be zero or more"),
        (lambda: critical_points(F, np.float64(1.0)), ValueError, "starts must hold at least one point"),
        (lambda: critical_points(F, P, steps=0), ValueError, "steps must be at least 1"),
        (lambda: spurious([1.0, 2.0], [True]), ValueError, "minima must be 2 truth values"),
        (lambda: spurious([1.0], [1.0]), ValueError, "minima must be 1 truth values"),
        (lambda: optimizability_curve(F, 0.0, P, [0.0]), ValueError, "epsilons must be positive"),
        (lambda: optimizability_curve(F, 0.0, P, [1.0], [1.0, 2.0]), ValueError, "gammas must have shape"),
        (lambda: quasi_convexity(F, np.ones(3), P), ValueError, "minimiser must have the shape"),
        (lambda: restricted_secant(F, P[0], np.zeros((0, 2))), ValueError, "points must hold at least one point"),
        (lambda: secant_rate(0.0, 1.0, 1.0, 1), ValueError, "L must be positive"),
        (lambda: quasi_convex_rate(1.0, 1.0, 1.0, 0), ValueError, "k must be at least 1"),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
