"""Convexity, optimality and directions, against closed forms, SciPy and brute force; the nonconvex problems."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from corollary.optimization import (
    chord_gap,
    classify_critical_point,
    convexity_violation,
    cosine_wells,
    curvature_range,
    double_well,
    gradient_product,
    leaves_set,
    log_squares,
    max_descent_step,
    sigmoid_classification,
    steepest_step,
    tangent_gap,
)


def _quadratic(x):
    return x[0] ** 2 + 2 * x[1] ** 2 + x[0] * x[1]


HESSIAN = np.array([[2.0, 1.0], [1.0, 4.0]])
X, Y = np.array([0.3, -1.2]), np.array([2.0, 0.7])


def test_gaps_of_a_quadratic():
    d = X - Y
    energy = d @ HESSIAN @ d
    assert chord_gap(_quadratic, X, Y, 0.3) == pytest.approx(0.5 * 0.3 * 0.7 * energy, rel=1e-13)
    assert tangent_gap(_quadratic, X, Y) == pytest.approx(0.5 * energy, rel=1e-13)
    assert gradient_product(_quadratic, X, Y) == pytest.approx(energy, rel=1e-13)
    low, high = curvature_range(_quadratic, np.stack([X, Y]))
    np.testing.assert_allclose([low, high], np.linalg.eigvalsh(HESSIAN), rtol=1e-13)


def test_curvature_of_functions_of_a_number():
    low, high = curvature_range(lambda t: t**4, jnp.array([-1.0, 0.5]))
    assert (low, high) == (pytest.approx(3.0), pytest.approx(12.0))


def test_annulus_is_not_convex_and_disc_is():
    a, b = np.array([1.5, 0.0]), np.array([-1.5, 0.0])
    assert leaves_set(lambda p: (p @ p >= 1) & (p @ p <= 4), a, b)
    assert not leaves_set(lambda p: p @ p <= 4, a, b)
    assert not leaves_set(lambda p: p @ p <= 1, a, b)


@pytest.mark.parametrize(
    ("f", "x", "verdict"),
    [
        (lambda x: x**3, 0.0, "inconclusive"),
        (lambda x: x**4, 0.0, "inconclusive"),
        (lambda x: jnp.cos(x), 0.0, "maximum"),
        (lambda x: (x - 1) ** 2, 1.0, "minimum"),
        (lambda p: p[0] ** 2 - p[1] ** 2, np.zeros(2), "saddle"),
        (lambda p: p[0] ** 2 - p[1] ** 2 + p[2] ** 4, np.zeros(3), "saddle"),
        (lambda p: p[0] ** 3 - 3 * p[0] * p[1] ** 2, np.zeros(2), "inconclusive"),
        (lambda p: p @ p, np.ones(2), None),
    ],
)
def test_verdicts(f, x, verdict):
    found = classify_critical_point(f, x)
    for name in ("minimum", "maximum", "saddle", "inconclusive"):
        assert bool(getattr(found, name)) == (name == verdict), name
    assert bool(found.stationary) == (verdict is not None)


def test_second_order_condition_is_only_necessary():
    assert classify_critical_point(lambda x: x**3, 0.0).second_order
    assert not classify_critical_point(lambda x: -(x**4) - x**2, 0.0).second_order


def test_descent_step_is_where_the_parabola_returns():
    g, s, L = np.array([1.0, -2.0]), np.array([0.5, 1.0]), 3.0
    a = float(max_descent_step(g, s, L))
    assert a * (g @ s) + L / 2 * a**2 * (s @ s) == pytest.approx(0, abs=1e-14)
    assert max_descent_step(g, -s, L) == 0
    assert max_descent_step(g, 0 * s, L) == 0


@pytest.mark.parametrize(("norm", "order", "dual"), [("l1", 1, np.inf), ("l2", 2, 2), ("linf", np.inf, 1)])
def test_steepest_step_attains_the_dual_norm(norm, order, dual):
    g = np.random.default_rng(0).normal(size=6)
    step = np.asarray(steepest_step(g, 0.7, norm))
    assert np.linalg.norm(step, order) == pytest.approx(0.7)
    assert g @ step == pytest.approx(-0.7 * np.linalg.norm(g, dual), rel=1e-13)


def test_steepest_step_against_a_general_solver():
    g = np.random.default_rng(1).normal(size=4)
    ball = {"type": "ineq", "fun": lambda d: 0.25 - d @ d, "jac": lambda d: -2 * d}
    found = scipy_minimize(lambda d: g @ d, np.zeros(4), jac=lambda d: g, constraints=[ball], options={"ftol": 1e-14})
    np.testing.assert_allclose(steepest_step(g, 0.5), found.x, atol=1e-6)
    assert not np.any(steepest_step(np.zeros(4)))


def test_known_constants_of_the_nonconvex_problems():
    rng = np.random.default_rng(2)
    grid = jnp.linspace(-20, 20, 20001)
    for problem in (log_squares(np.array([1.0])), cosine_wells(np.array([1.0]))):
        low, high = curvature_range(lambda t, p=problem: p(t[None]), grid)
        assert max(abs(low), high) == pytest.approx(float(problem.L), rel=1e-6)
        assert low < 0
        assert problem(problem.minimiser) == problem.minimum == 0
    x, y = rng.normal(size=(30, 3)), rng.integers(0, 2, 30)
    problem = sigmoid_classification(x, y)
    low, high = curvature_range(problem, 2 * rng.normal(size=(500, 3)))
    assert max(-low, high) <= problem.L
    theta = rng.normal(size=3)
    by_hand = np.mean(1 / (1 + np.exp((2 * y - 1) * (x @ theta))))
    assert problem(theta) == pytest.approx(by_hand, rel=1e-13)


def test_double_well():
    problem = double_well(0.3)
    minima = np.roots([4, 0, -4, 0.3])
    values = np.sort([float(problem(t)) for t in minima])
    assert len(set(np.round(minima.real, 6))) == 3
    assert problem(minima.min()) == values[0]
    low, high = curvature_range(problem, jnp.linspace(-2, 2, 101))
    assert (low, high) == (pytest.approx(-4), pytest.approx(44))


def test_sentences():
    with pytest.raises(TypeError, match="f must be a function of a point, got int"):
        chord_gap(3, X, Y)
    with pytest.raises(TypeError, match="member must be a function of a point, got str"):
        leaves_set("disc", X, Y)
    with pytest.raises(ValueError, match="x and y must have the same shape"):
        tangent_gap(_quadratic, X, Y[:1])
    with pytest.raises(ValueError, match=r"weight must be in \[0, 1\]"):
        chord_gap(_quadratic, X, Y, 1.5)
    with pytest.raises(ValueError, match="at least one point"):
        curvature_range(_quadratic, np.zeros((0, 2)))
    with pytest.raises(ValueError, match="tolerance must be positive"):
        classify_critical_point(_quadratic, X, 0.0)
    with pytest.raises(ValueError, match="L must be positive"):
        max_descent_step(X, Y, 0.0)
    with pytest.raises(ValueError, match="norm must be one of"):
        steepest_step(X, 1.0, "l3")
    with pytest.raises(ValueError, match="radius must be positive"):
        steepest_step(X, -1.0)
    with pytest.raises(ValueError, match=r"y must be in \[0, 1\]"):
        sigmoid_classification(np.ones((2, 1)), np.array([0.0, 2.0]))


def test_violation_is_that_of_its_chord_and_the_worst_of_a_concave_parabola():
    def f(t):
        return -jnp.sum(t**2)

    found = convexity_violation(f, X, Y, steps=30, step=0.05)
    x, y, a = np.asarray(found.x), np.asarray(found.y), float(found.weight)
    np.testing.assert_allclose(found.value, f(a * x + (1 - a) * y) - a * f(x) - (1 - a) * f(y), rtol=1e-12)
    # uphill means apart: a (1 - a) |x - y|^2, from where it began
    assert float(found.value) > 0.25 * np.sum((X - Y) ** 2)
    np.testing.assert_allclose(found.value, a * (1 - a) * np.sum((x - y) ** 2), rtol=1e-10)


def test_violation_against_brute_force():
    """The worst chord of the sine among all with ends in a box and any weight."""
    ends = np.linspace(-np.pi, 2 * np.pi, 181)
    x, y, a = np.meshgrid(ends, ends, np.linspace(0, 1, 41), indexing="ij")
    brute = np.max(np.sin(a * x + (1 - a) * y) - a * np.sin(x) - (1 - a) * np.sin(y))
    found = convexity_violation(jnp.sin, np.array(-1.0), np.array(4.0), steps=400, step=0.02)
    np.testing.assert_allclose(found.value, brute, atol=1e-3)


def test_violation_of_a_convex_function_is_rounding_and_of_one_point_nothing():
    assert float(convexity_violation(_quadratic, X, Y).value) <= 1e-14
    assert float(convexity_violation(jnp.sum, X, X).value) == pytest.approx(0, abs=1e-15)
    with pytest.raises(ValueError, match="the same shape"):
        convexity_violation(_quadratic, X, Y[:1])
    with pytest.raises(ValueError, match="steps must be at least 1"):
        convexity_violation(_quadratic, X, Y, steps=0)
    with pytest.raises(ValueError, match="step must be positive"):
        convexity_violation(_quadratic, X, Y, step=0.0)
