r"""Products with an empirical tangent kernel too large to hold: $\hat\Theta v=J(J^\top v)$, batch after batch."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from corollary._engine.program import only_reverse
from corollary._validate import concrete, whole
from corollary.catalog import implements
from corollary.kernels._network import arguments, compiled, inspect, length, switch


@implements("B07.16", "T09.04")
def empirical_ntk_matvec(apply, params, x1, x2=None, trace=True, *, batch: int | None = None):
    r"""The map $v\mapsto\hat\Theta v$ of the same matrix, without the matrix: one pass back and one forward.

    $v$ has a number for each example of `x2` (of `x1` where that is None), or, with `trace=False`, the shape of the
    outputs of `apply`; so has the result, for `x1`. `trace=True` costs as many passes as there are outputs. Memory is
    that of one `batch` of examples (default: 256) and two sets of parameters.
    """
    params, x1, x2 = arguments(apply, params, x1, x2)
    batch = 256 if batch is None else whole("batch", batch)
    trace = switch("trace", trace)
    if known := all(map(concrete, jax.tree.leaves((params, x1, x2)))):
        inspect(apply, params, x1, x2)
    right = x1 if x2 is None else x2
    outputs = jax.eval_shape(apply, params, right).shape
    wanted = outputs[:1] if trace else outputs
    product = compiled(_product, apply, trace, batch) if known else partial(_product, apply, trace, batch)

    def matvec(v):
        v = jnp.asarray(v)
        if v.shape != wanted:
            raise ValueError(f"v must have shape {wanted}, got {v.shape}.")
        if concrete(v) and not np.isfinite(np.asarray(v, float)).all():
            raise ValueError("v must be finite.")
        return product(params, x1, x2, v)

    return matvec


def _product(apply, trace, batch, params, x1, x2, v):
    right = x1 if x2 is None else x2
    back = partial(_pull_back, apply, batch, params, right)
    ahead = partial(_push_forward, apply, batch, params, x1)
    outputs = jax.eval_shape(apply, params, right)
    v = v.astype(outputs.dtype)
    if not trace:
        return ahead(back(v))
    k = int(np.prod(outputs.shape[1:]))

    def one(total, output):
        at = jax.nn.one_hot(output, k, dtype=v.dtype).reshape(outputs.shape[1:])
        moved = ahead(back(v.reshape(-1, *(1,) * at.ndim) * at))
        return total + jnp.tensordot(moved, at, at.ndim), None

    return lax.scan(one, jnp.zeros(length(x1), v.dtype), jnp.arange(k))[0]


def _pull_back(apply, batch, params, x, v):
    r"""$\sum_jv_j\cdot\partial_\theta f(x_j)$, batch after batch; zero for leaves that are not floating-point."""
    floating, join = _floating(params)
    size, starts = _batches(x, batch)

    def one(total, start):
        part = jax.tree.map(lambda a: lax.dynamic_slice_in_dim(a, start, size), x)
        given = lax.dynamic_slice_in_dim(v, start, size)
        # the last batch is moved back to end with the examples: those that it repeats count once
        new = start + jnp.arange(size) >= -(-start // size) * size
        given = jnp.where(new.reshape(-1, *(1,) * (v.ndim - 1)), given, 0)
        _, pull = jax.vjp(lambda p: apply(join(p), part), floating)
        return jax.tree.map(jnp.add, total, pull(given)[0]), None

    return lax.scan(one, jax.tree.map(jnp.zeros_like, floating), starts)[0]


def _push_forward(apply, batch, params, x, tangent):
    r"""$\partial_\theta f(x_i)\cdot t$ for every example, batch after batch."""
    floating, join = _floating(params)
    size, starts = _batches(x, batch)
    outputs = jax.eval_shape(apply, params, x)

    def one(result, start):
        part = jax.tree.map(lambda a: lax.dynamic_slice_in_dim(a, start, size), x)
        change = _directional(lambda p: apply(join(p), part), floating, tangent)
        return lax.dynamic_update_slice_in_dim(result, change, start, 0), None

    return lax.scan(one, jnp.zeros(outputs.shape, outputs.dtype), starts)[0]


def _directional(function, point, tangent):
    if not only_reverse(function, point):
        return jax.jvp(function, (point,), (tangent,))[1]
    # the transpose of the transpose
    out, pull = jax.vjp(function, point)
    return jax.linear_transpose(lambda v: pull(v)[0], out)(tangent)[0]


def _batches(x, batch):
    n = length(x)
    size = min(batch, n)
    return size, jnp.asarray(np.minimum(np.arange(0, n, size), n - size))


def _floating(params):
    """The floating-point leaves, and the function that puts them back among the others."""
    leaves, tree = jax.tree.flatten(params)
    moving = [jnp.issubdtype(a.dtype, jnp.floating) for a in leaves]

    def join(floating):
        given = iter(floating)
        return tree.unflatten([next(given) if m else a for a, m in zip(leaves, moving, strict=True)])

    return [a for a, m in zip(leaves, moving, strict=True) if m], join
