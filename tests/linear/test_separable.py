import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

from corollary.data import book_perfect_data
from corollary.linear import (
    class_gap,
    is_separable,
    limit_mean_gap,
    min_abs_limit_mean,
    min_abs_limit_survival,
    min_abs_mean,
    min_abs_survival,
)


def test_numbers_of_section_3_6():
    x, y = book_perfect_data()
    gap = class_gap(x, y)
    np.testing.assert_allclose([gap.lower, gap.upper, gap.midpoint], [-0.0241045, 0.0297138, 0.0028047], atol=5e-8)
    np.testing.assert_allclose(jnp.abs(x).min(), 0.0241045, atol=5e-8)
    np.testing.assert_allclose(gap.midpoint, 0.71 / 252.95, rtol=1e-3)
    assert gap.sign == 1
    assert class_gap(x, 1 - y).sign == -1


def test_separability_against_all_thresholds():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 6, (500, 5)).astype(float), rng.integers(0, 2, (500, 5))
    ours = jax.vmap(is_separable)(jnp.asarray(x), jnp.asarray(y))
    cuts = np.arange(-1, 7) + 0.5
    sides = x[:, None, :] > cuts[None, :, None]
    by_hand = np.any(np.all(sides == y[:, None], 2) | np.all(sides != y[:, None], 2), axis=1)
    np.testing.assert_array_equal(ours, by_hand)
    assert 50 < by_hand.sum() < 450


@pytest.mark.parametrize("n", [1, 3, 100, 10_000])
def test_survival_and_mean_against_scipy(n):
    level = np.array([0.0, 0.1, 1.0, 3.0])
    np.testing.assert_allclose(min_abs_survival(level, n), special.erfc(level / n / np.sqrt(2)) ** n, rtol=1e-11)
    mean = integrate.quad(lambda u: special.erfc(u / np.sqrt(2)) ** n, 0, np.inf if n < 100 else 40 / n,
                          epsabs=1e-14, epsrel=1e-12)[0]  # fmt: skip
    np.testing.assert_allclose(min_abs_mean(n), mean, rtol=1e-9)


def test_survival_far_out_does_not_underflow_early():
    np.testing.assert_allclose(jnp.log(min_abs_survival(30.0, 1)), np.log(2) + special.log_ndtr(-30), rtol=1e-12)
    assert jnp.isfinite(jax.grad(lambda u: min_abs_survival(u, 5))(50.0))


def test_limit_law():
    level = np.linspace(0, 8, 50)
    np.testing.assert_allclose(min_abs_survival(level, 10**7), min_abs_limit_survival(level), atol=1e-6)
    np.testing.assert_allclose(min_abs_limit_mean(100), 0.012533, atol=5e-7)
    np.testing.assert_allclose(min_abs_mean(10**6) / min_abs_limit_mean(10**6), 1, atol=1e-5)


def test_means_by_simulation():
    n, runs = 2000, 4000
    x = np.random.default_rng(1).normal(size=(runs, n))
    least = np.abs(x).min(1)
    assert abs(least.mean() - min_abs_mean(n)) < 4 * least.std() / runs**0.5
    assert abs(least.mean() - 2 / np.sqrt(2 * np.pi) / n) > 10 * least.std() / runs**0.5  # the printed constant
    gap = np.where(x > 0, x, np.inf).min(1) - np.where(x < 0, x, -np.inf).max(1)
    # The leading order is off by a relative 1/n, far below the statistical error.
    assert abs(gap.mean() - limit_mean_gap(n)) < 4 * gap.std() / runs**0.5
