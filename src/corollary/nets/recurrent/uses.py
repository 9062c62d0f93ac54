r"""What a recurrent network is used for: three losses of one sequence, each a mean over the steps that count.

`network` takes a sequence (T, ...) to outputs (T, ...); `loss(output, target)` is that of one step, with the squared
error of vectors as the default.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, Num

from corollary._validate import real
from corollary.catalog import implements
from corollary.nets.recurrent.unroll import sequence


def step_error(output: Float[ArrayLike, "..."], target: Float[ArrayLike, "..."]) -> Float[Array, ""]:
    r"""$\|\hat y-y\|^2$ of one step."""
    target, output = real("target", target), real("output", output, finite=False)
    if target.shape != output.shape:
        raise ValueError(f"target must have the shape of the output, {output.shape}, got {target.shape}.")
    return jnp.sum((output - target) ** 2)


@implements("E05.02", "M13.05")
def labelling_loss(
    network: Callable, xs: Float[ArrayLike, "..."], ys: Num[ArrayLike, "..."], loss: Callable = step_error
) -> Float[Array, ""]:
    r"""$\frac1T\sum_{t=1}^T\ell(\hat y_t,y_t)$: an answer to every input, such as (13.5)."""
    xs, ys = sequence(xs), sequence(ys, "ys")
    return jnp.mean(jax.vmap(loss)(network(xs), _as_long(xs, ys)))


@implements("E05.02")
def autoregression_loss(
    network: Callable,
    xs: Float[ArrayLike, "..."],
    loss: Callable = step_error,
    targets: Int[ArrayLike, "..."] | None = None,
) -> Float[Array, ""]:
    r"""$\frac1{T-1}\sum_{t=1}^{T-1}\ell(\hat y_t,x_{t+1})$: every output predicts the next input.

    `targets` are the inputs in the form that the loss takes, such as classes, where that is not `xs` itself.
    """
    xs = sequence(xs)
    targets = _as_long(xs, xs if targets is None else sequence(targets, "targets"))
    if xs.shape[0] < 2:
        raise ValueError("xs must have at least two steps: the last has no next one.")
    return jnp.mean(jax.vmap(loss)(network(xs)[:-1], targets[1:]))


@implements("E05.02")
def classification_loss(
    network: Callable, xs: Float[ArrayLike, "..."], y: int, loss: Callable = step_error
) -> Float[Array, ""]:
    r"""$\ell(\hat y_T,y)$: the last output is the answer to the whole sequence."""
    return loss(network(sequence(xs))[-1], y)


def _as_long(xs, ys):
    if (got := ys.shape[0]) != (steps := jax.tree.leaves(xs)[0].shape[0]):
        raise ValueError(f"ys must have as many steps as xs, {steps}, got {got}.")
    return ys
