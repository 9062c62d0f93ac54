r"""Reduce on plateau: gradient descent that divides its step when the loss has not come down for a while."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from corollary._validate import one_of, real, whole, within
from corollary.catalog import implements
from corollary.optimization._arguments import learning_rate_of
from corollary.optimization.minimize import Method


class Plateau(NamedTuple):
    """Where it stands, its step, the value to beat, how often in a row it did not, and how often it has divided."""

    theta: jax.Array
    learning_rate: jax.Array
    value: jax.Array
    waited: jax.Array
    reductions: jax.Array


@implements("T02.39")
def reduce_on_plateau(learning_rate, *, factor=2.0, patience: int = 3, against: str = "last") -> Method:
    r"""Gradient descent; after `patience` steps in a row that did not lower the loss, $\eta\leftarrow\eta/$`factor`.

    `against` is what a step has to beat: the "last" value, or the "best" so far, as in most software
    (`optax.contrib.reduce_on_plateau`). After a divergence the best is far away, and the step is divided again and
    again while the loss already falls.
    """
    if callable(learning_rate):
        raise TypeError("learning_rate must be a number: the plateaus make the schedule.")
    learning_rate = learning_rate_of(learning_rate)
    factor = within("factor", real("factor", factor, ""), 1.0, open="low")
    patience = whole("patience", patience)
    one_of("against", against, ("last", "best"))

    def init(problem, theta):
        zero = jnp.zeros((), jnp.int32)
        return Plateau(theta, jnp.asarray(learning_rate, theta.dtype), problem(theta), zero, zero)

    def step(problem, state, key):
        theta = state.theta - state.learning_rate * problem.oracle(state.theta, key)
        value = problem(theta)
        # written so that a loss that has become NaN counts as not lowered
        lowered = value < state.value
        waited = jnp.where(lowered, 0, state.waited + 1)
        reduce = waited >= patience
        return Plateau(
            theta,
            jnp.where(reduce, state.learning_rate / factor, state.learning_rate).astype(state.learning_rate.dtype),
            jnp.where(lowered, value, state.value) if against == "best" else value,
            jnp.where(reduce, 0, waited).astype(jnp.int32),
            state.reductions + reduce,
        )

    return Method(init, step, lambda state: state.theta)


@implements("T02.39")
def plateau_reductions(learning_rate, L, factor=2.0):
    r"""$\lceil\log_{\text{factor}}(\eta_0L/2)\rceil$: how often the step must be divided until it is below $2/L$."""
    learning_rate, L, factor = (real(n, v) for n, v in (("learning_rate", learning_rate), ("L", L), ("factor", factor)))
    within("learning_rate", learning_rate, 0.0, open="low"), within("L", L, 0.0, open="low")
    within("factor", factor, 1.0, open="low")
    return jnp.maximum(jnp.ceil(jnp.log(learning_rate * L / 2) / jnp.log(factor)), 0).astype(int)
