import numpy as np
import pytest

from corollary.optimization import rates

RNG = np.random.default_rng(2)


def test_adagrad_rates():
    a = RNG.exponential(size=30)
    assert float(rates.adagrad.harmonic(a.sum(), a[0])) == pytest.approx(1 + np.log(a.sum() / a[0]))
    assert float(rates.adagrad.harmonic_offset(3.0, 1.0)) == pytest.approx(2.0)
    bound = float(rates.adagrad.norm(2.0, 3.0, 1.0, 9.0, 5))
    assert bound == pytest.approx(3 / 5 * (3 + 1 + np.log(9.0)))
    # the a priori constant solves its equation, for scales far apart
    for beta, gap, first in ((1.0, 2.0, 0.5), (1e-3, 5.0, 1e-4), (1e3, 1e-1, 10.0)):
        s = np.sqrt(float(rates.adagrad.norm_in_advance(beta, gap, first, 1)))
        assert s == pytest.approx(gap + beta / 2 * (1 + 2 * np.log(s / np.sqrt(first))), rel=1e-9)
        assert s >= beta
    totals = np.array([3.0, 0.0])
    assert float(rates.adagrad.diagonal_weighted(2.0, 1.0, 1.0, totals)) == pytest.approx(1 + 2.0)
    expected = (1 + 2 * np.log2(4)) * (2 + 1) / 3
    assert float(rates.adagrad.diagonal(2.0, 1.0, 1.0, totals, 3)) == pytest.approx(expected)
