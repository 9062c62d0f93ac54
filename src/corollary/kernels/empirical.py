r"""Empirical tangent kernels: inner products of a network's gradients at two inputs, for any network.

$\hat\Theta(x,x')=\nabla_\theta f(x)^\top\nabla_\theta f(x')$. The Jacobian has as many entries as there are examples
times outputs times parameters, and is not made where the program lets us do without: see `_uses` and `_contraction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, PyTree

from corollary._types import NetworkLike
from corollary._validate import concrete, whole
from corollary.catalog import implements
from corollary.kernels._blocks import kernel_matrix
from corollary.kernels._pairs import Pairs, pairs, switch
from corollary.kernels._tangents import plan
from corollary.network.batches import count


@implements("B07.16", "E09.02", "T09.04")
def empirical_ntk(
    network: NetworkLike,
    x1: PyTree,
    x2: PyTree | None = None,
    *,
    trace: bool = True,
    batch_size: int | None = None,
    devices: Sequence[Any] | None = None,
    trainable: Any = None,
) -> Float[Array, "n1 n2"] | Float[Array, "n1 n2 k k"]:
    r"""$\hat\Theta_{ij}=\sum_k\langle\partial_\theta f_k(x_i),\partial_\theta f_k(x'_j)\rangle$, exactly.

    `network(x)` takes one example and returns an array of any shape; `x1` and `x2` hold the examples in their first
    axis. Derivatives are taken by the network's parameters, or by those that `trainable` selects. `x2` None stands for
    `x1`. The result is (n1, n2), or, with `trace=False`, (n1, n2, k, k) for all pairs of outputs.

    The matrix is computed in blocks of `batch_size` examples (chosen to need an eighth of the device's memory
    beside the result) and, outside `jit`, its rows are distributed over `devices` (default: all
    local ones). The first call for given shapes compiles; networks that differ in their numbers alone share it.

    >>> empirical_ntk(network, x).shape
    (4, 4)
    """
    given, trace = pairs(network, x1, x2, trainable), switch("trace", trace)
    batch_size = None if batch_size is None else whole("batch_size", batch_size)
    if not all(map(concrete, jax.tree.leaves(eqx.filter(given, eqx.is_array)))):
        return _kernel(given, trace, batch_size)
    devices = jax.local_devices() if devices is None else list(devices)
    if len(devices) > 1 and count(given.x1) >= len(devices):
        return _spread(given, trace, batch_size, tuple(devices))
    return _compiled(given, trace, batch_size)


def _kernel(given: Pairs, trace, batch_size):
    leaves, tree = jax.tree.flatten(given.params)
    inputs, inner = jax.tree.flatten(given.x1)

    def one(leaves, inputs):
        return eqx.combine(tree.unflatten(leaves), given.fixed)(inner.unflatten(inputs))

    others = None if given.x2 is None else jax.tree.leaves(given.x2)
    shapes = [jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in inputs]
    n1, n2 = inputs[0].shape[0], None if others is None else others[0].shape[0]
    tangents = plan(one, leaves, shapes, list(range(len(leaves))), n1, n2, trace)
    found = kernel_matrix(tangents, leaves, inputs, others, batch_size)
    out = tangents.program.avals[tangents.program.output].dtype
    return found.astype(jnp.result_type(out, *(a.dtype for a in leaves)))


_compiled = eqx.filter_jit(_kernel)


@eqx.filter_jit
def _spread(given: Pairs, trace, batch_size, devices):
    """Rows of the matrix on their devices; columns are whole everywhere."""
    mesh = Mesh(np.array(devices), ("rows",))
    rows, everywhere = PartitionSpec("rows"), PartitionSpec()
    n = count(given.x1)
    extra = -n % len(devices)
    right = given.x1 if given.x2 is None else given.x2
    # repeat the first examples to fill the last device up; their rows are cut off again
    left = jax.tree.map(lambda a: jnp.concatenate([a, a[:extra]]) if extra else a, given.x1)
    arrays, static = eqx.partition((given.params, given.fixed), eqx.is_array)

    def some_rows(arrays, left, right):
        return _kernel(Pairs(*eqx.combine(arrays, static), left, right), trace, batch_size)

    share = jax.shard_map(
        some_rows, mesh=mesh, in_specs=(everywhere, rows, everywhere), out_specs=rows, check_vma=False
    )
    return share(arrays, left, right)[:n]
