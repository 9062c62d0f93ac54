r"""AdaMax: Adam with the largest of the decayed gradients in place of the root of their mean square."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import one_of
from corollary.catalog import implements
from corollary.optimization._arguments import decay_of, offset_of, step_of


@implements("M18.36")
def adamax(
    step: Scalar | Callable = 1e-3,
    *,
    delta1: Scalar = 0.9,
    delta2: Scalar = 0.999,
    eps: Scalar = 0.0,
    mode: str = "componentwise",
) -> optax.GradientTransformation:
    r"""$u_{k+1}=\max\{\delta_2u_k,|g_k|+\epsilon\}$, a step of $-\frac\eta{1-\delta_1^{k+1}}\frac{m_{k+1}}{u_{k+1}}$
    with Adam's $m$.

    `mode` is "componentwise" (Kingma and Ba; then this is `optax.adamax`) or "global", where $|g_k|$ is the one
    number $\|g_k\|_\infty$ (M). With `eps` zero a coordinate that has only seen zeros stays where it is.
    """
    step, eps = step_of(step), offset_of("eps", eps)
    delta1, delta2 = decay_of("delta1", delta1), decay_of("delta2", delta2)
    one_of("mode", mode, ("componentwise", "global"))

    def init(params):
        zeros = jax.tree.map(jnp.zeros_like, params)
        return Largest(jnp.zeros((), jnp.int32), zeros, zeros)

    def update(updates, state, params=None):
        count = state.count + 1
        first = jax.tree.map(lambda m, g: (delta1 * m + (1 - delta1) * g).astype(g.dtype), state.first, updates)
        top = jnp.stack([jnp.abs(g).max() for g in jax.tree.leaves(updates)]).max()
        size = jax.tree.map(lambda g: jnp.abs(g) if mode == "componentwise" else jnp.full_like(g, top), updates)
        largest = jax.tree.map(lambda u, s: jnp.maximum(delta2 * u, s + eps).astype(s.dtype), state.largest, size)
        share = 1 - delta1**count
        steps = jax.tree.map(
            lambda m, u: jnp.where(u > 0, m / (share * jnp.where(u > 0, u, 1)), 0).astype(m.dtype), first, largest
        )
        return steps, Largest(count, first, largest)

    return optax.chain(optax.GradientTransformation(init, update), optax.scale_by_learning_rate(step))


class Largest(NamedTuple):
    """The number of steps, the moving average of the gradients, and their largest decayed size."""

    count: jax.Array
    first: optax.Params
    largest: optax.Params

    __repr__ = shown
