r"""Normalisation in recurrent networks: over a batch, in two places, and over the units of a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import one_of, real, whole, within
from corollary.catalog import implements
from corollary.nets.activations import tanh
from corollary.nets.initialisations import orthogonal, uniform_fan_in
from corollary.nets.normalisation.batch import BatchMoments, BatchNorm
from corollary.nets.recurrent.unroll import scan_states

PLACES = ("inputs", "all")
STATISTICS = ("shared", "per_step")


@implements("M13.29", "M13.30")
class BatchNormalised(eqx.Module):
    r"""A recurrent cell whose pre-activations are normalised over the examples of a batch, $T_p(x)=w\hat x+b$.

    `place="inputs"`: $T_p(WX_t)+UZ_{t-1}+B$, for any cell that takes its inputs through a matrix `inputs` and a
    `bias` (Elman, LSTM with a $T_p$ for each of the four, GRU). `place="all"`: $T_p(WX_t+UZ_{t-1}+B)$, for an Elman
    cell. Statistics are over batch and time together (`"shared"`), or over the batch in each step (`"per_step"`): then
    no sequence may be longer than the `steps` that there are statistics for. With `place="all"` a state depends on
    the statistics before it, so that training takes those of the batch in each step all the same, and `"shared"`
    means one running average for all of them.

    ```python
    norm = BatchNormalised(LSTM(8, 64, key=key))
    state = norm.state()
    states, state = norm.batch(xs, state)    # training: xs (B, T, n)
    norm(xs[0], state)                       # testing: one sequence, by the running statistics
    ```
    """

    cell: Any
    norm: BatchNorm
    place: str = eqx.field(static=True)
    statistics: str = eqx.field(static=True)
    steps: int | None = eqx.field(static=True)

    def __init__(
        self,
        cell: Any,
        place: str = "inputs",
        statistics: str = "shared",
        *,
        steps: int | None = None,
        eps: float = 1e-5,
        momentum: float = 0.9,
    ):
        self.place, self.statistics = one_of("place", place, PLACES), one_of("statistics", statistics, STATISTICS)
        if not all(hasattr(cell, a) for a in ("inputs", "bias", "step")):
            raise TypeError(f"cell must have inputs, bias and step, got {type(cell).__name__}.")
        if place == "all" and not hasattr(cell, "activation"):
            raise TypeError(f"cell must be an Elman cell for place 'all', got {type(cell).__name__}.")
        if (statistics == "per_step") != (steps is not None):
            raise ValueError("steps must be given for statistics 'per_step', and only then.")
        self.steps = None if steps is None else whole("steps", steps)
        self.cell, self.norm = cell, BatchNorm(cell.inputs.shape[0], eps=eps, momentum=momentum)

    def state(self) -> BatchMoments:
        """What the running statistics start from; along a leading axis of steps where each has its own."""
        one = self.norm.state()
        return one if self.steps is None else jax.tree.map(lambda a: jnp.broadcast_to(a, (self.steps, *a.shape)), one)

    def batch(self, xs: Float[ArrayLike, "B T _"], state: BatchMoments) -> tuple:
        """The states (B, T, ...) of a batch of sequences (B, T, n), by its own statistics, and the running ones."""
        xs = real("xs", xs, f"B T {self.cell.inputs.shape[1]}", finite=False)
        time_first = jnp.swapaxes(xs, 0, 1)
        drives = time_first @ self.cell.inputs.T
        seen = self._for(drives.shape[0], state)
        start = jax.tree.map(lambda a: jnp.broadcast_to(a, (xs.shape[0], *a.shape)), self.cell.initial())
        if self.place == "inputs":
            if self.statistics == "shared":
                drives, seen = self.norm.batch(drives, seen)
            else:
                drives, seen = jax.vmap(self.norm.batch)(drives, seen)
            states = scan_states(jax.vmap(self.cell.step), self._biased(drives), start)
        else:
            states, seen = self._batch_all(self._biased(drives), start, seen)
        state = seen if self.steps is None else jax.tree.map(lambda o, n: o.at[: len(n)].set(n), state, seen)
        return jax.tree.map(lambda a: jnp.swapaxes(a, 0, 1), states), state

    def _batch_all(self, drives, start, seen):
        shared = self.statistics == "shared"

        def advance(carry, step):
            z, running = carry
            drive, own = step
            pre, after = self.norm.batch(drive + z @ self.cell.recurrent.T, running if shared else own)
            z = self.cell.activation(pre)
            return (z, after if shared else running), (z, after)

        start = jnp.asarray(start, drives.dtype)
        (_, running), (states, each) = jax.lax.scan(
            advance, (start, seen if shared else None), (drives, None if shared else seen)
        )
        return states, running if shared else each

    def __call__(self, xs: Float[ArrayLike, "T _"], state: BatchMoments) -> Float[Array, "T _"]:
        """The states (T, ...) of one sequence (T, n), by the running statistics."""
        xs = real("xs", xs, f"T {self.cell.inputs.shape[1]}", finite=False)
        drives, seen = xs @ self.cell.inputs.T, self._for(xs.shape[0], state)
        if self.place == "inputs":
            return scan_states(self.cell.step, self._biased(self.norm(drives, seen)), self.cell.initial())
        moments = jax.tree.map(lambda a: jnp.broadcast_to(a, drives.shape), seen)

        def advance(step, z):
            drive, own = step
            return self.cell.activation(self.norm(drive + z @ self.cell.recurrent.T, own))

        return scan_states(advance, (self._biased(drives), moments), self.cell.initial())

    def _biased(self, drives):
        return drives if self.cell.bias is None else drives + self.cell.bias

    def _for(self, length, state):
        if self.steps is None:
            return state
        if length > self.steps:
            raise ValueError(f"xs must have at most {self.steps} steps, for which there are statistics, got {length}.")
        return jax.tree.map(lambda a: a[:length], state)


@implements("M13.31")
class LayerNormCell(eqx.Module):
    r"""$Z_t=\phi\big(\frac g{\sigma_t}\odot(\alpha_t-\mu_t)+B\big)$ with $\alpha_t=WX_t+UZ_{t-1}$.

    $\mu_t$ and $\sigma_t$ are mean and standard deviation over the units of this one step, so that neither a batch nor
    the length of the sequence matters. `eps` is added to $\sigma_t^2$; the text has 0.
    """

    inputs: jax.Array
    recurrent: jax.Array
    gain: jax.Array
    bias: jax.Array
    activation: Callable = eqx.field(static=True)
    eps: float = eqx.field(static=True)

    def __init__(self, inputs: int, units: int, activation: Callable = tanh, *, key: PRNGKeyArray, eps: float = 1e-5):
        inputs, units = whole("inputs", inputs), whole("units", units, 2)
        if not callable(activation):
            raise TypeError(f"activation must be a function of a number, got {activation!r}.")
        w, u = jax.random.split(key)
        dtype = jnp.result_type(float)
        self.inputs = uniform_fan_in(w, (units, inputs), dtype)
        self.recurrent = orthogonal(u, (units, units), dtype)
        self.gain, self.bias = jnp.ones(units, dtype), jnp.zeros(units, dtype)
        self.activation, self.eps = activation, float(within("eps", eps, 0.0))

    def initial(self) -> Array:
        return jnp.zeros_like(self.bias)

    def drive(self, xs: Float[ArrayLike, "... _"]) -> Float[Array, "..."]:
        r"""$WX$ for inputs (..., n)."""
        return real("xs", xs, f"... {self.inputs.shape[1]}", finite=False) @ self.inputs.T

    def step(self, drive: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        alpha = drive + state @ self.recurrent.T
        away = alpha - jnp.mean(alpha, axis=-1, keepdims=True)
        sigma = jnp.sqrt(jnp.mean(away**2, axis=-1, keepdims=True) + self.eps)
        return self.activation(self.gain * (away / sigma) + self.bias)

    def __call__(self, x: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.step(self.drive(x), state)
