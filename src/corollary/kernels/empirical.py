r"""Empirical tangent kernels: inner products of a network's gradients at two inputs, for any network.

$\hat\Theta(x,x')=\nabla_\theta f(x)^\top\nabla_\theta f(x')$. The Jacobian has as many entries as there are examples
times outputs times parameters, and is not made where the program lets us do without: see `_uses` and `_contraction`.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from corollary._validate import concrete, whole
from corollary.catalog import implements
from corollary.kernels._blocks import kernel_matrix
from corollary.kernels._network import arguments, compiled, inspect, length, switch
from corollary.kernels._tangents import plan


@implements("B07.16", "E09.02", "T09.04")
def empirical_ntk(apply, params, x1, x2=None, trace=True, *, batch: int | None = None, devices=None):
    r"""$\hat\Theta_{ij}=\sum_k\langle\partial_\theta f_k(x_i),\partial_\theta f_k(x'_j)\rangle$, exactly.

    `apply(params, x)` is the network on a batch: any JAX function of a pytree of parameters and of inputs with the
    examples in their first axis, whose outputs are (n,), (n, k) or (n, ...). Derivatives are taken by the
    floating-point leaves of `params`; what is not trained, such as stored statistics, has to come in some other way.
    `x2` None stands for `x1`. The result is (n1, n2), or, with `trace=False`, (n1, n2, k, k) for all pairs of outputs.

    Examples must not influence each other: batch normalisation has to use stored statistics. Where the values are known
    (outside of `jit`) this is tried out on a few examples and refused otherwise.

    The matrix is computed in blocks of `batch` examples (chosen to need about 1 GiB, or an eighth of an accelerator's
    memory, beside the result) and, outside of `jit`, its rows are distributed over `devices` (default: all local ones).
    The first call for a given `apply` and given shapes compiles; hand over the same function to use it again.
    """
    params, x1, x2 = arguments(apply, params, x1, x2)
    batch = None if batch is None else whole("batch", batch)
    trace = switch("trace", trace)
    if not all(map(concrete, jax.tree.leaves((params, x1, x2)))):
        return _kernel(apply, trace, batch, params, x1, x2)
    inspect(apply, params, x1, x2)
    devices = jax.local_devices() if devices is None else list(devices)
    spread = len(devices) > 1 and length(x1) >= len(devices)
    compute = (_spread, tuple(devices)) if spread else (_kernel,)
    return compiled(*compute, apply, trace, batch)(params, x1, x2)


def _kernel(apply, trace, batch, params, x1, x2):
    leaves, tree = jax.tree.flatten(params)
    inputs, inner = jax.tree.flatten(x1)

    def one(leaves, inputs):
        x = inner.unflatten([a[None] for a in inputs])
        return apply(tree.unflatten(leaves), x)[0]

    differentiable = [i for i, a in enumerate(leaves) if jnp.issubdtype(a.dtype, jnp.floating)]
    others = None if x2 is None else jax.tree.leaves(x2)
    shapes = [jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in inputs]
    n1, n2 = inputs[0].shape[0], None if x2 is None else others[0].shape[0]
    tangents = plan(one, leaves, shapes, differentiable, n1, n2, trace)
    found = kernel_matrix(tangents, leaves, inputs, others, batch)
    out = tangents.program.avals[tangents.program.output].dtype
    return found.astype(jnp.result_type(out, *(leaves[i].dtype for i in differentiable)))


def _spread(devices, apply, trace, batch, params, x1, x2):
    """Rows of the matrix on their devices; columns are whole everywhere."""
    mesh = Mesh(np.array(devices), ("rows",))
    rows, everywhere = PartitionSpec("rows"), PartitionSpec()
    n = length(x1)
    extra = -n % len(devices)
    right = x1 if x2 is None else x2
    # repeat the first examples to fill the last device up; their rows are cut off again
    left = jax.tree.map(lambda a: jnp.concatenate([a, a[:extra]]) if extra else a, x1)
    share = jax.shard_map(
        partial(_kernel, apply, trace, batch),
        mesh=mesh,
        in_specs=(everywhere, rows, everywhere),
        out_specs=rows,
        check_vma=False,
    )
    return share(params, left, right)[:n]
