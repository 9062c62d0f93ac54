r"""Long short-term memory: a memory that is carried by gates, and a hidden state that is shown."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.initialisations import uniform_fan_in
from corollary.nets.recurrent.gated import unit_biases
from corollary.nets.recurrent.scan import linear_scan
from corollary.nets.recurrent.unroll import unroll


class LSTMState(NamedTuple):
    """What is shown, $Y$, and what is remembered, $Z$."""

    hidden: jax.Array
    memory: jax.Array

    __repr__ = shown


class LSTMGates(NamedTuple):
    """How much of the candidate is written, how much of the memory is kept, the candidate, how much is shown."""

    write: jax.Array
    keep: jax.Array
    candidate: jax.Array
    show: jax.Array

    __repr__ = shown


@implements("E05.12", "M13.19", "M13.20")
class LSTM(eqx.Module):
    r"""$Z_t=f_t\odot Z_{t-1}+g_t\odot r_t$ and $Y_t=q_t\odot\tanh(Z_t)$, with gates that see $X_t$ and $Y_{t-1}$.

    The gates to write, keep and show are $g,f,q=S(WX_t+UY_{t-1}+B)$ with a $W,U,B$ for each, the candidate is
    $r=\tanh(\cdot)$ of the same form (M, eq. 13.12). The rows of `inputs`, `recurrent` and `bias` are those of
    $g,f,r,q$ in this order. `recurrent=False` leaves $U$ out: the memory is then linear in itself and `parallel`
    applies. `mixing=True` shows $q_t\odot\tanh(VZ_t)$ with one more matrix (E, which also has no bias).
    `keep_bias` and `write_bias`, numbers or one for each unit, are the biases of $f$ and $g$ to begin with: with 0 half
    of the memory is lost in every step, with $b$ it lasts for about $e^b$ steps (`memory_biases` draws such).

    >>> unroll(LSTM(3, 5, key=key), x)[0].shape
    (4, 5)
    """

    inputs: jax.Array
    recurrent: jax.Array | None
    bias: jax.Array | None
    mixing: jax.Array | None

    def __init__(
        self,
        inputs: int,
        units: int,
        *,
        key: PRNGKeyArray,
        recurrent: bool = True,
        bias: bool = True,
        mixing: bool = False,
        keep_bias: Float[ArrayLike, "..."] = 1.0,
        write_bias: Float[ArrayLike, "..."] = 0.0,
    ):
        inputs, units = whole("inputs", inputs), whole("units", units)
        w, u, v = jax.random.split(key, 3)
        dtype = jnp.result_type(float)
        self.inputs = uniform_fan_in(w, (4 * units, inputs), dtype)
        self.recurrent = uniform_fan_in(u, (4 * units, units), dtype) if recurrent else None
        self.mixing = uniform_fan_in(v, (units, units), dtype) if mixing else None
        write, keep = unit_biases("write_bias", write_bias, units), unit_biases("keep_bias", keep_bias, units)
        self.bias = jnp.zeros(4 * units, dtype).at[:units].set(write).at[units : 2 * units].set(keep) if bias else None

    @property
    def units(self) -> int:
        return self.inputs.shape[0] // 4

    def initial(self) -> LSTMState:
        zero = jnp.zeros(self.units, self.inputs.dtype)
        return LSTMState(zero, zero)

    def drive(self, xs: Float[ArrayLike, "... _"]) -> Float[Array, "..."]:
        r"""$WX+B$ of inputs (..., n), for the four of them: (..., 4N)."""
        xs = real("xs", xs, f"... {self.inputs.shape[1]}", finite=False)
        out = xs @ self.inputs.T
        return out if self.bias is None else out + self.bias

    def preactivations(self, drive: Float[ArrayLike, "..."], hidden: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$WX+B+UY$ from what an input contributes and the hidden state before it, (..., 4N)."""
        return drive if self.recurrent is None else drive + hidden @ self.recurrent.T

    def gates(self, drive: Float[ArrayLike, "..."], hidden: Float[ArrayLike, "..."]) -> LSTMGates:
        """The gates and the candidate of a step."""
        return split_gates(self.preactivations(drive, hidden))

    def shown(self, gates: LSTMGates, memory: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$Y=q\odot\tanh(Z)$."""
        return gates.show * jnp.tanh(memory if self.mixing is None else memory @ self.mixing.T)

    def step(self, drive: Float[ArrayLike, "..."], state: LSTMState) -> LSTMState:
        gates = self.gates(drive, state.hidden)
        memory = gates.keep * state.memory + gates.write * gates.candidate
        return LSTMState(self.shown(gates, memory), memory)

    def __call__(self, x: Float[ArrayLike, "..."], state: LSTMState) -> LSTMState:
        return self.step(self.drive(x), state)

    def parallel(self, xs: Float[ArrayLike, "..."], state: LSTMState | None = None) -> LSTMState:
        """What `unroll` returns, by a parallel scan over time, where the gates do not see the hidden state."""
        if self.recurrent is not None:
            raise ValueError("the LSTM must have recurrent=False: its gates must not depend on its own past.")
        gates = self.gates(self.drive(xs), None)
        memory = linear_scan(gates.keep, gates.write * gates.candidate, None if state is None else state.memory)
        return LSTMState(self.shown(gates, memory), memory)


def split_gates(preactivations) -> LSTMGates:
    """The four, (..., N) each, from their pre-activations (..., 4N)."""
    # the logistic function of all of them: one loop over a block in one piece takes two thirds of the time of three
    write, keep, _, show = jnp.split(jax.nn.sigmoid(preactivations), 4, axis=-1)
    return LSTMGates(write, keep, jnp.tanh(jnp.split(preactivations, 4, axis=-1)[2]), show)


def realised_preactivations(cell: LSTM, xs, state: LSTMState | None = None):
    """The pre-activations, (T, 4N), that the LSTM goes through on `xs`; `split_gates` makes gates of them."""
    start = cell.initial() if state is None else state
    states = unroll(cell, xs, start)
    before = jnp.concatenate([start.hidden[None], states.hidden[:-1]])
    return cell.preactivations(cell.drive(xs), before)


class MemoryWeights(NamedTuple):
    r"""$M_{k,t}$ as (t, k, N), zero for $k>t$, and the weight of the initial memory at each step, (t, N)."""

    candidates: jax.Array
    start: jax.Array

    __repr__ = shown


@implements("M13.21")
def lstm_memory_weights(cell: LSTM, xs: Float[ArrayLike, "..."], state: LSTMState | None = None) -> MemoryWeights:
    r"""The memory as a sum over the past: $Z_t=\prod_{\ell\le t}f_\ell\odot Z_0+\sum_{k\le t}M_{k,t}\odot r_k$.

    $M_{k,t}=g_k\odot\prod_{\ell=k+1}^tf_\ell$, with the gates that the LSTM goes through on `xs`. Like attention
    weights they are at least 0, but they sum to anything between 0 and $t$, for each unit.
    """
    if not isinstance(cell, LSTM):
        raise TypeError(f"cell must be an LSTM, got {type(cell).__name__}.")
    preactivations = realised_preactivations(cell, xs, state)
    write = split_gates(preactivations).write
    # through logarithms: a product over all steps may underflow where one over the last few does not
    total = jnp.cumsum(jax.nn.log_sigmoid(jnp.split(preactivations, 4, axis=-1)[1]), axis=0)
    steps = jnp.arange(len(total))
    past = (steps[:, None] >= steps[None, :])[..., None]
    exponent = jnp.where(past, total[:, None] - total[None, :], 0.0)
    weights = jnp.where(past, write[None] * jnp.exp(exponent), 0.0)
    return MemoryWeights(weights, jnp.exp(total))
