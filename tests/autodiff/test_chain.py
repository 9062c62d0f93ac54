"""A chain of functions and the two orders in which its derivatives can be multiplied."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.autodiff import ChainModel, chain_cost, forward_mode, multiplications, reverse_mode


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_chain_modes_and_their_cost(depth):
    chain, x, slope = ChainModel(depth, 3, 2, key=jax.random.key(0)), jnp.array([0.5, -1.0]), jnp.ones((2, 3))
    expected = eqx.filter_jit(jax.jacobian(lambda c: slope @ c(x)))(chain)
    for mode, run in (("reverse", reverse_mode), ("forward", forward_mode)):
        ours = eqx.filter_jit(run)(chain, x, slope)
        np.testing.assert_allclose(ours.hidden, expected.hidden, atol=1e-14)
        np.testing.assert_allclose(ours.inputs, expected.inputs, atol=1e-14)
        both = multiplications(lambda c, run=run: run(c, x, slope), chain)
        alone = multiplications(lambda c: c.states(x), chain)
        assert both - alone == chain_cost(depth, 3, 2, 2, mode)
