"""Random networks for claims, drawn cheaply."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp


def drawn(key, make):
    r"""The pytree that `make(key)` would build, its arrays normal with variance one over their last axis.

    One draw for all of them: a program that draws a dozen arrays is compiled for longer than it runs.
    """
    shapes, static = eqx.partition(
        eqx.filter_eval_shape(make, key), lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct)
    )
    leaves, form = jax.tree.flatten(shapes)
    sizes = [math.prod(leaf.shape) for leaf in leaves]
    numbers = jnp.split(jax.random.normal(key, (sum(sizes),)), [sum(sizes[:i]) for i in range(1, len(sizes))])
    arrays = [
        part.reshape(leaf.shape) / math.sqrt(leaf.shape[-1] if leaf.shape else 1)
        for part, leaf in zip(numbers, leaves, strict=True)
    ]
    return eqx.combine(jax.tree.unflatten(form, arrays), static)
