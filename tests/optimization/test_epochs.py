"""The variance of reshuffled epochs against enumeration of all permutations, and its limits."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.optimization import epoch_variance


@pytest.mark.parametrize("step", [0.05, 0.7, 1.0, 1.6])
def test_against_all_orders(step):
    a = np.array([0.3, -1.2, 2.0, 0.4, -0.7])
    n, q = len(a), 1 - step
    a = a - a.mean()

    def stationary(orders):
        """Variance v = q^2n v + var of the sum over one epoch."""
        sums = step * (np.array([q ** (n - 1 - j) for j in range(n)]) * a[orders]).sum(1)
        return sums.var() / (1 - q ** (2 * n))

    permutations = np.array(list(itertools.permutations(range(n))))
    tuples = np.array(list(itertools.product(range(n), repeat=n)))
    np.testing.assert_allclose(epoch_variance(step, n, variance=a.var()), stationary(permutations), rtol=1e-10)
    np.testing.assert_allclose(epoch_variance(step, n, "with", variance=a.var()), stationary(tuples), rtol=1e-10)


def test_short_steps_and_arrays():
    step = np.array([1e-5, 2e-5])
    np.testing.assert_allclose(epoch_variance(step, 7), 7 * 8 / 24 * step**3, rtol=1e-3)
    each = jax.vmap(lambda s: epoch_variance(s, 7))(jnp.asarray(step))
    np.testing.assert_allclose(each, epoch_variance(step, 7), rtol=1e-12)


def test_bad_input():
    with pytest.raises(ValueError, match=r"step must be in \(0, 2\)"):
        epoch_variance(2.0, 5)
    with pytest.raises(ValueError, match="n must be at least 2"):
        epoch_variance(0.1, 1)
    with pytest.raises(ValueError, match="sampling must be one of"):
        epoch_variance(0.1, 5, "without")
    with pytest.raises(ValueError, match="variance must be positive"):
        epoch_variance(0.1, 5, variance=0.0)
