import numpy as np
import pytest
from scipy import stats

from corollary.foundations import wilson_interval


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (3, 10), (10, 10), (500, 1000)])
def test_wilson_against_scipy(successes, trials):
    expected = stats.binomtest(successes, trials).proportion_ci(0.9, method="wilson")
    np.testing.assert_allclose(wilson_interval(successes, trials, 0.9), expected, rtol=1e-9, atol=1e-12)
