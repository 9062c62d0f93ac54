"""The Polyak-Łojasiewicz ratio and the rates of smooth functions, against numbers worked out by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from corollary.optimization import pl_constant, pl_ratio, rates, valley

gd = rates.gradient_descent


def test_ratio_by_hand():
    assert pl_ratio(lambda t: t**4, 0.0, 0.5) == pytest.approx(8 * 0.25)
    assert pl_ratio(lambda t: t**2, 0.0, 0.0) == np.inf
    grid = np.linspace(-3, 3, 100)
    assert pl_constant(lambda t: 1.5 * t**2, 0.0, grid) == pytest.approx(3.0)
    p = valley()
    x, y = 0.7, 2.0
    gx, gy = -(y - np.sin(x)) * np.cos(x), y - np.sin(x)
    by_hand = 0.5 * (gx**2 + gy**2) / (0.5 * (y - np.sin(x)) ** 2)
    assert pl_ratio(p, 0.0, np.array([x, y])) == pytest.approx(by_hand, rel=1e-13)
    assert by_hand == pytest.approx(1 + np.cos(x) ** 2)


def test_rates_by_hand():
    assert gd.stationary_sum(2.0, 3.0) == pytest.approx(12.0)
    # eta = 1.5/L: 1 / (eta (1 - 3/4)) = 4 L / 1.5
    assert gd.stationary_sum(2.0, 3.0, step=0.75) == pytest.approx(3 * 4 * 2 / 1.5)
    assert gd.steps_to_stationary(2.0, 3.1, 0.5) == 50
    assert gd.squared_gradient(2.0, 3.0) == 12
    assert gd.one_step_excess(2.0, 1.0, step=0.5) == 3
    assert gd.expansion_remainder(2.0, 3.0, 0.1) == pytest.approx(0.09)


def test_the_sum_holds_with_equality_on_a_quadratic():
    # theta -> (1 - eta L) theta: the sum of squares is a geometric series
    L, eta, k = 2.0, 0.6, 7
    theta = (1 - eta * L) ** np.arange(k + 1)
    slopes, values = (L * theta[:-1]) ** 2, 0.5 * L * theta**2
    assert gd.stationary_sum(L, values[0] - values[-1], step=eta) == pytest.approx(slopes.sum())


def test_sentences():
    with pytest.raises(TypeError, match="f must be a function of a point"):
        pl_ratio(1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="minimum must be at most every value"):
        pl_ratio(lambda t: t**2, 2.0, 1.0)
    with pytest.raises(ValueError, match="at least one point"):
        pl_constant(lambda t: t**2, 0.0, jnp.zeros((0,)))
    with pytest.raises(ValueError, match="step times L"):
        gd.stationary_sum(1.0, 1.0, step=2.5)
    with pytest.raises(ValueError, match="epsilon must be positive"):
        gd.steps_to_stationary(1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="gap must be zero or more"):
        gd.squared_gradient(1.0, -1.0)
    with pytest.raises(ValueError, match=r"start must have shape \(2,\)"):
        valley(np.zeros(3))
