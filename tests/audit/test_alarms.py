"""The tests of a watch: false alarms do not grow with the number of looks, and what goes wrong is seen."""

import numpy as np
import pytest
from scipy import stats

from corollary.audit import _sequential
from corollary.audit._alarms import DELTA, GREW, WINDOW, Alarms

RUNS = 400


def test_what_is_spent_adds_up_to_no_more_than_was_given():
    parts = np.array([_sequential.spent(0.01, k) for k in range(1, 100_000)])
    assert (np.diff(parts) < 0).all()
    # the sum telescopes: what is left is 0.01 / log2(100,001)
    np.testing.assert_allclose(parts.sum(), 0.01 * (1 - 1 / np.log2(100_001)), rtol=1e-9)


def false_alarms(allowed, looks):
    """The share of runs without any change in which a test without margin ever finds one."""
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(RUNS):
        sizes = np.exp(0.25 * rng.normal(size=12 + 2 * looks))
        p = [_sequential.jumped(sizes[: 10 + 2 * k], sizes[10 + 2 * k :][:2], 1.0, 0.25) for k in range(1, looks + 1)]
        found += any(q < allowed(k) for k, q in enumerate(p, 1))
    return found / RUNS


def test_looking_often_does_not_raise_the_false_alarms():
    # three standard errors of a share of 5 % in so many runs
    most = 0.05 + 3 * np.sqrt(0.05 * 0.95 / RUNS)
    assert false_alarms(lambda k: _sequential.spent(0.05, k), 40) < most
    # the control: the same 5 % at every look
    assert false_alarms(lambda k: 0.05, 40) > 0.3


def test_healthy_synthetic_trainings_are_not_warned():
    # losses that fall with noise of their batches, steps that shrink, held-out losses that settle
    warned = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        alarms = Alarms(64)
        steps = np.arange(600)
        level = 0.2 + 2 * np.exp(-steps / rng.uniform(50, 200))
        losses = level * np.exp(rng.normal(size=600) * rng.uniform(0.05, 0.4))
        sizes = level * np.exp(rng.normal(size=600) * 0.25)
        spread = rng.gamma(1.0, size=200)
        for k in range(0, 600, 4):
            alarms.fresh(level[k] * rng.gamma(1.0, size=64), 0)
            alarms.losses([*steps[k : k + 4]], losses[k : k + 4])
            alarms.step(k, float(sizes[k]))
            if k % 20 == 0:
                alarms.held(k, float(level[k]), level[k] * spread * np.exp(0.1 * rng.normal(size=200)))
        warned += bool(alarms.raised)
    # at a rate of 1 % more than four of a hundred come once in 300 times
    assert warned <= 4


@pytest.mark.parametrize("seed", range(4))
def test_a_step_that_grows_is_seen_at_its_second_look(seed):
    rng, alarms = np.random.default_rng(seed), Alarms(None)
    alarms.losses([*range(40)], 1 + 0.1 * rng.random(40))
    for k in range(20):
        alarms.step(k, float(np.exp(0.25 * rng.normal())))
    assert not alarms.raised
    alarms.step(20, 30.0)
    assert alarms.urgent == {"step"}  # the next one at once
    alarms.step(21, 30.0)
    assert [a.name for a in alarms.raised] == ["step"]
    assert "divide the learning rate by" in alarms.raised[0].sentence


def test_a_step_that_grows_by_less_than_the_margin_is_no_matter():
    alarms = Alarms(None)
    for k in range(40):
        alarms.step(k, 1.0)
    for k in range(40, 60):
        alarms.step(k, 0.9 * GREW)
    assert not alarms.raised


def test_a_loss_that_explodes_is_the_step_s_fault():
    rng, alarms = np.random.default_rng(0), Alarms(None)
    alarms.losses([*range(60)], np.exp(0.2 * rng.normal(size=60)))
    assert not alarms.urgent
    alarms.losses([60], np.array([2.5]))
    assert alarms.urgent == {"step"}
    assert not alarms.raised
    alarms.losses([61, 62, 63], np.array([100.0, 1e6, np.inf]))
    assert [a.name for a in alarms.raised] == ["step", "loss"]
    assert "to infinity" in alarms.raised[0].sentence


def test_noise_that_is_gone_all_at_once_is_a_batch_that_repeats():
    rng, alarms = np.random.default_rng(0), Alarms(None)
    alarms.losses([*range(160)], 1 + 0.1 * rng.normal(size=160))
    falling = np.exp(-np.arange(48) / 20)
    for k in range(0, 48, 4):
        alarms.losses([*range(160 + k, 164 + k)], falling[k : k + 4])
    assert [a.name for a in alarms.raised] == ["batch"]
    assert alarms.raised[0].step < 160 + 48


def repeated(alarms, first):
    """A loss of one batch that falls, while fresh batches stay at 1."""
    rng = np.random.default_rng(0)
    alarms.fresh(rng.gamma(1.0, size=64), 0)
    alarms.losses([0], np.array([first]))
    for k in range(1, 40):
        alarms.fresh(rng.gamma(1.0, size=64), 0)
        alarms.losses([k], np.array([np.exp(-k / 8)]))
    return [a.name for a in alarms.raised]


def test_a_batch_that_repeats_from_the_start_is_seen_by_fresh_ones():
    assert repeated(Alarms(64), 1.0) == ["batch"]


def test_a_loss_that_is_not_the_subject_s_is_not_compared():
    assert repeated(Alarms(64), 20.0) == []


def test_without_a_batch_size_nothing_is_compared():
    assert repeated(Alarms(None), 1.0) == []


def held(rises):
    rng, alarms = np.random.default_rng(0), Alarms(None)
    example = rng.gamma(1.0, size=300)
    for k in range(12):
        level = max(1 - 0.1 * k, 0.5) + (rises * max(k - 5, 0))
        alarms.held(20 * k, 1 - 0.08 * k, level * example * np.exp(0.05 * rng.normal(size=300)))
    return alarms.raised


def test_overfitting_is_seen_and_a_plateau_is_not():
    assert held(0.0) == []
    (found,) = held(0.05)
    assert found.name == "overfitting"
    assert found.step <= 20 * 9
    assert "take the network of step 100" in found.sentence


def test_dead_units_are_named_with_their_layer():
    alarms = Alarms(None)
    alarms.units(0, {"first": (0.02, 2.0), "second": (0.3, 30.0), "small": (0.0, 0.0)})
    alarms.units(20, {"first": (0.2, 20.0), "second": (0.35, 35.0), "small": (0.5, 2.0)})
    assert not alarms.raised
    now = {"first": (0.27, 27.0), "second": (0.3, 30.0), "small": (0.5, 2.0)}
    assert alarms.doubtful(now) == "first"
    alarms.units(40, now)
    assert "27 % of the units of first" in alarms.raised[0].sentence
    assert "it was 2 %" in alarms.raised[0].sentence


def test_a_loss_that_is_no_number_at_once_is_not_the_step_s_fault():
    alarms = Alarms(None)
    alarms.losses([*range(40)], np.full(40, 0.5))
    alarms.losses([40], np.array([np.nan]))
    assert [a.name for a in alarms.raised] == ["loss"]


def test_every_sentence_comes_once():
    alarms = Alarms(None)
    for k in range(3):
        alarms.losses([k], np.array([np.nan]))
    assert [a.sentence for a in alarms.unsaid()] == [
        "Step 0: the loss is not finite; a smaller learning rate may help."
    ]
    assert alarms.unsaid() == []


def test_second_differences_measure_noise_and_not_slope():
    rng = np.random.default_rng(0)
    rows = 3 * np.arange(16) + 0.5 * rng.normal(size=(4000, 16))
    np.testing.assert_allclose(_sequential.roughness(rows).mean(), 0.25, rtol=0.05)
    # its law is close to the chi-squared that is used, at the end that matters
    p = np.array([_sequential.too_smooth(row, 0.25) for row in rows[:1500]])
    assert np.mean(p < 0.01) < 0.02
    assert stats.kstest(p, "uniform").statistic < 0.06


def test_a_value_is_too_low_for_a_batch_with_the_chance_that_is_said():
    rng = np.random.default_rng(0)
    draws = rng.normal(2, 1, size=(2000, 64 + 64))
    p = np.array([_sequential.too_low(row[:64].mean(), 64, row[64:]) for row in draws])
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_the_chances_add_up_to_one_in_a_hundred():
    assert sum(DELTA.values()) == pytest.approx(0.01)
    assert WINDOW >= 8
