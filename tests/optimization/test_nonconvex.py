"""Smooth functions that are not convex, with known constants, and the double well."""

import pytest

from corollary.optimization import rates, washboard


def test_bad_input():
    r = rates.gradient_descent
    with pytest.raises(ValueError, match="step times L"):
        r.stationary_tight(2.0, 1.0, 3, step=0.6)
    with pytest.raises(ValueError, match="gap must be zero or more"):
        r.stationary_tight(2.0, -1.0, 3)
    with pytest.raises(ValueError, match="n must be zero or more"):
        r.stationary_tight(2.0, 1.0, -3)
    with pytest.raises(ValueError, match="L must be positive"):
        washboard(3, L=0.0)
    with pytest.raises(ValueError, match="gap must be positive"):
        washboard(3, gap=0.0)
    with pytest.raises(ValueError, match="steps must be at least 0"):
        washboard(-1)
    with pytest.raises(ValueError, match="step must be positive"):
        washboard(3, step=-1.0)
    with pytest.raises(ValueError, match="step times L"):
        washboard(3, L=2.0, step=0.6)
