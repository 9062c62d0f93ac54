"""Functions of batches summed over a data set, and what that rests on: every example has a loss of its own."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from corollary._validate import concrete


def fold(function, arguments, parts, merge):
    """`merge` over the batches of the compiled `function(*arguments, batch)`; zeros must be neutral for it.

    Outside of a trace one call a batch: XLA on a processor runs convolutions in a compiled loop many times slower.
    """
    function = partial(function, *arguments)
    total = None if parts.rest is None else function(parts.rest)
    if parts.batches is None:
        return total
    if all(map(concrete, jax.tree.leaves((arguments, parts)))):
        for i in range(jax.tree.leaves(parts.batches)[0].shape[0]):
            one = function(jax.tree.map(lambda a, i=i: a[i], parts.batches))
            total = one if total is None else merge(total, one)
        return total
    first = jax.tree.map(lambda a: a[0], parts.batches)
    zero = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), eqx.filter_eval_shape(function, first))
    scanned = lax.scan(lambda total, batch: (merge(total, function(batch)), None), zero, parts.batches)[0]
    return scanned if total is None else merge(scanned, total)


def first_examples(parts, count: int = 8):
    some = parts.rest if parts.batches is None else jax.tree.map(lambda a: a[0], parts.batches)
    return jax.tree.map(lambda a: a[:count], some)


def require_mean(loss, params, few):
    """Refuse a `loss(params, batch)` that is not finite, no real scalar, or not the mean of its examples' losses."""
    value = eqx.filter_eval_shape(loss, params, few)
    if getattr(value, "shape", None) != () or not jnp.issubdtype(value.dtype, np.floating):
        raise ValueError(f"loss must return a real scalar, the mean over the batch, got {value}.")
    if not all(map(concrete, jax.tree.leaves((params, few)))):
        return
    together, apart = map(np.asarray, _together_and_apart(loss, params, few))
    if not np.isfinite(together):
        raise ValueError(f"loss must be finite at params, got {together}.")
    # sums of the same terms in another order, of outputs from products of another shape: half of the digits is plenty
    if np.abs(together - apart.mean()) > np.finfo(value.dtype).eps ** 0.5 * np.abs(apart).max():
        raise ValueError(
            "loss must be the mean of its examples' losses: either it is a sum, or examples see each other through "
            "batch statistics, which have to be frozen (inference mode)."
        )


def alone(loss, params, example):
    """The loss of one example, as that of a batch of one."""
    return loss(params, jax.tree.map(lambda a: a[None], example))


@eqx.filter_jit
def _together_and_apart(loss, params, few):
    return loss(params, few), jax.vmap(partial(alone, loss, params))(few)
