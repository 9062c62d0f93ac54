"""Parameters drawn at once."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree


def randomise(tree, key, scale: float = 1.0):
    """All floating-point arrays of `tree`, normal with this standard deviation and independent: one draw for all.

    A network has a dozen arrays, and to compile a dozen draws takes longer than all the rest of a small claim.
    """
    arrays, static = eqx.partition(tree, eqx.is_inexact_array)
    flat, unravel = ravel_pytree(jax.tree.map(jnp.zeros_like, arrays))
    return eqx.combine(unravel(scale * jax.random.normal(key, flat.shape, flat.dtype)), static)
