"""Networks for claims, drawn in one go: the program of twenty initialisations takes longer to compile than to run."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


def drawn(make, key, *, gain: float = 1.0):
    """What `make(key)` builds, every array drawn anew: Gaussian, of variance `gain` squared over its last axis."""
    made = eqx.filter_eval_shape(make, key)
    leaves, tree = jax.tree.flatten(made, is_leaf=_array)
    sizes = [int(np.prod(leaf.shape)) for leaf in leaves if _array(leaf)]
    numbers = iter(jnp.split(jax.random.normal(key, (sum(sizes),)), np.cumsum(sizes)[:-1]))
    return jax.tree.unflatten(tree, [_fill(leaf, numbers, gain) if _array(leaf) else leaf for leaf in leaves])


def _fill(leaf, numbers, gain):
    return next(numbers).reshape(leaf.shape) * gain / max(leaf.shape[-1] if leaf.ndim > 1 else 1, 1) ** 0.5


def _array(leaf) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)
