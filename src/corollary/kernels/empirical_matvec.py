r"""Products with an empirical tangent kernel too large to hold: $\hat\Theta v=J(J^\top v)$, batch after batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import PyTree

from corollary._engine.program import only_reverse
from corollary._types import NetworkLike
from corollary._validate import concrete, whole
from corollary.catalog import implements
from corollary.kernels._pairs import Pairs, pairs, switch
from corollary.network.batches import arrange, count, each, fold


@implements("B07.16", "T09.04")
def empirical_ntk_matvec(
    network: NetworkLike,
    x1: PyTree,
    x2: PyTree | None = None,
    *,
    trace: bool = True,
    batch_size: int = 256,
    trainable: Any = None,
) -> Callable:
    r"""The map $v\mapsto\hat\Theta v$ of the same matrix, without the matrix: one pass back and one forward.

    $v$ has a number for each example of `x2` (of `x1` where that is None), or, with `trace=False`, the shape of the
    outputs for them; so has the result, for `x1`. `trace=True` costs as many passes as there are outputs. Memory is
    that of one batch of examples and two sets of parameters.

    >>> product = empirical_ntk_matvec(network, x)
    >>> product(jnp.ones(4)).shape
    (4,)
    """
    given, trace, batch_size = (
        pairs(network, x1, x2, trainable),
        switch("trace", trace),
        whole("batch_size", batch_size),
    )
    outputs = given.outputs(given.x1 if x2 is None else given.x2).shape
    wanted = outputs[:1] if trace else outputs
    known = all(map(concrete, jax.tree.leaves(eqx.filter(given, eqx.is_array))))
    product = _compiled if known else _product

    def matvec(v):
        v = jnp.asarray(v)
        if v.shape != wanted:
            raise ValueError(f"v must have shape {wanted}, got {v.shape}.")
        if concrete(v) and not np.isfinite(np.asarray(v, float)).all():
            raise ValueError("v must be finite.")
        return product(given, trace, batch_size, v)

    return matvec


def _product(given: Pairs, trace, batch_size, v):
    outputs = given.outputs(given.x1 if given.x2 is None else given.x2)
    v = v.astype(outputs.dtype)

    def whole_outputs(v):
        return _push_forward(given, batch_size, _pull_back(given, batch_size, v))

    if not trace:
        return whole_outputs(v)
    k = int(np.prod(outputs.shape[1:]))

    def one(total, output):
        at = jax.nn.one_hot(output, k, dtype=v.dtype).reshape(outputs.shape[1:])
        moved = whole_outputs(v.reshape(-1, *(1,) * at.ndim) * at)
        return total + jnp.tensordot(moved, at, at.ndim), None

    return lax.scan(one, jnp.zeros(count(given.x1), v.dtype), jnp.arange(k))[0]


_compiled = eqx.filter_jit(_product)


def _pull_back(given: Pairs, batch_size, v):
    r"""$\sum_jv_j\cdot\partial_\theta f(x_j)$, batch after batch."""

    def one(params, batch):
        x, v = batch
        _, pull = jax.vjp(lambda p: jax.vmap(eqx.combine(p, given.fixed))(x), params)
        return pull(v)[0]

    parts = arrange((given.x1 if given.x2 is None else given.x2, v), batch_size)
    return fold(one, (given.params,), parts, lambda a, b: jax.tree.map(jnp.add, a, b))


def _push_forward(given: Pairs, batch_size, tangent):
    r"""$\partial_\theta f(x_i)\cdot t$ for every example, batch after batch."""

    def some(x):
        return _directional(lambda p: jax.vmap(eqx.combine(p, given.fixed))(x), given.params, tangent)

    return each(some, given.x1, batch_size)


def _directional(function, point, tangent):
    if not only_reverse(function, point):
        return jax.jvp(function, (point,), (tangent,))[1]
    # the transpose of the transpose
    out, pull = jax.vjp(function, point)
    return jax.linear_transpose(lambda v: pull(v)[0], out)(tangent)[0]
