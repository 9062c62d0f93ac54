r"""Reduce on plateau: gradient descent that divides its step when the loss has not come down for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Float

from corollary._engine.trees import each
from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import one_of, real, whole, within
from corollary.catalog import implements
from corollary.optimization._arguments import asked_for, step_of


class Plateau(NamedTuple):
    """Its step, the value to beat, how often in a row it did not, and how often it has divided."""

    step: jax.Array
    value: jax.Array
    waited: jax.Array
    reductions: jax.Array

    __repr__ = shown


@implements("T02.39")
def reduce_on_plateau(
    step: Scalar | Callable, *, factor: Scalar = 2.0, patience: int = 3, against: str = "last"
) -> optax.GradientTransformationExtraArgs:
    r"""Gradient descent; after `patience` steps in a row that did not lower the loss, $\eta\leftarrow\eta/$`factor`.

    `against` is what a step has to beat: the "last" value, or the "best" so far, as in most software
    (`optax.contrib.reduce_on_plateau`). After a divergence the best is far away, and the step is divided again and
    again while the loss already falls. The loss is the extra argument `value`, before the step: on batches it is noisy,
    and the patience has to be longer.
    """
    if callable(step):
        raise TypeError("step must be a number: the plateaus make the schedule.")
    step = step_of(step)
    factor = within("factor", real("factor", factor, ""), 1.0, open="low")
    patience = whole("patience", patience)
    one_of("against", against, ("last", "best"))

    def init(params):
        dtype, zero = jnp.result_type(*jax.tree.leaves(params)), jnp.zeros((), jnp.int32)
        return Plateau(jnp.asarray(step, dtype), jnp.asarray(jnp.inf, dtype), zero, zero)

    def update(updates, state, params=None, *, value=None, **extra):
        value = jnp.asarray(asked_for("value", value), state.value.dtype)
        # written so that a loss that has become NaN counts as not lowered
        lowered = value < state.value
        waited = jnp.where(lowered, 0, state.waited + 1)
        reduce = waited >= patience
        now = Plateau(
            jnp.where(reduce, state.step / factor, state.step).astype(state.step.dtype),
            jnp.where(lowered, value, state.value) if against == "best" else value,
            jnp.where(reduce, 0, waited).astype(jnp.int32),
            state.reductions + reduce,
        )
        return each(lambda g: -now.step * g, updates), now

    return optax.GradientTransformationExtraArgs(init, update)


@implements("T02.39")
def plateau_reductions(step: Float[ArrayLike, "..."], L: Float[ArrayLike, "..."], factor: Scalar = 2.0) -> Array:
    r"""$\lceil\log_{\text{factor}}(\eta_0L/2)\rceil$: how often the step must be divided until it is below $2/L$."""
    step, L, factor = (real(n, v) for n, v in (("step", step), ("L", L), ("factor", factor)))
    within("step", step, 0.0, open="low"), within("L", L, 0.0, open="low")
    within("factor", factor, 1.0, open="low")
    return jnp.maximum(jnp.ceil(jnp.log(step * L / 2) / jnp.log(factor)), 0).astype(int)
