r"""Highway layers: a gate decides for each unit whether it is transformed or carried on."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.activations import tanh
from corollary.nets.initialisations import glorot_uniform, uniform_fan_in
from corollary.nets.layers import FullyConnected


@implements("M13.24")
class HighwayLayer(eqx.Module):
    r"""$y=T(x)\odot H(x)+(1-T(x))\odot x$ with $H=\phi(W_Hx+b_H)$ and the gate $T=S(W_Tx+b_T)$.

    `gate_bias` is $b_T$ to begin with, negative: a deep stack then starts close to the identity, which is what it is
    in the limit $b_T\to-\infty$.
    """

    transform: FullyConnected
    gate: FullyConnected

    def __init__(
        self,
        units: int,
        activation: Callable = tanh,
        *,
        key: PRNGKeyArray,
        gate_bias: float = -2.0,
        initialisation: Callable = glorot_uniform,
    ):
        units = whole("units", units)
        h, t = jax.random.split(key)
        options = {"initialisation": initialisation, "bias_initialisation": jax.nn.initializers.zeros}
        self.transform = FullyConnected(units, units, activation, key=h, **options)
        gate = FullyConnected(units, units, key=t, **options)
        bias = jnp.full(units, real("gate_bias", gate_bias, ""), gate.bias.dtype)
        self.gate = eqx.tree_at(lambda l: l.bias, gate, bias)

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        open = jax.nn.sigmoid(self.gate(x))
        return open * self.transform(x) + (1 - open) * x


@implements("M13.24")
class HighwayStack(eqx.Module):
    """`depth` highway layers, one after the other, in one compiled loop."""

    layers: HighwayLayer

    def __init__(
        self, units: int, depth: int, activation: Callable = tanh, *, key: PRNGKeyArray, gate_bias: float = -2.0
    ):
        keys = jax.random.split(key, whole("depth", depth))
        self.layers = eqx.filter_vmap(lambda k: HighwayLayer(units, activation, key=k, gate_bias=gate_bias))(keys)

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        arrays, static = eqx.partition(self.layers, eqx.is_array)
        x = jnp.asarray(x, jnp.result_type(x, self.layers.gate.bias))
        return jax.lax.scan(lambda h, layer: (eqx.combine(layer, static)(h), None), x, arrays)[0]


@implements("M13.24")
class RecurrentHighway(eqx.Module):
    r"""A cell of `depth` highway layers in one step of time, of which the first also sees the input.

    With $s_0=z_{t-1}$: $s_\ell=T_\ell\odot H_\ell+(1-T_\ell)\odot s_{\ell-1}$ for $\ell=1,\dots,L$, where
    $H_\ell=\phi(R^H_\ell s_{\ell-1}+b^H_\ell+[\ell=1]W^Hx_t)$ and $T_\ell=S(\cdot)$ of the same form; $z_t=s_L$.
    """

    inputs: jax.Array
    recurrent: jax.Array
    bias: jax.Array
    activation: Callable = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        units: int,
        depth: int,
        activation: Callable = tanh,
        *,
        key: PRNGKeyArray,
        gate_bias: float = -2.0,
    ):
        inputs, units, depth = whole("inputs", inputs), whole("units", units), whole("depth", depth)
        if not callable(activation):
            raise TypeError(f"activation must be a function of a number, got {activation!r}.")
        w, r = jax.random.split(key)
        dtype = jnp.result_type(float)
        self.inputs = uniform_fan_in(w, (2 * units, inputs), dtype)
        self.recurrent = jax.vmap(lambda k: glorot_uniform(k, (2 * units, units), dtype))(jax.random.split(r, depth))
        self.bias = jnp.zeros((depth, 2 * units), dtype).at[:, units:].set(gate_bias)
        self.activation = activation

    def initial(self) -> Float[Array, "_"]:
        return jnp.zeros(self.recurrent.shape[2], self.recurrent.dtype)

    def drive(self, xs: Float[ArrayLike, "... _"]) -> Float[Array, "..."]:
        r"""$W^Hx$ and $W^Tx$ in one vector, for inputs (..., n)."""
        return real("xs", xs, f"... {self.inputs.shape[1]}", finite=False) @ self.inputs.T

    def step(self, drive: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        def layer(s, parameters):
            recurrent, bias, outer = parameters
            transform, gate = jnp.split(s @ recurrent.T + bias + outer, 2)
            open = jax.nn.sigmoid(gate)
            return open * self.activation(transform) + (1 - open) * s, None

        outer = jnp.zeros(self.bias.shape, drive.dtype).at[0].set(drive)
        state = jnp.asarray(state, jnp.result_type(state, drive, self.recurrent))
        return jax.lax.scan(layer, state, (self.recurrent, self.bias, outer))[0]

    def __call__(self, x: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.step(self.drive(x), state)
