r"""Backpropagation for a stack of blocks of any kind, $h^\ell=F^\ell[\theta^\ell](h^{\ell-1})$."""

import jax
import jax.numpy as jnp
import pytest

from corollary.autodiff import block_backprop, dense_block


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_blocks_jit_and_shapes():
    params = [(jnp.ones((3, 2)), jnp.zeros(3)), (jnp.ones((1, 3)), jnp.zeros(1))]
    run = jax.jit(
        lambda p: block_backprop([dense_block(), dense_block("linear")], p, jnp.ones(2), jnp.ones_like).params
    )
    shapes = jax.tree.map(jnp.shape, run(params))
    assert shapes == (((3, 2), (3,)), ((1, 3), (1,)))
