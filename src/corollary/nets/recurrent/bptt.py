r"""Back-propagation through time for any recurrent network, whole and cut off.

Only one step at a time is differentiated: what is sent back along the sequence is written out. The loss is the mean
over the steps, $\Lambda=\frac1T\sum_t\ell(Y_t,\hat Y_t)$.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import ArrayLike, Float, PyTree

from corollary._show import shown
from corollary._validate import whole
from corollary.catalog import implements
from corollary.nets.recurrent.network import Recurrent
from corollary.nets.recurrent.unroll import sequence, unroll
from corollary.nets.recurrent.uses import labelling_loss, step_error


class ThroughTime(NamedTuple):
    r"""The loss, its gradient in the form of the network, and `adjoints` $D_t=\partial\Lambda/\partial Z_t$."""

    loss: jax.Array
    gradient: Any
    adjoints: Any

    __repr__ = shown


@implements("M13.10", "M13.49", "E05.04")
def bptt(
    network: Recurrent,
    xs: Float[ArrayLike, "..."],
    ys: Float[ArrayLike, "..."],
    state: Float[ArrayLike, "..."] | None = None,
    *,
    loss: Callable = step_error,
) -> ThroughTime:
    r"""One pass back through the sequence, at a cost and with a memory of the order of $T$.

    $D_t=\partial_Z\ell_t+D_{t+1}\,\partial_Zm_Z(X_{t+1},Z_t)$ with $D_{T+1}=0$, and the gradient is
    $\sum_t[\partial_\theta\ell_t+D_t\,\partial_\theta m_Z(X_t,Z_{t-1})]$, where the last derivative is the immediate
    one: that of a single step with $Z_{t-1}$ held fixed.
    """
    params, one_step, one_loss, xs, ys, states, before = _local(network, xs, ys, state, loss)

    def back(carry, step):
        later, total = carry
        x, y, z, last = step
        value, (own, source) = jax.value_and_grad(one_loss, (0, 2))(params, x, z, y)
        adjoint = jax.tree.map(jnp.add, source, later)
        through, later = jax.vjp(lambda p, z: one_step(p, x, z), params, last)[1](adjoint)
        return (later, jax.tree.map(lambda a, b, c: a + b + c, total, own, through)), (value, adjoint)

    nothing = jax.tree.map(lambda z: jnp.zeros_like(z[0]), states), jax.tree.map(jnp.zeros_like, params)
    (_, total), (values, adjoints) = jax.lax.scan(back, nothing, (xs, ys, states, before), reverse=True)
    return ThroughTime(values.sum(), total, adjoints)


@implements("M13.11", "E05.04")
def bptt_window(
    network: Recurrent,
    xs: Float[ArrayLike, "..."],
    ys: Float[ArrayLike, "..."],
    window: int,
    state: Float[ArrayLike, "..."] | None = None,
    *,
    loss: Callable = step_error,
) -> ThroughTime:
    r"""Sliding truncation: the error of a step goes back through that step and the `window` $-1$ before it.

    Exact for a window of $T$ or more. What is left out of a stable linear recurrence is of the order $\rho^{window}$.
    """
    params, one_step, one_loss, xs, ys, states, before = _local(network, xs, ys, state, loss)
    window = whole("window", window)
    values, (own, sources) = jax.vmap(lambda x, z, y: jax.value_and_grad(one_loss, (0, 2))(params, x, z, y))(
        xs, states, ys
    )

    def turn(carry, _):
        # all errors travel side by side, one step back a turn; those that pass the start drop out
        errors, total = carry
        sent = jax.vmap(lambda x, z, d: jax.vjp(lambda z: one_step(params, x, z), z)[1](d)[0])(xs, before, errors)
        errors = jax.tree.map(lambda e: jnp.concatenate([e[1:], jnp.zeros_like(e[:1])]), sent)
        return (errors, jax.tree.map(jnp.add, total, errors)), None

    (_, adjoints), _ = jax.lax.scan(turn, (sources, sources), length=window - 1)
    through = jax.vmap(lambda x, z, d: jax.vjp(lambda p: one_step(p, x, z), params)[1](d)[0])(xs, before, adjoints)
    return ThroughTime(values.sum(), jax.tree.map(lambda a, b: (a + b).sum(0), own, through), adjoints)


@implements("M13.11", "M13.48")
def bptt_blocks(
    network: Recurrent,
    xs: Float[ArrayLike, "..."],
    ys: Float[ArrayLike, "..."],
    block: int,
    state: Float[ArrayLike, "..."] | None = None,
    *,
    loss: Callable = step_error,
) -> ThroughTime:
    r"""Truncation in blocks of `block` steps, which must divide $T$: the mean of the gradients of the blocks.

    Every block starts from the true state, taken as a constant: what earlier steps contributed to it is left out, so
    the gradient is biased, by an error that falls only like one over the length of a block.
    """
    block, xs, ys = whole("block", block), sequence(xs), sequence(ys, "ys")
    blocks = _divided(ys, block)
    before = _shifted(unroll(network.cell, xs, state), network.cell.initial() if state is None else state)
    starts = jax.tree.map(lambda a: a[::block], before)
    cut = lambda tree: jax.tree.map(lambda a: a.reshape(blocks, block, *a.shape[1:]), tree)  # noqa: E731
    found = jax.vmap(lambda x, y, z: bptt(network, x, y, z, loss=loss))(cut(xs), cut(ys), starts)
    adjoints = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]) / blocks, found.adjoints)
    mean = lambda tree: jax.tree.map(lambda a: a.mean(0), tree)  # noqa: E731
    return ThroughTime(mean(found.loss), mean(found.gradient), adjoints)


class Streamed(NamedTuple):
    """The network after a stream of data, the loss of every block before its update, and the state at the end."""

    network: Any
    losses: jax.Array
    state: Any

    __repr__ = shown


@implements("M13.11")
def train_truncated(
    network: Recurrent,
    xs: Float[ArrayLike, "..."],
    ys: Float[ArrayLike, "..."],
    optimiser: optax.GradientTransformation,
    *,
    block: int = 1,
    state: PyTree | None = None,
    loss: Callable = step_error,
) -> Streamed:
    r"""Learning from one long sequence as it comes, a step of `optimiser` for every block of it.

    Block $k$ runs with the parameters $\theta_k$ from the state that the block before has left behind with
    $\theta_{k-1}$, a constant now; $\theta_{k+1}=\theta_k-\eta\nabla\Lambda_k(\theta_k)$. A cost of the order of
    `block` an update, however long the sequence.
    """
    if not isinstance(optimiser, optax.GradientTransformation):
        raise TypeError(f"optimiser must be an Optax transformation, got {type(optimiser).__name__}.")
    block, xs, ys = whole("block", block), sequence(xs), sequence(ys, "ys")
    blocks = _divided(ys, block)
    cut = jax.tree.map(lambda a: a.reshape(blocks, block, *a.shape[1:]), (xs, ys))
    params, static = eqx.partition(network, eqx.is_inexact_array)

    def objective(params, x, y, state):
        network = eqx.combine(params, static)
        states = unroll(network.cell, x, state)
        outputs = jax.vmap(network.answer)(states, x)
        return jnp.mean(jax.vmap(loss)(outputs, y)), jax.tree.map(lambda z: z[-1], states)

    def update(carry, step):
        params, state, memory = carry
        (value, after), slope = jax.value_and_grad(objective, has_aux=True)(params, *step, state)
        updates, memory = optimiser.update(slope, memory, params)
        return (optax.apply_updates(params, updates), after, memory), value

    first = jax.tree.map(lambda a: a[0], cut)
    state = network.cell.initial() if state is None else state
    after = jax.eval_shape(objective, params, *first, state)[1]
    state = jax.tree.map(lambda s, new: jnp.asarray(s, new.dtype), state, after)
    (params, state, _), losses = jax.lax.scan(update, (params, state, optimiser.init(params)), cut)
    return Streamed(eqx.combine(params, static), losses, state)


def _local(network, xs, ys, state, loss):
    """The parameters, the two functions of one step, and what they are differentiated at."""
    if not isinstance(network, Recurrent):
        raise TypeError(f"network must be a Recurrent network, got {type(network).__name__}.")
    xs, ys = sequence(xs), sequence(ys, "ys")
    steps = jax.tree.leaves(xs)[0].shape[0]
    jax.eval_shape(lambda: labelling_loss(network, xs, ys, loss))  # the shapes fit, or one sentence says which do not
    states = unroll(network.cell, xs, state)
    before = _shifted(states, network.cell.initial() if state is None else state)
    params, static = eqx.partition(network, eqx.is_inexact_array)

    def one_step(params, x, z):
        return eqx.combine(params, static).cell(x, z)

    def one_loss(params, x, z, y):
        return loss(eqx.combine(params, static).answer(z, x), y) / steps

    return params, one_step, one_loss, xs, ys, states, before


def _shifted(states, start):
    """The state before each step."""
    return jax.tree.map(lambda z, s: jnp.concatenate([jnp.asarray(s, z.dtype)[None], z[:-1]]), states, start)


def _divided(ys, block):
    steps = jax.tree.leaves(ys)[0].shape[0]
    if steps % block:
        raise ValueError(f"block must divide the {steps} steps, got {block}.")
    return steps // block
