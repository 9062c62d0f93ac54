r"""A recurrent cell without saturating functions: gates that are ReLUs, and a memory that is added to."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.initialisations import orthogonal, uniform_fan_in


class NonSaturatingState(NamedTuple):
    """What is shown, and what is remembered."""

    hidden: jax.Array
    memory: jax.Array

    __repr__ = shown


@implements("M13.23")
class NonSaturatingCell(eqx.Module):
    r"""$Z_t=Z_{t-1}+\alpha_t\odot v_t-\beta_t\odot e_t$ and $h_t=\mathrm{ReLU}(Uh_{t-1}+WX_t+VZ_{t-1}+b)$.

    The gates to write and to erase are $\alpha_t,\beta_t=\mathrm{ReLU}(\cdot)\ge0$; what is written and erased are
    $v_t,e_t=r/(1+\|r\|)$ with $r=\mathrm{ReLU}(\cdot)$; all see $(h_t,Z_{t-1})$ through affine maps. M only names such
    networks; this is a small one of the kind that it cites. A gate that is open has the derivative one, however far it
    is open, where a logistic gate that is open has nearly none. `scale` is the size of the gates' weights to begin
    with, small: the memory is then nearly constant.
    """

    inputs: jax.Array
    recurrent: jax.Array
    remembered: jax.Array
    bias: jax.Array
    control: jax.Array
    control_bias: jax.Array

    def __init__(self, inputs: int, units: int, *, key: PRNGKeyArray, scale: float = 0.1):
        inputs, units = whole("inputs", inputs), whole("units", units)
        w, u, v, c = jax.random.split(key, 4)
        dtype = jnp.result_type(float)
        self.inputs = uniform_fan_in(w, (units, inputs), dtype)
        self.recurrent = orthogonal(u, (units, units), dtype)
        self.remembered = uniform_fan_in(v, (units, units), dtype)
        self.bias = jnp.zeros(units, dtype)
        self.control = scale * uniform_fan_in(c, (4 * units, 2 * units), dtype)
        self.control_bias = jnp.zeros(4 * units, dtype)

    def initial(self) -> NonSaturatingState:
        zero = jnp.zeros_like(self.bias)
        return NonSaturatingState(zero, zero)

    def drive(self, xs: Float[ArrayLike, "... _"]) -> Float[Array, "..."]:
        r"""$WX+b$ for inputs (..., n)."""
        return real("xs", xs, f"... {self.inputs.shape[1]}", finite=False) @ self.inputs.T + self.bias

    def controls(self, hidden: Float[ArrayLike, "..."], memory: Float[ArrayLike, "..."]) -> list[Array]:
        """Pre-activations of the gates to write and to erase, and of what is written and erased."""
        both = jnp.concatenate([hidden, memory], axis=-1)
        return jnp.split(both @ self.control.T + self.control_bias, 4, axis=-1)

    def step(self, drive: Float[ArrayLike, "..."], state: NonSaturatingState) -> NonSaturatingState:
        hidden = jax.nn.relu(drive + state.hidden @ self.recurrent.T + state.memory @ self.remembered.T)
        write, erase, new, old = self.controls(hidden, state.memory)
        memory = state.memory + jax.nn.relu(write) * _bounded(new) - jax.nn.relu(erase) * _bounded(old)
        return NonSaturatingState(hidden, memory)

    def __call__(self, x: Float[ArrayLike, "..."], state: NonSaturatingState) -> NonSaturatingState:
        return self.step(self.drive(x), state)


def _bounded(z):
    r = jax.nn.relu(z)
    # the square root is not differentiable at 0, where all units may be
    return r / (1 + jnp.sqrt(jnp.sum(r * r, axis=-1, keepdims=True) + jnp.finfo(r.dtype).tiny))
