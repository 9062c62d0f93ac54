"""The condition of Polyak and Łojasiewicz."""

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
