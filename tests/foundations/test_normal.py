"""Distance from the normal law against SciPy, the Berry-Esseen bound, and the mass near the mean."""

import jax
import numpy as np
import pytest
from scipy import stats

from corollary.foundations import (
    BERRY_ESSEEN_IDENTICAL,
    ESSEEN,
    berry_esseen,
    normal_gap,
    normal_small_ball,
    small_ball_bounds,
)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_gap_of_a_sign_is_the_textbook_number():
    # +1 or -1: just below +1 the distribution function is 1/2 and the normal one 0.8413
    assert normal_gap([1.0, -1.0], [0.5, 0.5]) == pytest.approx(stats.norm.cdf(1) - 0.5, rel=1e-12)


def test_gap_is_the_supremum_over_a_fine_grid():
    rng = np.random.default_rng(0)
    values, p = rng.normal(size=8), rng.dirichlet(np.ones(8))
    mean = p @ values
    sd = np.sqrt(p @ (values - mean) ** 2)
    x = np.concatenate([np.linspace(-9, 9, 20_001), values, values - 1e-9])
    cdf = (p * (values <= x[:, None])).sum(1)
    assert normal_gap(values, p) == pytest.approx(np.abs(cdf - stats.norm.cdf((x - mean) / sd)).max(), abs=1e-7)


def test_equal_values_are_one_atom():
    assert normal_gap([0, 1, 1, 1], [0.7, 0.1, 0.1, 0.1]) == pytest.approx(float(normal_gap([0, 1], [0.7, 0.3])))


def test_binomial_gap_is_below_berry_esseen():
    for n in (1, 10, 1000):
        p = 0.3
        third = n * p * (1 - p) * (p**2 + (1 - p) ** 2)
        gap = normal_gap(np.arange(n + 1), stats.binom.pmf(np.arange(n + 1), n, p))
        assert gap <= berry_esseen(third, n * p * (1 - p), identical=True)
        assert gap <= berry_esseen(third, n * p * (1 - p))


def test_constants():
    assert pytest.approx((3 + np.sqrt(10)) / (6 * np.sqrt(2 * np.pi))) == ESSEEN
    assert berry_esseen(2.0, 4.0, identical=True) == pytest.approx(BERRY_ESSEEN_IDENTICAL / 4)


def test_small_ball_is_the_normal_probability_between_its_bounds():
    sigma = 3.0
    t = np.linspace(0.01, 1, 50) * sigma
    mass = normal_small_ball(t, sigma)
    np.testing.assert_allclose(mass, stats.norm.cdf(t / sigma) - stats.norm.cdf(-t / sigma), rtol=1e-12)
    low, high = small_ball_bounds(t, sigma)
    assert (low < mass).all()
    assert (mass < high).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: normal_gap([1.0, 2.0], [0.5, 0.6]), "probability must sum to 1, got 1.1"),
        (lambda: normal_gap([1.0, 2.0], [1.5, -0.5]), r"probability must be in \[0, 1\]"),
        (lambda: normal_gap([1.0, 2.0], [1.0]), r"probability must have shape \(k,\) with k = 2"),
        (lambda: normal_gap([1.0, 1.0], [0.5, 0.5]), "the variance of the law must be positive"),
        (lambda: berry_esseen(-1.0, 1.0), "third must be zero or more"),
        (lambda: berry_esseen(1.0, 0.0), "variance must be positive"),
        (lambda: normal_small_ball(-1.0, 1.0), "t must be zero or more"),
        (lambda: normal_small_ball(1.0, 0.0), "sigma must be positive"),
        (lambda: small_ball_bounds(2.0, 1.0), r"t / sigma must be in \[0, 1\], got 2.0"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
