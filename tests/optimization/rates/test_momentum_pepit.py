"""Our rates against PEPit, which solves for the worst case over a whole class of functions.

Where a rate is the best possible, it is PEPit's value and an instance of ours attains it; otherwise it is an upper
bound. PEPit knows neither our methods nor our rates: the recursions are written out again here.
"""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

PEPit = pytest.importorskip("PEPit")
from PEPit.functions import (  # noqa: E402
    SmoothConvexFunction,
    SmoothFunction,
    SmoothStronglyConvexFunction,
    SmoothStronglyConvexQuadraticFunction,
)

from corollary.optimization import (  # noqa: E402
    convex_momentum,
    heavy_ball,
    huber,
    minimize,
    nesterov,
    polyak_parameters,
    quadratic,
    rates,
    strongly_convex_momentum,
    washboard,
)

L, MU = 2.0, 0.3
# what the interior point solver leaves of the digits of the optimal value
SOLVER = 1e-5


def worst_case(kind, constants, run, start, measure):
    """The largest `measure` after `run`, over functions of the class whose start satisfies `start <= 1`."""
    problem = PEPit.PEP()
    f = problem.declare_function(kind, **constants)
    best = f.stationary_point()
    x0 = problem.set_initial_point()
    problem.set_initial_condition(start(f, x0, best) <= 1)
    measured = measure(f, run(f, x0), best)
    for value in measured if isinstance(measured, list) else [measured]:
        problem.set_performance_metric(value)  # several: the least of them
    return problem.solve(wrapper="cvxpy", solver="CLARABEL", verbose=0)


def distance(f, x, best):
    return (x - best) ** 2


def gap(f, x, best):
    return f(x) - f(best)


def two_terms(n, step, momentum, ahead):
    """Heavy ball, or Nesterov's method (`ahead`): all points, the start included."""

    def run(f, x0):
        points = [x0, x0]
        for k in range(n):
            moved = points[-1] + momentum(k) * (points[-1] - points[-2])
            points.append(moved - step * f.gradient(moved if ahead else points[-1]))
        return points[1:]

    return run


def last(measure):
    return lambda f, points, best: measure(f, points[-1], best)


def descent(n, step):
    return two_terms(n, step, lambda k: 0.0, ahead=False)


def promises(rate, tight):
    assert tight <= float(rate) * (1 + SOLVER)


@pytest.mark.parametrize(("n", "share"), [(1, 1.0), (2, 1.0), (5, 1.0), (3, 0.3)])
def test_gradient_descent_convex(n, share):
    tight = worst_case(SmoothConvexFunction, {"L": L}, descent(n, share / L), distance, last(gap))
    rate = float(rates.gradient_descent.convex_tight(L, 1.0, n, step=share / L))
    np.testing.assert_allclose(rate, L / (4 * share * n + 2), rtol=1e-12)
    np.testing.assert_allclose(tight, rate, rtol=SOLVER)
    attained = minimize(huber(1 / (2 * share * n + 1), L=L), optax.sgd(share / L), steps=n).value[-1]
    np.testing.assert_allclose(attained, tight, rtol=SOLVER)
    promises(rates.gradient_descent.convex(L, 1.0, n, step=share / L), tight)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("step", [0.5 / L, 2 / (L + MU)])
def test_gradient_descent_strongly_convex(n, step):
    constants = {"L": L, "mu": MU}
    tight = worst_case(SmoothStronglyConvexFunction, constants, descent(n, step), distance, last(distance))
    promises(rates.gradient_descent.cocoercive_squared_distance(L, MU, 1.0, n, step=step), tight)
    paths = [minimize(quadratic(jnp.array([h])), optax.sgd(step), steps=n).theta[-1, 0] ** 2 for h in (MU, L)]
    np.testing.assert_allclose(max(paths), tight, rtol=SOLVER)
    np.testing.assert_allclose(
        rates.gradient_descent.strongly_convex_tight(L, MU, 1.0, n, step=step), tight, rtol=SOLVER
    )
    if step == 2 / (L + MU):
        rate = float(rates.gradient_descent.cocoercive_squared_distance(L, MU, 1.0, n))
        np.testing.assert_allclose(rate, tight, rtol=SOLVER)
    else:
        promises(rates.gradient_descent.strongly_convex_squared_distance(L, MU, 1.0, n, step=step), tight)


@pytest.mark.parametrize(("n", "step"), [(1, 1 / L), (3, 0.3 / L), (3, 1.4 / L)])
def test_gradient_descent_strongly_convex_values(n, step):
    """The excess value contracts by the same factor as the squared distance."""
    tight = worst_case(SmoothStronglyConvexFunction, {"L": L, "mu": MU}, descent(n, step), gap, last(gap))
    rate = rates.gradient_descent.strongly_convex_tight(L, MU, 1.0, n, step=step)
    np.testing.assert_allclose(rate, tight, rtol=SOLVER)


@pytest.mark.parametrize(("n", "step"), [(1, 1 / L), (4, 1 / L), (3, 0.4 / L)])
def test_gradient_descent_stationary(n, step):
    """Smooth functions that need not be convex: the least squared gradient among the first n + 1 points."""
    problem = PEPit.PEP()
    f = problem.declare_function(SmoothFunction, L=L)
    best, x0 = f.stationary_point(), problem.set_initial_point()
    problem.set_initial_condition(f(x0) - f(best) <= 1)
    for x in descent(n, step)(f, x0):
        problem.set_performance_metric(f.gradient(x) ** 2)
        # a step down the gradient must not go below the minimum either
        problem.add_constraint(f(x) - f.gradient(x) ** 2 / (2 * L) >= f(best))
    tight = problem.solve(wrapper="cvxpy", solver="CLARABEL", verbose=0)
    rate = float(rates.gradient_descent.stationary_tight(L, 1.0, n, step=step))
    np.testing.assert_allclose(tight, rate, rtol=SOLVER)
    attained = minimize(washboard(n, L=L, step=step), optax.sgd(step), steps=n).gradient_norm.min() ** 2
    np.testing.assert_allclose(attained, rate, rtol=1e-9)
    promises(rates.gradient_descent.stationary(L, 1.0, n, step=step), tight)


@pytest.mark.parametrize("n", [1, 4])
def test_heavy_ball_strongly_convex(n):
    step = 0.5 / L
    momentum = np.sqrt((1 - step * MU) * (1 - step * L))
    run = two_terms(n, step, lambda k: momentum, ahead=False)
    tight = worst_case(SmoothStronglyConvexFunction, {"L": L, "mu": MU}, run, gap, last(gap))
    promises(rates.momentum.heavy_ball_strongly_convex(L, MU, 1.0, n, step=step), tight)


@pytest.mark.parametrize("n", [2, 5])
def test_heavy_ball_convex(n):
    """The mean of the excess values of the first n points."""
    momentum = 0.5
    step = (1 - momentum) / L

    def mean(f, points, best):
        return sum((f(x) - f(best) for x in points[1:]), f(points[0]) - f(best)) / n

    run = two_terms(n - 1, step, lambda k: momentum, ahead=False)
    tight = worst_case(SmoothConvexFunction, {"L": L}, run, distance, mean)
    promises(rates.momentum.heavy_ball_average(L, 1.0, n, step=step, momentum=momentum), tight)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", ["heavy ball", "nesterov"])
def test_quadratics(name, n):
    if name == "heavy ball":
        step, momentum = map(float, polyak_parameters(L, MU))
        method, rate, extreme = heavy_ball, rates.momentum.heavy_ball_quadratic_distance, L
    else:
        step, momentum = 1 / L, float(strongly_convex_momentum(L, MU))
        method, rate, extreme = nesterov, rates.momentum.nesterov_quadratic_distance, MU
    run = two_terms(n, step, lambda k: momentum, ahead=name == "nesterov")
    constants = {"L": L, "mu": MU}
    tight = worst_case(SmoothStronglyConvexQuadraticFunction, constants, run, distance, last(distance))
    np.testing.assert_allclose(tight, rate(L, MU, 1.0, n) ** 2, rtol=SOLVER)
    attained = minimize(quadratic(jnp.array([extreme])), method(step, momentum), steps=n).theta[-1, 0]
    np.testing.assert_allclose(attained**2, tight, rtol=SOLVER)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_nesterov_convex(n):
    run = two_terms(n, 1 / L, lambda k: max(k - 1, 0) / (k + 2), ahead=True)
    tight = worst_case(SmoothConvexFunction, {"L": L}, run, distance, last(gap))
    np.testing.assert_allclose(rates.momentum.nesterov_convex_tight(L, 1.0, n), tight, rtol=SOLVER)
    # a unit force drives the method this far in n unit steps: the start of a Huber function far out
    far = minimize(huber(1.0, start=1e6), nesterov(1.0, convex_momentum), steps=n).theta
    attained = minimize(huber(1 / (2 * (far[0] - far[-1]) + 1), L=L), nesterov(1 / L, convex_momentum), steps=n).value[
        -1
    ]
    np.testing.assert_allclose(attained, tight, rtol=SOLVER)
    promises(rates.momentum.nesterov_convex(L, 1.0, n), tight)


@pytest.mark.parametrize("n", [2, 5])
def test_nesterov_convex_classic(n):
    t = [1.0]
    for _ in range(n):
        t.append((1 + np.sqrt(1 + 4 * t[-1] ** 2)) / 2)
    run = two_terms(n, 1 / L, lambda k: 0.0 if k == 0 else (t[k - 1] - 1) / t[k], ahead=True)
    tight = worst_case(SmoothConvexFunction, {"L": L}, run, distance, last(gap))
    promises(rates.momentum.nesterov_convex(L, 1.0, n), tight)
    far = minimize(huber(1.0, start=1e6), nesterov(1.0), steps=n).theta
    attained = minimize(huber(1 / (2 * (far[0] - far[-1]) + 1), L=L), nesterov(1 / L), steps=n).value[-1]
    np.testing.assert_allclose(attained, tight, rtol=SOLVER)


@pytest.mark.parametrize("n", [1, 5])
def test_nesterov_strongly_convex(n):
    root = np.sqrt(MU / L)
    run = two_terms(n, 1 / L, lambda k: (1 - root) / (1 + root), ahead=True)

    def start(f, x, best):
        return gap(f, x, best) + MU / 2 * distance(f, x, best)

    tight = worst_case(SmoothStronglyConvexFunction, {"L": L, "mu": MU}, run, start, last(gap))
    promises(rates.momentum.nesterov_strongly_convex(L, MU, 1.0, 0.0, n), tight)
