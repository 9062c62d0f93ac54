"""Two samples against each other, as SciPy has it where SciPy has something."""

import warnings

import numpy as np
import pytest
from scipy import stats

from corollary.audit._sample import welch


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_welch_is_that_of_scipy(alternative):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=30), 2 * rng.normal(size=9) + 0.5
    expected = stats.ttest_ind(x, y, equal_var=False, alternative=alternative).pvalue
    np.testing.assert_allclose(welch(x, y, alternative), expected, rtol=1e-12)


def test_samples_that_do_not_vary():
    same, other = np.ones(5), np.zeros(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert welch(same, np.ones(3)) == 1
        assert (welch(same, other), welch(same, other, "greater"), welch(same, other, "less")) == (0, 0, 1)
        assert welch(same, [1.0]) == 1
        assert 0 < welch(same, [0.0, 1.0, 1.0, 0.0]) < 1
