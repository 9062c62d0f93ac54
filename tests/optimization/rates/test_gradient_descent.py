r"""Gradient descent with a constant step $\eta$ on an $L$-smooth function."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.optimization import minimize, rates, washboard


@pytest.mark.parametrize(("n", "L", "step"), [(0, 3.0, None), (1, 2.0, None), (5, 0.5, 0.6), (7, 4.0, 0.25)])
def test_gradient_is_a_sawtooth_and_the_gap_is_as_asked(n, L, step):
    p = washboard(n, L=L, gap=1.7, step=step)
    eta = 1 / L if step is None else step
    g = np.sqrt(float(rates.gradient_descent.stationary_tight(L, 1.7, n, step=step)))
    np.testing.assert_allclose(p(p.start) - p.minimum, 1.7, rtol=1e-12)
    np.testing.assert_allclose(p.start, g / L + n * eta * g, rtol=1e-12)
    theta = np.linspace(-2 * g / L, float(p.start), 997)
    to_a_peak = np.abs((theta - g / L) / (eta * g) - np.round((theta - g / L) / (eta * g))) * eta * g
    wanted = np.where(theta <= g / L, L * theta, g - L * to_a_peak)
    slopes = jax.jit(jax.vmap(p.gradient))(jnp.asarray(theta))
    np.testing.assert_allclose(slopes, wanted, atol=1e-9)
    # L-smooth: no difference quotient of the gradient exceeds L; the value is its integral
    assert np.abs(np.diff(slopes) / np.diff(theta)).max() <= L * (1 + 1e-9)
    values = np.asarray(jax.jit(jax.vmap(p))(jnp.asarray(theta)))
    fine = np.linspace(theta[0], theta[-1], 400001)
    integral = np.trapezoid(np.asarray(jax.jit(jax.vmap(p.gradient))(jnp.asarray(fine))), fine)
    np.testing.assert_allclose(values[-1] - values[0], integral, rtol=1e-6, atol=1e-8)
    assert values.min() >= 0


@pytest.mark.parametrize("n", [1, 6])
def test_every_gradient_is_the_same_and_rounding_doubles(n):
    path = minimize(washboard(n), optax.sgd(1.0), steps=n)
    tight = float(rates.gradient_descent.stationary_tight(1.0, 1.0, n))
    np.testing.assert_allclose(path.gradient_norm**2, tight, rtol=1e-15 * 4**n + 1e-12)


def test_rate():
    r = rates.gradient_descent
    np.testing.assert_allclose(r.stationary_tight(2.0, 3.0, np.arange(4)), 24 / (3 * np.arange(4) + 2), rtol=1e-12)
    np.testing.assert_allclose(r.stationary_tight(2.0, 3.0, 0), r.squared_gradient(2.0, 3.0), rtol=1e-12)
    # never above what the texts promise, for any step
    for step in (0.1, 0.3, 0.5):
        assert (
            r.stationary_tight(2.0, 3.0, np.arange(9), step=step) <= r.stationary(2.0, 3.0, np.arange(9), step=step)
        ).all()
    assert "gradient_descent.stationary_tight" in rates.listing()


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def test_rates_by_hand():
    r = rates.gradient_descent
    assert np.isclose(r.convex(2.0, 3.0, 6), 2 * 9 / 12)
    assert np.isclose(r.convex_tight(2.0, 3.0, 6), 2 * 9 / 26)
    assert np.isclose(r.convex_tight(2.0, 3.0, 6, step=0.25), 2 * 9 / 14)
    assert np.isclose(r.strongly_convex_squared_distance(2.0, 0.5, 1.0, 2), 0.75**2)
    assert np.isclose(r.strongly_convex_tight(2.0, 0.5, 3.0, 2), 3 * 0.75**4)
    assert np.isclose(r.strongly_convex_tight(2.0, 0.5, 3.0, 1, step=0.9), 3 * 0.8**2)
    assert np.isclose(r.cocoercive_squared_distance(3.0, 1.0, 1.0, 1), 0.25)
    assert np.isclose(r.polyak_lojasiewicz(2.0, 0.5, 4.0, 1), 3.0)
    assert np.isclose(r.polyak_lojasiewicz(2.0, 0.5, 4.0, 1, step=0.25), 4 * (1 - 3 * 0.5 / 8))
    assert np.isclose(r.stationary(2.0, 1.0, 3), 1.0)
    assert np.isclose(r.decrease(2.0, 1.0), -0.25)


sgd = rates.sgd


def test_weighted_sum_and_expected_change():
    etas = np.array([0.1, 0.2])
    np.testing.assert_allclose(sgd.weighted_sum(2.0, 1.0, etas, kappa1=3.0), [2 + 6 * 0.01, 2 + 6 * 0.05])
    np.testing.assert_allclose(sgd.expected_change(2.0, 3.0, 10.0, step=0.1), 0.1 * (1.0 - 9.0))
    # without noise it is the decrease of gradient descent
    np.testing.assert_allclose(
        sgd.expected_change(2.0, 3.0, 9.0, step=0.1), rates.gradient_descent.decrease(2.0, 3.0, step=0.1)
    )


def test_sums_by_hand():
    assert rates.gradient_descent.stationary_sum(2.0, 3.0) == pytest.approx(12.0)
    # eta = 1.5/L: 1 / (eta (1 - 3/4)) = 4 L / 1.5
    assert rates.gradient_descent.stationary_sum(2.0, 3.0, step=0.75) == pytest.approx(3 * 4 * 2 / 1.5)
    assert rates.gradient_descent.steps_to_stationary(2.0, 3.1, 0.5) == 50
    assert rates.gradient_descent.squared_gradient(2.0, 3.0) == 12
    assert rates.gradient_descent.one_step_excess(2.0, 1.0, step=0.5) == 3
    assert rates.gradient_descent.expansion_remainder(2.0, 3.0, 0.1) == pytest.approx(0.09)


def test_the_sum_holds_with_equality_on_a_quadratic():
    # theta -> (1 - eta L) theta: the sum of squares is a geometric series
    L, eta, k = 2.0, 0.6, 7
    theta = (1 - eta * L) ** np.arange(k + 1)
    slopes, values = (L * theta[:-1]) ** 2, 0.5 * L * theta**2
    assert rates.gradient_descent.stationary_sum(L, values[0] - values[-1], step=eta) == pytest.approx(slopes.sum())
