"""A network whose weights are mixed up: what an explanation says of it as well, it does not say of what was learned."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from corollary._types import NetworkLike
from corollary.network.parts import split


def mixed_up(network: NetworkLike, *, key: PRNGKeyArray, trainable: Any = None) -> NetworkLike:
    """The network with the numbers in each of its arrays exchanged at random: same sizes, same laws, nothing learned.

    Entries are exchanged by their ranks, so that an array and its transpose are mixed up alike, and arrays of one size
    by the same exchange. `trainable` selects the arrays, all real floating-point ones unless given.

    >>> mixed_up(network, key=key)(x[0]).shape
    (1,)
    """
    params, fixed = split(network, trainable)
    return eqx.combine(_mixed(params, key), fixed)


@eqx.filter_jit
def _mixed(params, key):
    def mixed(array):
        flat = array.ravel()
        order = jnp.argsort(flat)
        exchange = jax.random.permutation(jax.random.fold_in(key, array.size), array.size)
        return flat.at[order].set(flat[order][exchange]).reshape(array.shape)

    return jax.tree.map(mixed, params)
