"""Transport against SciPy's linear programmes, brute force over all pairings, and closed forms."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from corollary.foundations import Transport, kantorovich, wasserstein

RNG = np.random.default_rng(15)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def programme(p, q, cost):
    n, m = cost.shape
    rows = np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))
    return optimize.linprog(cost.ravel(), A_eq=np.vstack(rows), b_eq=np.concatenate([p, q])).fun


@pytest.fixture(scope="module")
def laws():
    p, q = RNG.dirichlet(np.ones(7), 20), RNG.dirichlet(np.full(5, 0.3), 20)
    p[0], q[0] = np.eye(7)[2], np.eye(5)[1]  # points, and a law with a zero
    p[1, 3] = 0
    p[1] /= p[1].sum()
    return p, q, RNG.uniform(-1, 2, (20, 7, 5))


def test_plans_are_optimal_and_their_potentials_show_it(laws):
    p, q, cost = laws
    found = jax.jit(jax.vmap(kantorovich))(p, q, cost)
    np.testing.assert_allclose(found.value, [programme(*one) for one in zip(*laws, strict=True)], atol=1e-9)
    np.testing.assert_allclose(found.plan.sum(2), p, atol=1e-15)
    np.testing.assert_allclose(found.plan.sum(1), q, atol=1e-15)
    assert (np.asarray(found.plan) >= 0).all()
    u, v = found.potentials
    assert (np.asarray(u)[:, :, None] + np.asarray(v)[:, None] <= cost + 1e-14).all()
    np.testing.assert_allclose(jax.jit(jax.vmap(Transport.gap))(found, cost), 0, atol=1e-14)


def test_ties_do_not_go_in_circles():
    p = np.full(6, 1 / 6)
    cost = np.abs(np.arange(6)[:, None] - np.arange(6)) % 3.0  # whole numbers, most of them equal
    assert float(jax.jit(kantorovich)(p, p[::-1], cost).value) == pytest.approx(0, abs=1e-15)


def test_derivatives_are_the_plan_and_the_potentials(laws):
    p, q, cost = (a[5] for a in laws)
    value = lambda p, cost: kantorovich(p, q, cost).value  # noqa: E731
    by_p, by_cost = jax.jit(jax.grad(value, (0, 1)))(p, cost)
    found = kantorovich(p, q, cost)
    np.testing.assert_allclose(by_cost, found.plan, atol=1e-15)
    moved = p + 1e-6 * np.array([1, -1, 0, 0, 0, 0, 0])
    np.testing.assert_allclose((kantorovich(moved, q, cost).value - found.value) / 1e-6, by_p[0] - by_p[1], atol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3.5])
def test_the_line_by_sorting(order):
    x, y = RNG.normal(size=6), RNG.normal(size=4)
    cost = np.abs(x[:, None] - y) ** order
    exact = programme(np.full(6, 1 / 6), np.full(4, 1 / 4), cost) ** (1 / order)
    assert float(wasserstein(x, y, order=order)) == pytest.approx(exact, rel=1e-8)
    assert float(wasserstein(x[:, None], y[:, None], order=order)) == pytest.approx(exact, rel=1e-8)
    if order == 1:
        assert float(wasserstein(x, y)) == pytest.approx(stats.wasserstein_distance(x, y), rel=1e-12)


def test_more_dimensions_by_the_best_of_all_pairings():
    x, y = RNG.normal(size=(2, 5, 3))
    every = np.array([*itertools.permutations(range(5))])
    lengths = np.linalg.norm(x - y[every], axis=-1)
    for order in (1, 2):
        best = (lengths**order).mean(1).min() ** (1 / order)
        assert float(wasserstein(x, y, order=order)) == pytest.approx(best, rel=1e-12)
    assert float(wasserstein(x, y, order=np.inf)) == pytest.approx(lengths.max(1).min(), rel=1e-12)
    slope = jax.grad(lambda x: wasserstein(x, y, order=2))(jnp.asarray(x))
    bump = np.zeros((5, 3))
    bump[1, 2] = 1e-6
    quotient = (wasserstein(x + bump, y, order=2) - wasserstein(x - bump, y, order=2)) / 2e-6
    assert float(slope[1, 2]) == pytest.approx(float(quotient), rel=1e-6)


def test_largest_displacement_on_the_line():
    x, y = np.array([0.0, 1.0, 5.0]), np.array([0.5, 1.0, 2.0])
    assert float(wasserstein(x, y, order=np.inf)) == 3.0
    assert np.isfinite(jax.grad(lambda x: wasserstein(x, jnp.asarray(y), order=2))(jnp.asarray(x))).all()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: kantorovich([0.5, 0.6], [1.0], [[1.0], [1.0]]), "p must sum to 1"),
        (lambda: kantorovich([1.0], [0.5, 0.5], [[1.0]]), "q must have shape"),
        (lambda: wasserstein([[1.0, 2.0]], [[1.0, 2.0], [0.0, 0.0]]), "equally many samples"),
        (lambda: wasserstein([1.0], [[1.0]]), "on one space"),
        (lambda: wasserstein([1.0], [1.0], order=0.5), "order must be at least 1"),
        (lambda: wasserstein(np.zeros(0), [1.0]), "must not be empty"),
    ],
)
def test_sentences(call, match):
    with pytest.raises(ValueError, match=match):
        call()
