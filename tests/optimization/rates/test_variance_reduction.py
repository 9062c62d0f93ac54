"""Rates of control variates: values by hand, and what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

from corollary.optimization.rates import variance_reduction


def test_values_by_hand():
    np.testing.assert_allclose(variance_reduction.svrg_factor(1.0, 0.1, step=0.1, inner=500), 0.5)
    np.testing.assert_allclose(variance_reduction.sag(1.0, 0.5, 2, 1.0, 1.0, 16.0, 1), (1 - 1 / 32) * 4)


def test_the_factor_falls_with_longer_epochs_to_that_of_the_step():
    inner = 10.0 ** jnp.arange(1, 7)
    factors = variance_reduction.svrg_factor(2.0, 0.1, step=0.05, inner=inner)
    # the difference loses at most six of sixteen digits
    np.testing.assert_allclose(factors - 0.2 / 0.8, 1 / (0.1 * 0.05 * 0.8 * inner), rtol=1e-9)


def test_sag_is_geometric_at_the_slower_of_two_rates():
    few, many = (variance_reduction.sag(1.0, 0.5, n, 1.0, 0.0, 0.0, jnp.array([3, 4])) for n in (2, 100))
    np.testing.assert_allclose([few[1] / few[0], many[1] / many[0]], [1 - 1 / 32, 1 - 1 / 800], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: variance_reduction.svrg_factor(1.0, 0.1, step=0.5, inner=10), "step times 2L must be"),
        (lambda: variance_reduction.sag(1.0, 0.5, 2, 1.0, 1.0, -1.0, 1), "noise must be zero or more"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
