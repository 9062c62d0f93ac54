"""The instance that attains the best rate of the gradient, against its own gradient written out, and bad input."""

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
    slopes = jax.vmap(p.gradient)(jnp.asarray(theta))
    np.testing.assert_allclose(slopes, wanted, atol=1e-9)
    # L-smooth: no difference quotient of the gradient exceeds L; the value is its integral
    assert np.abs(np.diff(slopes) / np.diff(theta)).max() <= L * (1 + 1e-9)
    values = np.asarray(jax.vmap(p)(jnp.asarray(theta)))
    fine = np.linspace(theta[0], theta[-1], 400001)
    integral = np.trapezoid(np.asarray(jax.vmap(p.gradient)(jnp.asarray(fine))), fine)
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
