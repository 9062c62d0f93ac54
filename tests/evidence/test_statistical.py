"""The statistical checks as instruments: how often do they alarm falsely, how often do they miss?"""

import numpy as np
import pytest
from scipy import stats

from corollary.evidence import control, estimate, frequency_at_most, rate, same_law

TRIALS = 3000


def upper(rate_: float, trials: int = TRIALS) -> int:
    """The count that a true rate of at most `rate_` exceeds once in 10,000 test runs."""
    return int(stats.binom.isf(1e-4, trials, rate_))


def outcomes(make, trials=TRIALS, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([make(rng) for _ in range(trials)])


@pytest.mark.parametrize("law", ["normal", "uniform", "bernoulli"])
def test_estimate_alarms_falsely_as_often_as_declared(law):
    draw = {
        "normal": lambda rng: rng.normal(1.0, 2.0, 200),
        "uniform": lambda rng: rng.uniform(0.0, 2.0, 200),
        "bernoulli": lambda rng: rng.binomial(2, 0.5, 200),
    }[law]
    seen = outcomes(lambda rng: estimate("mean", draw(rng), 1.0, wrong=9.0, false_alarm=0.02).outcome)
    alarms = int((seen == "violated").sum())
    assert set(seen) <= {"passed", "violated"}
    assert alarms <= upper(0.03)  # Student's interval is approximate for the last two laws
    assert alarms >= stats.binom.ppf(1e-4, TRIALS, 0.01)


def test_estimate_misses_the_stated_wrong_value_no_more_often_than_declared():
    # the truth IS the wrong value: to pass, the interval would have to exclude the truth
    seen = outcomes(lambda rng: estimate("m", rng.normal(0.3, 1, 100), 0.0, wrong=0.3, false_alarm=0.02).outcome)
    assert (seen == "passed").sum() <= upper(0.02)
    assert (seen == "inconclusive").sum() > 0


def test_estimate_with_too_few_samples_is_inconclusive_not_passed():
    rng = np.random.default_rng(0)
    found = estimate("mean", rng.normal(0, 1, 40), 0.0, wrong=0.1)
    assert found.outcome == "inconclusive"
    assert not found.passed
    assert not control("nothing", found).passed
    assert estimate("mean", rng.normal(0, 1, 29), 0.0, wrong=100.0).outcome == "inconclusive"


def test_estimate_guards_all_entries_together():
    seen = outcomes(
        lambda rng: estimate("v", rng.normal(0, 1, (60, 20)), np.zeros(20), wrong=9.0, false_alarm=0.05).outcome,
        trials=1000,
    )
    assert (seen == "violated").sum() <= upper(0.05, 1000)


def test_estimate_of_constant_samples():
    assert estimate("c", np.full(50, 0.1), 0.1, wrong=0.2).passed
    assert estimate("c", np.full(50, 0.1), 0.1 + 1e-9, wrong=0.2).outcome == "violated"
    assert estimate("zero", np.zeros(50), 0.0, wrong=0.2).passed


def test_frequency_alarms_falsely_no_more_often_than_declared():
    seen = outcomes(lambda rng: frequency_at_most("f", rng.random(400) < 0.1, 0.1, false_alarm=0.02).outcome)
    assert (seen == "violated").sum() <= upper(0.02)
    assert (seen == "violated").sum() > 0  # at the boundary the test is nearly exact
    assert set(seen) <= {"passed", "violated"}


def test_frequency_notices_twice_the_allowed_rate():
    seen = outcomes(lambda rng: frequency_at_most("f", rng.random(400) < 0.2, 0.1, false_alarm=0.02).outcome)
    assert (seen == "passed").sum() <= upper(0.01)


def test_frequency_with_too_few_trials_is_inconclusive():
    found = frequency_at_most("rare", np.zeros(100, bool), 0.01)
    assert found.outcome == "inconclusive"
    assert "make more" in found.sentence


def test_frequency_of_the_impossible():
    assert frequency_at_most("never", np.zeros(5, bool), 0.0).passed
    assert frequency_at_most("never", [False, True], 0.0).outcome == "violated"
    assert frequency_at_most("often", np.ones(3000, bool), 0.7).outcome == "violated"
    assert frequency_at_most("often", np.arange(3000) % 10 < 7, 0.7).passed


@pytest.mark.parametrize("two_sample", [False, True])
def test_same_law_alarms_and_misses_as_declared(two_sample):
    def true(rng):
        law = rng.normal(size=300) if two_sample else stats.norm.cdf
        return same_law("n", rng.normal(size=300), law, wrong=stats.norm(3).cdf, false_alarm=0.05).outcome

    def false(rng):
        law = rng.normal(size=300) if two_sample else stats.norm.cdf
        return same_law("n", rng.normal(1, 1, 300), law, wrong=stats.norm(3).cdf, false_alarm=0.05).outcome

    seen = outcomes(true, 1500)
    assert (seen == "violated").sum() <= upper(0.05, 1500)
    assert (seen == "violated").sum() >= 20
    assert (outcomes(false, 300) == "violated").all()


def test_same_law_agrees_with_scipy():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=80), np.round(rng.normal(size=120), 1)
    one = same_law("n", a, stats.norm.cdf, wrong=stats.norm(9).cdf)
    two = same_law("n", a, b, wrong=stats.norm(9).cdf)
    assert f"{stats.kstest(a, stats.norm.cdf).statistic:.4g}" in one.sentence
    assert f"{stats.ks_2samp(a, b).statistic:.4g}" in two.sentence


def test_same_law_must_exclude_the_wrong_law():
    rng = np.random.default_rng(0)
    found = same_law("n", rng.normal(size=50), stats.norm.cdf, wrong=stats.norm(0.1).cdf)
    assert found.outcome == "inconclusive"


def noisy_power(rng, slope, noise, n=20):
    x = np.logspace(0, 3, n)
    return x, 3 * x**slope * np.exp(noise * rng.normal(size=n))


def test_rate_passes_a_wrong_slope_no_more_often_than_declared():
    # the true slope lies on the edge of the band: the whole 90 % interval is inside at most 5 % of the time
    def trial(rng):
        return rate("r", *noisy_power(rng, -0.4, 0.05), -0.5, tolerance=0.1, confidence=0.9).outcome

    seen = outcomes(trial, 1500)
    assert (seen == "passed").sum() <= upper(0.05, 1500)
    assert (seen == "violated").sum() <= upper(0.05, 1500)  # on the edge neither can be told


def test_rate_passes_the_true_slope_and_fails_another():
    rng = np.random.default_rng(0)
    x, y = noisy_power(rng, -0.5, 0.05)
    assert rate("r", x, y, -0.5, tolerance=0.1).passed
    assert rate("r", x, y, -1.0, tolerance=0.1).outcome == "violated"
    assert rate("faster", x, y, -0.2, tolerance=0.1, side="at most").passed
    assert rate("faster", x, y, -0.8, tolerance=0.1, side="at most").outcome == "violated"
    assert rate("slower", x, y, -0.8, tolerance=0.1, side="at least").passed


def test_rate_on_semi_log_axes():
    k = np.arange(50)
    assert rate("e", k, 2 * 0.9**k, np.log(0.9), tolerance=1e-9, axes="semi-log").passed
    assert rate("e", k, 2 * 0.9**k, np.log(0.8), tolerance=1e-3, axes="semi-log").outcome == "violated"


def test_rate_sees_that_a_curve_is_not_a_line():
    x = np.logspace(0, 2, 30)
    bent = np.exp((np.log(x) - np.log(10)) ** 2 * 2) * x**-0.5
    assert rate("bent", x, bent, -0.5, tolerance=1.0).outcome == "inconclusive"


def test_rate_with_noise_is_inconclusive_not_passed():
    rng = np.random.default_rng(1)
    x, y = noisy_power(rng, -0.5, 1.0, n=8)
    assert rate("r", x, y, -0.5, tolerance=0.05, fit=0.0).outcome == "inconclusive"
    assert rate("r", [1, 2, 3], [1, 2, 3], 1.0, tolerance=0.1).outcome == "inconclusive"
    assert rate("r", [2, 2, 2, 2], [1, 2, 3, 4], 1.0, tolerance=0.1).outcome == "inconclusive"


STATISTICAL = {
    "estimate": lambda v: estimate("e", v, 0.0, wrong=50.0),
    "frequency_at_most": lambda v: frequency_at_most("f", np.where(np.isfinite(v), v > 99, v), 0.4),
    "same_law": lambda v: same_law("s", v, stats.norm.cdf, wrong=stats.norm(9).cdf),
    "rate": lambda v: rate("r", np.arange(1, v.size + 1), np.abs(v) * 0 + 1.0 + np.arange(v.size), 1.0, tolerance=9),
}


@pytest.mark.parametrize("kind", STATISTICAL)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_or_empty_never_passes(kind, bad):
    good = np.random.default_rng(0).normal(size=500)
    assert STATISTICAL[kind](good).passed
    values = good.copy()
    values[3] = bad
    found = STATISTICAL[kind](values)
    assert found.outcome == "not finite"
    assert not found.passed
    assert not control("c", found).passed
    assert not STATISTICAL[kind](np.zeros(0)).passed


def test_a_constant_has_the_slope_zero():
    x = np.logspace(0, 2, 10)
    assert rate("flat", x, np.full(10, 0.3), 1.0, tolerance=0.1).outcome == "violated"
    assert rate("flat", x, np.full(10, 0.3), 0.0, tolerance=0.1).passed


def test_values_without_a_logarithm_never_pass():
    assert rate("r", [1, 2, 3, 4], [1, 0, 3, 4], 1.0, tolerance=9).outcome == "not finite"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: estimate("m", np.zeros((40, 3)), np.zeros(2), wrong=1.0), "predicted has shape"),
        (lambda: estimate("m", 1.0, 1.0, wrong=2.0), "first axis"),
        (lambda: estimate("m", np.zeros(40), 1.0, wrong=1.0), "must differ"),
        (lambda: frequency_at_most("f", [0.5], 0.1), "true or false"),
        (lambda: frequency_at_most("f", [True], 1.0), r"in \[0, 1\)"),
        (lambda: rate("r", [1, 2], [1, 2, 3], 1.0, tolerance=1), "the same length"),
        (lambda: rate("r", [1, 2], [1, 2], 1.0, tolerance=0), "positive"),
        (lambda: rate("r", [1, 2], [1, 2], 1.0, tolerance=1, side="up"), "side"),
        (lambda: rate("r", [1, 2], [1, 2], 1.0, tolerance=1, axes="lin"), "axes"),
        (lambda: same_law("s", [1.0], [], wrong=stats.norm.cdf), "empty"),
    ],
)
def test_bad_input_is_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
