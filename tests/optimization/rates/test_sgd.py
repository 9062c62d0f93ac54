import jax
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from corollary.optimization import rates

sgd = rates.sgd


def test_strongly_convex_is_the_fixed_recursion():
    L, mu, kappa1, kappa2, eta = 3.0, 0.5, 2.0, 1.5, 0.1
    bound, gap = [4.0], 4.0
    for _ in range(20):  # a_{k+1} <= (1 - eta mu) a_k + L kappa1 eta^2 / 2
        gap = (1 - eta * mu) * gap + L * kappa1 * eta**2 / 2
        bound.append(gap)
    found = sgd.strongly_convex(L, mu, 4.0, np.arange(21), kappa1=kappa1, kappa2=kappa2, step=eta)
    np.testing.assert_allclose(found, bound, rtol=1e-12)


def test_decreasing_steps_dominate_their_recursion():
    L, mu, kappa1, c0, c1 = 2.0, 0.5, 1.0, 5.0, 12.0
    gap, gaps = 1.0, [1.0]
    for k in range(1, 300):
        eta = c0 / (c1 + k)
        gap = (1 - eta * mu) * gap + L * kappa1 * eta**2 / 2
        gaps.append(gap)
    bound = sgd.strongly_convex_decreasing(L, mu, 1.0, np.arange(1, 301), kappa1=kappa1, c0=c0, c1=c1)
    assert (np.array(gaps) <= np.asarray(bound) * (1 + 1e-12)).all()
    np.testing.assert_allclose(bound[0], max(25 * 2 / (2 * 1.5), 13.0) / 13, rtol=1e-12)


def test_nonconvex_step_is_the_best_one():
    best = minimize_scalar(
        lambda e: float(sgd.nonconvex(2.0, 1.5, 0.7, 50, step=e)), bounds=(1e-3, 2), method="bounded"
    )
    np.testing.assert_allclose(sgd.nonconvex_step(2.0, 1.5, 0.7, 50), best.x, rtol=1e-4)
    np.testing.assert_allclose(sgd.nonconvex(2.0, 1.5, 0.7, 50), 1.5 * np.sqrt(2 * 2 * 0.7 / 50), rtol=1e-12)


def test_iterations_invert_the_bounds():
    count = sgd.iterations(2.0, 1.5, 0.7, 0.1)
    np.testing.assert_allclose(sgd.nonconvex(2.0, 1.5, 0.7, count), 0.1, rtol=1e-12)
    for batch in (1, 1000):
        count, step = sgd.batch_iterations(2.0, 4.0, 0.7, 0.1, batch)
        assert sgd.nonconvex_variance(2.0, 0.7, count, kappa1=4.0 / batch, step=step) <= 0.01 * (1 + 1e-12)


def test_works_under_jit():
    traced = jax.jit(lambda L: sgd.strongly_convex(L, 0.5, 1.0, np.arange(3), kappa1=1.0))(2.0)
    np.testing.assert_allclose(traced, sgd.strongly_convex(2.0, 0.5, 1.0, np.arange(3), kappa1=1.0))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: sgd.strongly_convex(1.0, 0.5, 1.0, 3, kappa1=1.0, kappa2=2.0, step=0.6), "step times L times kappa2"),
        (lambda: sgd.strongly_convex(1.0, 0.0, 1.0, 3, kappa1=1.0), "mu must be positive"),
        (lambda: sgd.strongly_convex(1.0, 0.5, 1.0, 3, kappa1=1.0, kappa2=0.5), "kappa2 must be at least 1"),
        (
            lambda: sgd.strongly_convex_decreasing(1, 0.5, 1, 1, kappa1=1, c0=1, c1=5),
            "mu times c0 must be greater than 1",
        ),
        (lambda: sgd.strongly_convex_decreasing(1, 0.5, 1, 1, kappa1=1, c0=4, c1=1), "step times L times kappa2"),
        (lambda: sgd.nonconvex(1.0, 0.0, 1.0, 3), "sigma must be positive"),
        (lambda: sgd.nonconvex(1.0, 1.0, 1.0, 0), "k must be at least 1"),
        (lambda: sgd.nonconvex_variance(1.0, 1.0, 3, kappa1=1.0, step=1.5), "step times L times kappa2"),
        (lambda: sgd.weighted_sum(1.0, 1.0, np.array([0.5, 1.5]), kappa1=1.0), "step times L times kappa2"),
        (lambda: sgd.expected_change(1.0, 1.0, -1.0, step=0.1), "second_moment must be zero or more"),
        (lambda: sgd.iterations(1.0, 1.0, 1.0, 0.0), "accuracy must be positive"),
        (lambda: sgd.batch_iterations(1.0, 1.0, 1.0, 0.1, 0), "batch_size must be at least 1"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
