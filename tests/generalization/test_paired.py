"""Paired tests against SciPy, their false alarms over thousands of pairs, and what they say they would have seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from corollary.generalization import among_seeds, holm, mcnemar, sign_flips, standing_out

KEY = jax.random.key(0)


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (1, 0), (6, 0), (9, 2), (5, 5), (40, 61)])
def test_mcnemar_is_the_binomial_test(won, lost):
    right = np.repeat([True, False, True, False], [won, lost, 7, 4])
    other = np.repeat([False, True, True, False], [won, lost, 7, 4])
    want = stats.binomtest(won, won + lost).pvalue if won + lost else 1.0
    found = mcnemar(right, other)
    np.testing.assert_allclose(found.p, want, rtol=1e-5)
    np.testing.assert_allclose(found.difference, (won - lost) / len(right), rtol=1e-6)


def test_sign_flips_are_those_of_all_patterns():
    d = np.array([0.3, -0.1, 0.9, 0.4, 0.25, -0.2, 0.8, 0.1])
    want = stats.permutation_test((d,), np.sum, permutation_type="samples").pvalue
    found = sign_flips(d, key=KEY, draws=40_000)
    # a share of 40,000 draws: four standard errors
    assert abs(float(found.p) - want) < 4 * np.sqrt(want / 40_000)
    together = sign_flips(np.repeat(d, 3), groups=np.repeat(np.arange(8), 3), key=KEY, draws=40_000)
    assert abs(float(together.p) - want) < 4 * np.sqrt(want / 40_000)


def test_among_seeds_is_students_interval_of_prediction():
    others = np.array([0.3, 0.5, 0.45, 0.2])
    for value in (0.36, 0.9, -2.0):
        t = (value - others.mean()) / (others.std(ddof=1) * np.sqrt(1 + 1 / 4))
        found = among_seeds(value, others)
        np.testing.assert_allclose(found.p, 2 * stats.t.sf(abs(t), 3), rtol=1e-4)
    seen = stats.t.isf(0.025, 3) * others.std(ddof=1) * np.sqrt(1 + 1 / 4)
    np.testing.assert_allclose(among_seeds(0.36, others, power=0.5).smallest, seen, rtol=1e-5)
    draws = jax.random.normal(KEY, (2000, 5))
    alarms = int((jax.vmap(lambda d: among_seeds(d[0], d[1:]).p)(draws) <= 0.05).sum())
    assert stats.binom.ppf(1e-6, 2000, 0.05) <= alarms <= stats.binom.isf(1e-6, 2000, 0.05)
    assert [float(among_seeds(v, np.ones(3)).p) for v in (1.0, 2.0)] == [1.0, 0.0]
    with pytest.raises(ValueError, match="others must hold at least 2 numbers"):
        among_seeds(1.0, np.ones(1))


def test_a_group_stands_out_among_the_others():
    y = np.arange(400) % 10
    right = np.ones(400, int)
    other = right.copy()
    other[np.flatnonzero(y == 7)[:20]] = 0  # twenty of forty, in one class
    other[np.flatnonzero(y == 1)[:2]] = 0
    found = standing_out(right, other, y, 10)
    assert (int(found.group), float(found.difference)) == (7, 0.5)
    t = 20 / np.sqrt(2**2 / 9)
    want = 10 * max(2 * stats.t.sf(t, 9), stats.binomtest(0, 20).pvalue)
    np.testing.assert_allclose(found.p, want, rtol=1e-3)
    assert 0 < float(found.smallest) < 1
    assert float(standing_out(right, right, y, 10).p) == 1.0
    # what all groups lose alike stands out in none
    even = np.where(np.arange(400) // 10 % 4 == 0, 0, 1)
    assert float(standing_out(right, even, y, 10).p) == 1.0
    with pytest.raises(ValueError, match="classes must be at least 3"):
        standing_out(right, other, y % 2, 2)


def test_holm_is_statsmodels_rule_by_hand():
    p = np.array([0.01, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(holm(p), [0.03, 0.06, 0.06, 0.02], rtol=1e-6)
    np.testing.assert_allclose(holm(np.array([0.9, 0.8])), [1.0, 1.0])


def test_false_alarms_are_as_declared():
    """Over 600 pairs without a difference; one in a million repeats of this test would see more alarms."""
    pairs = 600
    most = stats.binom.isf(1e-6, pairs, 0.05)
    one, two, three = jax.random.split(KEY, 3)
    right = jax.random.bernoulli(one, 0.8, (2, pairs, 60))
    assert int((jax.vmap(lambda a, b: mcnemar(a, b).p)(*right) <= 0.05).sum()) <= most
    # what groups share differs from pair to pair, so that single examples are no independent trials
    groups = jnp.arange(60) % 12
    shared = jax.random.laplace(two, (pairs, 12))[:, groups] + jax.random.laplace(three, (pairs, 60))
    keys = jax.random.split(KEY, pairs)

    def alarms(groups):
        return int((jax.vmap(lambda d, k: sign_flips(d, groups=groups, key=k, draws=99).p)(shared, keys) <= 0.05).sum())

    assert 0 < alarms(groups) <= most
    assert alarms(None) > most  # the control: the premise of independence is broken


def test_planted_differences_are_found_where_it_says():
    """At the smallest difference that is said to be seen, four of five times; 300 pairs, three standard errors."""
    pairs, n, least = 300, 100, 0.8 - 3 * np.sqrt(0.8 * 0.2 / 300)
    one, two, three = jax.random.split(KEY, 3)
    noise = jax.random.normal(one, (pairs, n))
    keys = jax.random.split(KEY, pairs)
    flips = jax.jit(jax.vmap(lambda d, k: sign_flips(d, key=k, draws=199)))
    said = float(flips(noise, keys).smallest.mean())
    assert float((flips(noise + said, keys).p <= 0.05).mean()) >= least
    assert float((flips(noise + 0.3 * said, keys).p <= 0.05).mean()) < 0.5
    a, b = jax.random.bernoulli(two, 0.9, (2, pairs, n))
    said = float(jnp.mean(jax.vmap(mcnemar)(a, b).smallest))
    lost = jax.random.bernoulli(three, said / 0.9, (pairs, n))
    assert float((jax.vmap(mcnemar)(a, b & ~lost).p <= 0.05).mean()) >= least


def test_where_nothing_could_be_seen():
    assert float(mcnemar(np.ones(4, bool), np.ones(4, bool)).smallest) == np.inf
    few = sign_flips(np.ones(6), groups=np.array([0, 0, 1, 1, 2, 2]), key=KEY)
    assert float(few.smallest) == np.inf  # three groups show no less than a quarter
    assert float(few.p) > 0.2
    assert np.isfinite(float(sign_flips(np.arange(6.0), key=KEY, level=0.1).smallest))


def test_what_does_not_fit_is_a_sentence():
    with pytest.raises(ValueError, match="other must have shape"):
        mcnemar(np.ones(3, bool), np.ones(4, bool))
    with pytest.raises(ValueError, match="groups must hold labels from 0 to 2"):
        sign_flips(np.ones(3), groups=np.array([0, 1, 3]), key=KEY)
    with pytest.raises(ValueError, match="differences must be finite"):
        sign_flips(np.array([1.0, np.nan]), key=KEY)
    with pytest.raises(ValueError, match="level must be in"):
        mcnemar(np.ones(3, bool), np.ones(3, bool), level=1.0)
    with pytest.raises(ValueError, match="power must be in"):
        sign_flips(np.ones(3), key=KEY, power=0.1)
    with pytest.raises(ValueError, match="p must be in"):
        holm(np.array([1.5]))
