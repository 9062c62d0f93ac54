r"""The cell of an LSTM as the text on backpropagation has it: with biases, and a keeping gate that is open at first."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float, PRNGKeyArray

from corollary._validate import real, whole
from corollary.autodiff.elementary import sigmoid
from corollary.catalog import implements
from corollary.nets.recurrent.lstm import LSTMState


@implements("T04.13")
class LSTMCell(eqx.Module):
    r"""$c'=f\odot c+i\odot g$, $h'=o\odot\tanh c'$ with $i,f,o=\sigma(\cdot)$, $g=\tanh(\cdot)$ affine in $(x,h)$.

    The memory is carried on by a factor near one instead of a matrix: $\partial c'/\partial c=f$ along that path.
    The rows of the weights are those of $i,f,g,o$, in this order.
    """

    inputs: jax.Array
    recurrent: jax.Array
    bias: jax.Array

    def __init__(self, inputs: int, units: int, *, key: PRNGKeyArray):
        inputs, units = whole("inputs", inputs), whole("units", units)
        k1, k2 = jax.random.split(key)
        self.inputs = jax.random.normal(k1, (4 * units, inputs)) / jnp.sqrt(inputs)
        self.recurrent = jax.random.normal(k2, (4 * units, units)) / jnp.sqrt(units)
        self.bias = jnp.zeros(4 * units).at[units : 2 * units].set(1.0)  # remember, to begin with

    def __call__(self, state: LSTMState, x: Float[ArrayLike, "_"]) -> LSTMState:
        x = real("x", x, f"{self.inputs.shape[1]}")
        gates = self.inputs @ x + self.recurrent @ state.hidden + self.bias
        i, f, g, o = jnp.split(gates, 4)
        cell = sigmoid(f) * state.memory + sigmoid(i) * jnp.tanh(g)
        return LSTMState(sigmoid(o) * jnp.tanh(cell), cell)
