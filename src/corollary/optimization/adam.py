r"""Adam: steps along a moving average of the gradients, divided by the root of one of their squares."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from corollary._types import Scalar
from corollary.catalog import implements
from corollary.optimization._arguments import decay_of, offset_of, step_of


@implements("E03.15", "M18.34", "T02.33")
def adam(
    step: Scalar | Callable = 1e-3,
    *,
    delta1: Scalar = 0.9,
    delta2: Scalar = 0.999,
    eps: Scalar = 1e-8,
    eps_inside: bool = True,
    bias_correction: bool = True,
) -> optax.GradientTransformation:
    r"""$m_{k+1}=\delta_1m_k+(1-\delta_1)g_k$, $u_{k+1}=\delta_2u_k+(1-\delta_2)g_k^{\odot2}$, a step of
    $-\eta\,\hat m/\sqrt{\hat u+\epsilon}$.

    $\hat m=m_{k+1}/(1-\delta_1^{k+1})$ and $\hat u$ likewise; without `bias_correction` (E) they are $m$ and $u$
    themselves. M puts $\epsilon$ inside the root, where it is a floor of $\sqrt\epsilon$ under the divisor;
    `eps_inside=False` is $\sqrt{\hat u}+\epsilon$, as in E, in Kingma and Ba, and in most software. With the bias
    correction this is `optax.adam`.
    """
    step = step_of(step)
    delta1, delta2 = decay_of("delta1", delta1), decay_of("delta2", delta2)
    eps = offset_of("eps", eps)
    inside, outside = (eps, 0.0) if eps_inside else (0.0, eps)
    if bias_correction:
        return optax.adam(step, delta1, delta2, eps=outside, eps_root=inside)
    return optax.chain(_biased(delta1, delta2, inside, outside), optax.scale_by_learning_rate(step))


@implements("T02.33")
def amsgrad(
    step: Scalar | Callable, *, delta1: Scalar = 0.9, delta2: Scalar = 0.999, eps: Scalar = 1e-8
) -> optax.GradientTransformation:
    r"""Adam that divides by the root of the largest $\hat u$ so far, so that its steps never grow: `optax.amsgrad`."""
    step, eps = step_of(step), offset_of("eps", eps)
    return optax.amsgrad(step, decay_of("delta1", delta1), decay_of("delta2", delta2), eps)


class Moments(NamedTuple):
    """The moving averages of the gradients and of their squares."""

    first: optax.Params
    second: optax.Params


def _biased(delta1, delta2, inside, outside):
    def init(params):
        zeros = jax.tree.map(jnp.zeros_like, params)
        return Moments(zeros, zeros)

    def update(updates, state, params=None):
        first = jax.tree.map(lambda m, g: (delta1 * m + (1 - delta1) * g).astype(g.dtype), state.first, updates)
        second = jax.tree.map(lambda u, g: (delta2 * u + (1 - delta2) * g**2).astype(g.dtype), state.second, updates)
        steps = jax.tree.map(lambda m, u: (m / (jnp.sqrt(u + inside) + outside)).astype(m.dtype), first, second)
        return steps, Moments(first, second)

    return optax.GradientTransformation(init, update)
