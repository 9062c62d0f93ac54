"""The relative entropy of normal laws against quadrature, and where it is infinite."""

import jax
import numpy as np
import pytest
from scipy import integrate, stats

from corollary.generalization.gaussians import kl_gaussian


@pytest.mark.parametrize(("m", "s", "m0", "s0"), [(0.3, 0.5, 0.0, 1.0), (-1.0, 2.0, 0.5, 0.7)])
def test_one_coordinate_by_quadrature(m, s, m0, s0):
    q, p = stats.norm(m, np.sqrt(s)), stats.norm(m0, np.sqrt(s0))
    exact, _ = integrate.quad(lambda x: q.pdf(x) * (q.logpdf(x) - p.logpdf(x)), m - 12, m + 12)
    np.testing.assert_allclose(kl_gaussian([m], [s], [m0], [s0]), exact, rtol=1e-9)


def test_sums_and_ends():
    one = [kl_gaussian([a], [b], [0.0], [1.0]) for a, b in ((1.0, 0.2), (2.0, 3.0))]
    np.testing.assert_allclose(kl_gaussian([1.0, 2.0], [0.2, 3.0], [0.0, 0.0], [1.0, 1.0]), sum(one), rtol=1e-13)
    assert np.isinf(kl_gaussian([0.0], [0.0], [0.0], [1.0]))
    near = 1e-9
    np.testing.assert_allclose(kl_gaussian([0.0], [1 + near], [0.0], [1.0]), near**2 / 4, rtol=1e-6)
    # at a fixed mean the prior's own variance is the best
    assert abs(jax.grad(lambda s: kl_gaussian([1.0], [s], [0.0], [2.0]))(2.0)) < 1e-15
    with pytest.raises(ValueError, match="prior_variance must be positive"):
        kl_gaussian([0.0], [1.0], [0.0], [0.0])
