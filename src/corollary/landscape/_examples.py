"""Functions of batches summed over a data set, and what that rests on: every example has a loss of its own."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from corollary._engine.cpu_ready import cpu_ready
from corollary._validate import concrete, real, whole


class Batches(NamedTuple):
    batches: Any
    rest: Any


def split_params(params):
    """The floating-point leaves, checked, and the rest."""
    params, fixed = eqx.partition(params, varies)
    if not jax.tree.leaves(params):
        raise ValueError("params must have at least one floating-point array.")
    checked = jax.tree_util.tree_map_with_path(
        lambda path, leaf: real("params" + jax.tree_util.keystr(path), leaf), params
    )
    return checked, fixed


def arrange(data, batch_size) -> Batches:
    """Full batches stacked `(count, batch_size, ...)` and the remaining examples; one batch alone is all `rest`.

    With several devices the examples of each batch are spread over them, when their number allows; the parameters are
    on every device, and XLA adds the partial sums.
    """
    batch_size = whole("batch_size", batch_size)
    if data is None:
        return Batches(None, None)
    data = jax.tree_util.tree_map_with_path(_example_array, data)
    lengths = {leaf.shape[0] if leaf.ndim else 0 for leaf in jax.tree.leaves(data)}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            f"the arrays of data must have one common, positive number of examples, got {sorted(lengths)}."
        )
    n = lengths.pop()
    count = n // batch_size if n > batch_size else 0
    head = count * batch_size
    stacked = jax.tree.map(lambda a: a[:head].reshape(count, batch_size, *a.shape[1:]), data) if count else None
    rest = jax.tree.map(lambda a: a[head:], data) if head < n else None
    if not all(map(concrete, jax.tree.leaves(data))) or jax.device_count() == 1:
        return Batches(stacked, rest)
    mesh = Mesh(np.array(jax.devices()), ("data",))

    def spread(a, axis):
        even = a.shape[axis] % mesh.size == 0
        return jax.device_put(
            a, NamedSharding(mesh, PartitionSpec(*[None] * axis, "data") if even else PartitionSpec())
        )

    return Batches(jax.tree.map(lambda a: spread(a, 1), stacked), jax.tree.map(lambda a: spread(a, 0), rest))


def _example_array(path, leaf):
    leaf = jnp.asarray(leaf)
    return real("data" + jax.tree_util.keystr(path), leaf) if jnp.issubdtype(leaf.dtype, np.floating) else leaf


def varies(leaf) -> bool:
    """Whether a leaf of the parameters is a floating-point array."""
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, np.inexact)


def fold(function, arguments, parts, merge):
    """`merge` over the batches of the compiled `function(*arguments, batch)`; zeros must be neutral for it.

    Outside of a trace one call a batch: the program of a batch is compiled, not one for every number of batches.
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
    ready = cpu_ready(function)
    scanned = lax.scan(lambda total, batch: (merge(total, ready(batch)), None), zero, parts.batches)[0]
    return scanned if total is None else merge(scanned, total)


def first_examples(parts, count: int = 8):
    some = parts.rest if parts.batches is None else jax.tree.map(lambda a: a[0], parts.batches)
    return jax.tree.map(lambda a: a[:count], some)


def require_mean(loss, params, few, *, apart: bool = True):
    """Refuse a `loss(params, batch)` that is not finite, no real scalar, or not the mean of its examples' losses.

    The last is measured on a few examples; not if `apart` is false.
    """
    value = eqx.filter_eval_shape(loss, params, few)
    if getattr(value, "shape", None) != () or not jnp.issubdtype(value.dtype, np.floating):
        raise ValueError(f"loss must return a real scalar, the mean over the batch, got {value}.")
    if not all(map(concrete, jax.tree.leaves((params, few)))):
        return
    together, each = map(np.asarray, _together_and_apart(loss, params, few, apart))
    if not np.isfinite(together):
        raise ValueError(f"loss must be finite at params, got {together}.")
    # sums of the same terms in another order, of outputs from products of another shape: half of the digits is plenty
    if np.abs(together - each.mean()) > np.finfo(value.dtype).eps ** 0.5 * np.abs(each).max():
        raise ValueError(
            "loss must be the mean of its examples' losses: either it is a sum, or examples see each other through "
            "batch statistics. Freeze the statistics (inference mode); curvature can also be taken with every batch's "
            "own (statistics='recomputed')."
        )


def alone(loss, params, example):
    """The loss of one example, as that of a batch of one."""
    return loss(params, jax.tree.map(lambda a: a[None], example))


@eqx.filter_jit
def _together_and_apart(loss, params, few, apart):
    together = loss(params, few)
    return together, jax.vmap(partial(alone, loss, params))(few) if apart else together
