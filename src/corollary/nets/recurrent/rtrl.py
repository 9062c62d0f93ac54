r"""Real-time recurrent learning: the gradient carried forward, with nothing to remember of the past."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import ArrayLike, Float, PyTree

from corollary.catalog import implements
from corollary.nets.recurrent.bptt import ThroughTime
from corollary.nets.recurrent.elman import ElmanCell
from corollary.nets.recurrent.network import Recurrent
from corollary.nets.recurrent.unroll import sequence
from corollary.nets.recurrent.uses import labelling_loss, step_error


@implements("M13.07")
def sensitivities(network: Recurrent, xs: Float[ArrayLike, "..."], state: PyTree | None = None) -> ElmanCell:
    r"""$\partial Z_t/\partial\theta$ for the parameters of the cell, in the form of the cell: leaves (T, units, ...).

    $\partial_\theta Z_t=\partial_Zm_Z\,\partial_\theta Z_{t-1}+\partial_\theta m_Z$, both at $(X_t,Z_{t-1})$, and
    $\partial_\theta Z_0=0$.
    """
    cell, _, advance, start, form = _forward(network, sequence(xs), state)
    _, found = jax.lax.scan(lambda carry, x: (carry := advance(cell, x, carry), carry[1]), start, sequence(xs))
    return jax.vmap(jax.vmap(form))(found)


@implements("M13.07")
def rtrl(
    network: Recurrent,
    xs: Float[ArrayLike, "..."],
    ys: Float[ArrayLike, "..."],
    state: Float[ArrayLike, "..."] | None = None,
    *,
    loss: Callable = step_error,
) -> ThroughTime:
    r"""The gradient of $\frac1T\sum_t\ell(Y_t,\hat Y_t)$ in one pass forward; no adjoints.

    Carries units times parameters numbers from step to step, whatever the length of the sequence, at a cost of units
    squared times parameters a step.
    """
    xs, ys = sequence(xs), sequence(ys, "ys")
    steps = jax.tree.leaves(xs)[0].shape[0]
    cell, readout, advance, start, form = _forward(network, xs, state)
    jax.eval_shape(lambda: labelling_loss(network, xs, ys, loss))  # the shapes fit, or one sentence says which do not
    static = eqx.partition(network, eqx.is_inexact_array)[1]
    flat_state, unravel = ravel_pytree(start[0])

    def one_loss(readout, z, x, y):
        whole = eqx.combine(eqx.tree_at(lambda m: m.readout, static, readout), static)
        return loss(whole.answer(unravel(z), x), y) / steps

    def body(carry, step):
        (z, s), total, own = carry
        x, y = step
        z, s = advance(cell, x, (z, s))
        value, (by_readout, by_state) = jax.value_and_grad(one_loss, (0, 1))(readout, ravel_pytree(z)[0], x, y)
        return ((z, s), total + by_state @ s, jax.tree.map(jnp.add, own, by_readout)), value

    nothing = jnp.zeros(start[1].shape[1], flat_state.dtype), jax.tree.map(jnp.zeros_like, readout)
    (_, total, own), values = jax.lax.scan(body, (start, *nothing), (xs, ys))
    params = eqx.filter(network, eqx.is_inexact_array)
    gradient = eqx.tree_at(lambda m: (m.cell, m.readout), params, (form(total), own), is_leaf=lambda a: a is None)
    return ThroughTime(values.sum(), gradient, None)


def _forward(network, xs, state):
    """Parameters of cell and readout, the step of (state, sensitivity), its beginning, and the form of the cell."""
    if not isinstance(network, Recurrent):
        raise TypeError(f"network must be a Recurrent network, got {type(network).__name__}.")
    params, static = eqx.partition(network.cell, eqx.is_inexact_array)
    theta, form = ravel_pytree(params)
    if theta.size == 0:
        raise ValueError("network must have a cell with at least one floating-point array.")
    state = network.cell.initial() if state is None else state
    after = jax.eval_shape(network.cell, jax.tree.map(lambda a: a[0], xs), state)
    state = jax.tree.map(lambda s, new: jnp.asarray(s, new.dtype), state, after)
    flat, unravel = ravel_pytree(state)

    def one_step(theta, x, z):
        return ravel_pytree(eqx.combine(form(theta), static)(x, unravel(z)))[0]

    def advance(theta, x, carry):
        z, s = ravel_pytree(carry[0])[0], carry[1]
        by_theta, by_state = jax.jacrev(one_step, (0, 2))(theta, x, z)
        return unravel(one_step(theta, x, z)), by_state @ s + by_theta

    start = state, jnp.zeros((flat.size, theta.size), flat.dtype)
    return theta, eqx.filter(network.readout, eqx.is_inexact_array), advance, start, form
