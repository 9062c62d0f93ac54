"""Random networks for claims, all of their arrays from one draw.

A network has a dozen arrays, and to compile a dozen draws takes longer than all the rest of a small claim.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


def drawn(make, key, *, gain: float = 1.0, std: float | None = None):
    """What `make(key)` builds, with every floating-point array drawn anew: normal, centred and independent.

    The standard deviation is `gain` over the root of an array's last axis (`gain` for a number), or `std` for all of
    them. Integers and static parts are as built.
    """
    shapes, rest = eqx.partition(eqx.filter_eval_shape(make, key), _floating)
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(rest)):
        # there are other arrays, so it has to be built; compiled, what is not needed of it goes again
        rest = eqx.filter(make(key), _floating, inverse=True)
    if std is None:
        return eqx.combine(_normal(shapes, key, lambda shape: gain / math.sqrt(shape[-1] if shape else 1)), rest)
    return eqx.combine(_normal(shapes, key, lambda shape: std), rest)


def randomise(tree, key, scale: float = 1.0):
    """The same for a tree that is there already: its floating-point arrays normal with the deviation `scale`."""
    arrays, rest = eqx.partition(tree, _floating)
    return eqx.combine(_normal(arrays, key, lambda shape: scale), rest)


def _normal(tree, key, deviation):
    """Arrays of the shapes and types of those of `tree`, cut from one draw; `deviation` is a function of a shape."""
    leaves, form = jax.tree.flatten(tree)
    sizes = [math.prod(leaf.shape) for leaf in leaves]
    numbers = jax.random.normal(key, (sum(sizes),), jnp.result_type(*leaves))
    parts = jnp.split(numbers, np.cumsum(sizes)[:-1])
    return jax.tree.unflatten(
        form,
        [
            (deviation(leaf.shape) * part).reshape(leaf.shape).astype(leaf.dtype)
            for part, leaf in zip(parts, leaves, strict=True)
        ],
    )


def _floating(leaf) -> bool:
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and jnp.issubdtype(leaf.dtype, jnp.floating)
