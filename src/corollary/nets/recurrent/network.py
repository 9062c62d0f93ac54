r"""A recurrent network: a cell that carries a state through time, and a readout of the state.

The plant and the observer of systems theory: $Z_t=f(Z_{t-1},X_t)$ and $Y_t=g(Z_t)$. Cells are those of `unroll`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._types import NetworkLike
from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.recurrent.unroll import checked, sequence, shown, unroll


class Trajectory(NamedTuple):
    r"""The states $Z_1,\dots,Z_T$ and the outputs $Y_1,\dots,Y_T$, along a leading axis."""

    states: Any
    outputs: Any


class Plant(eqx.Module):
    r"""A cell made of any function: $Z_t=f(Z_{t-1},X_t)$ from the state `start`, which is not trained.

    `transition(z, x)` may be a plain function or a module with parameters of its own.
    """

    transition: Callable
    start: jax.Array

    def __init__(self, transition: Callable, start: Float[ArrayLike, "..."]):
        if not callable(transition):
            raise TypeError(f"transition must be a function of state and input, got {type(transition).__name__}.")
        self.transition, self.start = transition, real("start", start)

    def initial(self) -> Float[Array, "_"]:
        return jax.lax.stop_gradient(self.start)

    def __call__(self, x: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.transition(state, x)


@implements("M13.02", "M13.09", "E05.01")
class Recurrent(eqx.Module):
    r"""$Z_t=F(Z_{t-1},X_t)$ and $Y_t=G(Z_t)$ for sequences of any length, (T, ...) to (T, ...).

    `readout(z)` is a function of what one state shows: of an LSTM its hidden output, of layers on top of each other
    that of the last one, else the state itself. With `sees_input` it is called as `readout(z, x)`, which is the general
    form (13.7). A `state` to start from continues a sequence: running on two pieces in a row is running on both
    together.

    >>> Recurrent(ElmanCell(3, 5, key=key), jnp.sum)(x).shape
    (4,)
    """

    cell: Any
    readout: Callable
    sees_input: bool = eqx.field(static=True)

    def __init__(self, cell: Callable, readout: Callable, *, sees_input: bool = False):
        if not callable(readout):
            raise TypeError(f"readout must be a function of the state, got {type(readout).__name__}.")
        self.cell, self.readout, self.sees_input = checked(cell), readout, sees_input

    def answer(self, state: PyTree, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The output of one state, and of its input where the readout sees that."""
        output = self.cell.output(state) if hasattr(self.cell, "output") else shown(state)
        return self.readout(output, x) if self.sees_input else self.readout(output)

    def run(self, xs: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."] | None = None) -> Trajectory:
        """States and outputs of all steps."""
        xs = sequence(xs)
        states = unroll(self.cell, xs, state)
        return Trajectory(states, jax.vmap(self.answer)(states, xs))

    def __call__(
        self, xs: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."] | None = None
    ) -> Float[Array, "..."]:
        return self.run(xs, state).outputs


@implements("M13.09")
def untie(network: NetworkLike, steps: int) -> NetworkLike:
    r"""`steps` copies of a network along a leading axis of all its arrays: $\theta_1=\dots=\theta_T=\theta$."""
    steps = whole("steps", steps)
    return jax.tree.map(lambda a: jnp.broadcast_to(a, (steps, *a.shape)) if eqx.is_array(a) else a, network)


@implements("M13.09")
def run_untied(copies: Callable, xs: Float[ArrayLike, "..."], state: PyTree | None = None) -> Trajectory:
    r"""A network of $T$ layers, layer $t$ with the parameters $\theta_t$ of the $t$-th of `copies`.

    Where the copies are those of `untie`, this is the recurrent network; the gradient by its parameters is the sum
    of the gradients by the copies.
    """
    xs = sequence(xs)
    arrays, static = eqx.partition(copies, eqx.is_array)
    steps = jax.tree.leaves(xs)[0].shape[0]
    if (counts := {a.shape[0] for a in jax.tree.leaves(arrays)}) != {steps}:
        raise ValueError(f"copies must hold one copy per step, {steps} in all, got {sorted(counts)}.")
    if state is None:
        state = jax.tree.map(lambda a: a[0], eqx.combine(arrays, static)).cell.initial()

    def layer(state, step):
        array, x = step
        network = eqx.combine(array, static)
        state = network.cell(x, state)
        return state, Trajectory(state, network.answer(state, x))

    return jax.lax.scan(layer, state, (arrays, xs))[1]


@implements("M13.01")
def future_influence(network: Callable, xs: Float[ArrayLike, "..."], *, key: PRNGKeyArray) -> Float[Array, ""]:
    r"""The largest change of any $Y_t$ when noise is added to the inputs after $t$: exactly 0 for a causal network.

    `network` takes a sequence (T, ...) to a sequence (T, ...). What is compared comes from one batch, so that not even
    the rounding differs.
    """
    xs = real("xs", xs)
    if xs.ndim == 0 or xs.shape[0] < 2:
        raise ValueError(f"xs must have at least two steps along the first axis, got shape {xs.shape}.")
    steps = xs.shape[0]
    time = np.arange(steps)
    keep = time <= np.arange(steps)[:, None]  # variant t keeps what came until t; the last one keeps all
    other = xs + jax.random.normal(key, xs.shape, xs.dtype)
    keep_all = keep.reshape(steps, steps, *(1,) * (xs.ndim - 1))
    ys = jax.vmap(network)(jnp.where(keep_all, xs, other))
    change = jnp.abs(ys - ys[-1]).reshape(steps, steps, -1).max(-1)
    return jnp.max(jnp.where(keep, change, 0.0))
