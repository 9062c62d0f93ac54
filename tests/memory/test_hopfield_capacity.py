"""How much a Hopfield network holds."""

from itertools import product

import numpy as np
import pytest
from scipy import optimize, special, stats

from corollary.memory import (
    critical_load,
    crosstalk_variance,
    fit_transition,
    flip_probability,
    flip_probability_limit,
    pattern_capacity,
    replica_overlap,
)


@pytest.mark.parametrize(("n", "s", "zero"), [(3, 2, True), (4, 3, True), (3, 3, False), (4, 2, False)])
def test_flip_probability_by_enumeration(n, s, zero):
    """Every pattern set there is, and every unit of its first pattern."""
    flips = []
    for bits in product([-1.0, 1.0], repeat=n * s):
        x = np.array(bits).reshape(s, n)
        field = x.T @ (x @ x[0]) - (s * x[0] if zero else 0)
        flips.append((np.where(field >= 0, 1, -1) != x[0]).mean())
    assert flip_probability(n, s, zero_diagonal=zero) == pytest.approx(np.mean(flips), abs=1e-12)


@pytest.mark.parametrize(("n", "s", "zero"), [(1000, 100, True), (1000, 200, False), (51, 8, True), (10, 1, True)])
def test_flip_probability_against_scipy(n, s, zero):
    trials, margin = (s - 1) * (n - 1), (n - 1 if zero else n + s - 1)
    ups = (trials - margin) / 2
    slow = stats.binom.cdf(np.ceil(ups) - 1, trials, 0.5) + 0.5 * (ups == int(ups)) * stats.binom.pmf(ups, trials, 0.5)
    assert flip_probability(n, s, zero_diagonal=zero) == pytest.approx(slow, rel=1e-8)


def test_limits():
    assert flip_probability_limit(0.138) == pytest.approx(0.5 * special.erfc(1 / np.sqrt(2 * 0.138)))
    assert flip_probability(1e6, 138_000.0) == pytest.approx(float(flip_probability_limit(0.138)), rel=1e-4)
    assert crosstalk_variance(1000, 200) == pytest.approx(0.198801)
    assert pattern_capacity(1024) == pytest.approx(51.2)
    assert pattern_capacity(1024, base=np.e) == pytest.approx(1024 / (2 * np.log(1024)))


def test_replica_theory_against_scipy():
    def load(y):
        return 0.5 * (special.erf(y) / y - 2 / np.sqrt(np.pi) * np.exp(-(y**2))) ** 2

    best = optimize.minimize_scalar(lambda y: -load(y), bounds=(0.5, 3), method="bounded", options={"xatol": 1e-10})
    alpha, overlap = critical_load()
    assert alpha == pytest.approx(-best.fun, rel=1e-8)
    assert alpha == pytest.approx(0.137906, abs=1e-6)
    assert overlap == pytest.approx(special.erf(best.x), abs=1e-4)
    for a in (0.02, 0.1, 0.137):
        y = optimize.brentq(lambda y, a=a: load(y) - a, best.x, 1 / np.sqrt(2 * a) + 2)
        assert replica_overlap(a) == pytest.approx(special.erf(y), abs=1e-12)
    assert np.isnan(replica_overlap(0.139))


def test_fit_transition_finds_what_was_put_in():
    n = np.repeat([500.0, 2000.0, 8000.0], 4)
    loads = 0.137 + np.tile([0.2, 0.6, 1.0, 1.4], 3) / np.sqrt(n)
    kept = 1000 * special.ndtr(1.3 + 1.7 * np.sqrt(n) * (0.137 - loads))
    fit = fit_transition(n, loads, kept, np.full(12, 1000.0))
    np.testing.assert_allclose([fit.load, fit.slope, fit.offset], [0.137, 1.7, 1.3], rtol=1e-6)
