"""Tail bounds against closed forms, exact binomial tails, and their own inverses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from corollary.foundations import (
    CHERNOFF_RANGE,
    average_deviation,
    average_tail,
    bernstein,
    bernstein_deviation,
    bernstein_moments,
    bernstein_moments_deviation,
    binomial_tail,
    chebyshev,
    chernoff_lower,
    chernoff_upper,
    chi_square_deviation,
    hoeffding,
    hoeffding_deviation,
    markov,
    samples_needed,
)

shares = st.floats(0.01, 0.99)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_markov_and_chebyshev_hold_for_the_exponential_law():
    t = np.linspace(0.1, 20, 200)
    assert (stats.expon.sf(t) <= markov(1.0, t)).all()
    assert (stats.expon.sf(1 + t) + stats.expon.cdf(1 - t) <= chebyshev(1.0, t)).all()


def test_printed_constants():
    assert chernoff_upper(30.0, 0.5, "third") == pytest.approx(np.exp(-0.25 * 30 / 3))
    assert chernoff_upper(1.0, 9.0, "universal") == pytest.approx(np.exp(-81 / 11))
    assert chernoff_lower(30.0, 0.5, "half") == pytest.approx(np.exp(-0.25 * 30 / 2))
    assert hoeffding(10.0, np.full(20, 2.0)) == pytest.approx(2 * np.exp(-2.5))
    assert hoeffding(10.0, np.full(20, 2.0), sides=1) == pytest.approx(np.exp(-2.5))
    assert average_tail(0.3, 50, 2.0) == pytest.approx(2 * np.exp(-(0.3**2) * 50 / 2))
    assert bernstein(3.0, 4.0, 2.0) == pytest.approx(np.exp(-4.5 / 6))


def test_the_range_of_the_constant_three_is_the_root():
    root = optimize.brentq(lambda d: (1 + d) * np.log1p(d) - d - d * d / 3, 1, 3)
    assert pytest.approx(root, rel=1e-12) == CHERNOFF_RANGE
    assert chernoff_upper(50.0, CHERNOFF_RANGE, "third") == pytest.approx(float(chernoff_upper(50.0, CHERNOFF_RANGE)))


@settings(deadline=None)
@given(st.sampled_from([1, 7, 30, 60]), shares, shares)
def test_binomial_bounds_are_above_the_exact_tails(n, p, share):
    k = round(share * n)
    exact_up, exact_down = stats.binom.sf(k - 1, n, p), stats.binom.cdf(k, n, p)
    mu = n * p
    with jax.enable_x64(True):
        if k > mu:
            assert exact_up <= binomial_tail(k / n, p, n) * (1 + 1e-12)
            assert binomial_tail(k / n, p, n) <= chernoff_upper(mu, k / mu - 1) * (1 + 1e-12)
            assert binomial_tail(k / n, p, n) <= hoeffding(k - mu, np.ones(n), sides=1) * (1 + 1e-12)
            assert chernoff_upper(mu, k / mu - 1) <= chernoff_upper(mu, k / mu - 1, "universal") * (1 + 1e-12)
            assert exact_up <= bernstein(k - mu - 1e-9, n * p * (1 - p), max(p, 1 - p)) * (1 + 1e-7)
        if 0 < k < mu:
            assert exact_down <= binomial_tail(k / n, p, n) * (1 + 1e-12)
            assert binomial_tail(k / n, p, n) <= chernoff_lower(mu, 1 - k / mu) * (1 + 1e-12)
            assert chernoff_lower(mu, 1 - k / mu) <= chernoff_lower(mu, 1 - k / mu, "half") * (1 + 1e-12)


@settings(deadline=None)
@given(st.floats(1e-12, 0.5), st.floats(0.1, 100), st.floats(0.1, 10))
def test_deviations_are_inverses(delta, variance, bound):
    with jax.enable_x64(True):
        widths = np.array([bound, 2 * bound, 0.5])
        for sides in (1, 2):
            assert hoeffding(hoeffding_deviation(delta, widths, sides), widths, sides) == pytest.approx(delta, rel=1e-9)
            at = average_deviation(delta, 17, bound, sides)
            assert average_tail(at, 17, bound, sides) == pytest.approx(delta, rel=1e-9)
        assert bernstein(bernstein_deviation(delta, variance, bound), variance, bound) == pytest.approx(delta, rel=1e-9)


@settings(deadline=None)
@given(st.floats(1e-3, 0.5), st.floats(1e-6, 0.5))
def test_samples_needed_is_the_least_whole_number(epsilon, delta):
    with jax.enable_x64(True):
        m = float(samples_needed(epsilon, delta, 1.0))
        assert m == int(m)
        assert average_tail(epsilon, m, 1.0) <= delta * (1 + 1e-9)
        assert m == 1 or average_tail(epsilon, m - 1, 1.0) > delta * (1 - 1e-9)


def test_moments_of_exponential_variables_bound_their_sums():
    k, delta = np.array([1.0, 7.0, 50.0])[:, None], np.array([0.2, 1e-3, 1e-8])
    t = bernstein_moments_deviation(delta, k, 1.0)
    np.testing.assert_allclose(bernstein_moments(t, k, 1.0), np.broadcast_to(delta, (3, 3)), rtol=1e-10)
    assert (stats.gamma.sf(k + t, k) <= delta).all()
    # the best exponent of Chernoff's method, found by SciPy
    best = optimize.minimize_scalar(lambda s: -2.0 * s + 3 * s**2 / (2 * (1 - 0.5 * s)), bounds=(0, 1.999)).fun
    assert bernstein_moments(2.0, 3.0, 0.5) == pytest.approx(np.exp(best), rel=1e-6)


def test_chi_square_deviations_against_the_exact_law():
    k, delta = np.arange(1.0, 60.0)[:, None], np.array([0.3, 1e-3, 1e-9])
    t = np.asarray(chi_square_deviation(delta, k))
    assert (stats.chi2.sf(k + t, k) + stats.chi2.cdf(k - t, k) <= delta).all()
    assert chi_square_deviation(0.1, 20.0, "root") == pytest.approx(4 * np.sqrt(20 * np.log(20)))


def test_bounds_broadcast_compile_and_differentiate():
    t, widths = jnp.linspace(0.1, 3, 7), jnp.ones((4, 1, 5))
    assert hoeffding(t, widths).shape == (4, 7)
    assert bernstein(t, jnp.ones((3, 1)), 1.0).shape == (3, 7)
    np.testing.assert_allclose(jax.jit(jax.vmap(lambda s: bernstein(s, 2.0, 1.0)))(t), bernstein(t, 2.0, 1.0))
    assert jax.grad(lambda s: average_tail(s, 10, 2.0))(0.3) < 0


def test_single_precision_stays_single():
    with jax.enable_x64(False):
        assert markov(jnp.float32(1), jnp.float32(2)).dtype == jnp.float32


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: markov(-1.0, 1.0), "mean must be zero or more, got -1.0"),
        (lambda: markov(1.0, 0.0), "t must be positive, got 0.0"),
        (lambda: chebyshev(-1.0, 1.0), "variance must be zero or more"),
        (lambda: markov(np.ones(2), np.ones(3)), r"The shapes of mean, t must broadcast, got mean \(2,\), t \(3,\)"),
        (lambda: chernoff_upper(1.0, 9.0, "third"), r"delta must be in \(0, 1.81696\], got 9.0"),
        (lambda: chernoff_upper(1.0, 9.0, "fourth"), "form must be one of 'exact', 'universal', 'third'"),
        (lambda: chernoff_upper(-1.0, 9.0), "mu must be zero or more"),
        (lambda: chernoff_lower(1.0, 1.0), r"delta must be in \(0, 1\)"),
        (lambda: chernoff_lower(1.0, 0.5, "third"), "form must be one of 'exact', 'half'"),
        (lambda: binomial_tail(1.5, 0.5, 3), r"q must be in \[0, 1\]"),
        (lambda: binomial_tail(0.5, 0.5, 0), "n must be at least 1"),
        (lambda: hoeffding(1.0, -np.ones(3)), "widths must be zero or more"),
        (lambda: hoeffding(1.0, 1.0), r"widths must have shape \(..., n\)"),
        (lambda: hoeffding(1.0, np.ones(3), sides=3), "sides must be from 1 to 2"),
        (lambda: average_tail(0.1, 0, 1.0), "m must be at least 1"),
        (lambda: average_tail(0.1, 5, 0.0), "width must be positive"),
        (lambda: average_deviation(1.0, 5, 1.0), r"delta must be in \(0, 1\)"),
        (lambda: samples_needed(0.0, 0.1, 1.0), "epsilon must be positive"),
        (lambda: bernstein(1.0, -1.0, 1.0), "variance must be zero or more"),
        (lambda: bernstein(1.0, 1.0, 0.0), "bound must be positive"),
        (lambda: bernstein(np.nan, 1.0, 1.0), "t must be finite"),
        (lambda: bernstein_moments(1.0, 0.0, 1.0), "variance must be positive"),
        (lambda: bernstein_moments(1.0, 1.0, -1.0), "growth must be positive"),
        (lambda: chi_square_deviation(0.1, 0.0), "degrees must be at least 1"),
        (lambda: chi_square_deviation(1e-6, 3.0, "root"), "degrees over"),
        (lambda: chi_square_deviation(0.1, 3.0, "other"), "form must be one of"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
