"""Data in batches, and functions of batches summed or laid end to end over a data set."""

from collections.abc import Callable
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
    """Full batches stacked `(count, batch_size, ...)`, and the remaining examples; either may be None."""

    batches: Any
    rest: Any


def examples(name: str, data):
    """`data` as a pytree of arrays with the examples along one common first axis; numbers that are real and finite."""

    def leaf(path, value):
        where = name + jax.tree_util.keystr(path)
        try:
            value = jnp.asarray(value)
        except (TypeError, ValueError):
            raise TypeError(f"{where} must be an array of numbers, got {type(value).__name__}.") from None
        if jnp.issubdtype(value.dtype, jnp.complexfloating) or jnp.issubdtype(value.dtype, np.floating):
            return real(where, value)
        return value

    data = jax.tree_util.tree_map_with_path(leaf, data)
    shapes = [a.shape for a in jax.tree.leaves(data)]
    if not shapes:
        raise ValueError(f"{name} must hold at least one array.")
    if () in shapes or len({s[0] for s in shapes}) > 1:
        raise ValueError(
            f"{name} must hold arrays with the examples along one common first axis, got shapes "
            f"{', '.join(map(str, shapes))}."
        )
    if any(0 in s for s in shapes):
        raise ValueError(f"{name} must not be empty, got shapes {', '.join(map(str, shapes))}.")
    return data


def pair(name: str, data) -> tuple:
    """`data` as a pair `(x, y)` of inputs and targets with as many examples each."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise TypeError(f"{name} must be a pair (x, y) of inputs and targets, got {type(data).__name__}.")
    return examples(name, tuple(map(_listed, data)))


def _listed(value):
    """A list of numbers, or of lists of them, as the array that it stands for; other pytrees as they are."""
    numbers = all(isinstance(leaf, int | float) for leaf in jax.tree.leaves(value))
    return np.asarray(value) if isinstance(value, list) and numbers else value


def count(data) -> int:
    """The number of examples."""
    return jax.tree.leaves(data)[0].shape[0]


def arrange(data, batch_size: int) -> Batches:
    """Checked `data` in batches; what fits in one batch alone is all `rest`.

    With several devices the examples of each batch are spread over them, when their number allows; the parameters are
    on every device, and XLA adds the partial sums.
    """
    batch_size, n = whole("batch_size", batch_size), count(data)
    full = n // batch_size if n > batch_size else 0
    head = full * batch_size
    stacked = jax.tree.map(lambda a: a[:head].reshape(full, batch_size, *a.shape[1:]), data) if full else None
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


def fold(function: Callable, arguments: tuple, parts: Batches, merge: Callable):
    """`merge` over the batches of the compiled `function(*arguments, batch)`; zeros must be neutral for it.

    Outside a trace one call per batch: the program of a batch is compiled, not one for every number of batches.
    """
    function = partial(function, *arguments)
    total = None if parts.rest is None else function(parts.rest)
    if parts.batches is None:
        return total
    if all(map(concrete, jax.tree.leaves((arguments, parts)))):
        for i in range(count(parts.batches)):
            one = function(jax.tree.map(lambda a, i=i: a[i], parts.batches))
            total = one if total is None else merge(total, one)
        return total
    first = jax.tree.map(lambda a: a[0], parts.batches)
    zero = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), eqx.filter_eval_shape(function, first))
    ready = cpu_ready(function)
    scanned = lax.scan(lambda total, batch: (merge(total, ready(batch)), None), zero, parts.batches)[0]
    return scanned if total is None else merge(scanned, total)


def each(function: Callable, data, batch_size: int):
    """A function of batches with a value for each example, on `batch_size` examples at a time, in one program."""
    parts, n = arrange(data, batch_size), count(data)
    rest = None if parts.rest is None else function(parts.rest)
    if parts.batches is None:
        return rest
    head = n - (0 if parts.rest is None else count(parts.rest))
    out = jax.tree.map(lambda a: a.reshape(head, *a.shape[2:]), lax.map(cpu_ready(function), parts.batches))
    return out if rest is None else jax.tree.map(lambda *a: jnp.concatenate(a), out, rest)


def first_examples(parts: Batches, few: int = 8):
    """The first few examples."""
    some = parts.rest if parts.batches is None else jax.tree.map(lambda a: a[0], parts.batches)
    return jax.tree.map(lambda a: a[:few], some)
