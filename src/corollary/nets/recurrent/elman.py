r"""The Elman network: a state of units that see the input and each other's last value."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.activations import identity, tanh
from corollary.nets.initialisations import orthogonal, uniform_fan_in
from corollary.nets.layers import FullyConnected
from corollary.nets.recurrent.network import Recurrent


@implements("E05.03")
class ElmanCell(eqx.Module):
    r"""$Z_t=\phi(UZ_{t-1}+VX_t+b)$ with $U$ (m, m), $V$ (m, n); every state starts with the number `start`.

    $U$ is orthogonal to begin with: its powers neither grow nor vanish.
    """

    recurrent: jax.Array
    inputs: jax.Array
    bias: jax.Array | None
    activation: Callable = eqx.field(static=True)
    start: float = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        units: int,
        activation: Callable = tanh,
        *,
        key: PRNGKeyArray,
        bias: bool = True,
        start: float = 0.0,
        initialisation: Callable = uniform_fan_in,
        recurrent_initialisation: Callable = orthogonal,
    ):
        inputs, units = whole("inputs", inputs), whole("units", units)
        if not callable(activation):
            raise TypeError(f"activation must be a function of a number, got {activation!r}.")
        u_key, v_key = jax.random.split(key)
        self.recurrent = recurrent_initialisation(u_key, (units, units), jnp.result_type(float))
        self.inputs = initialisation(v_key, (units, inputs), jnp.result_type(float))
        self.bias = jnp.zeros(units) if bias else None
        self.activation, self.start = activation, float(start)

    def initial(self) -> Float[Array, "_"]:
        return jnp.full(self.recurrent.shape[0], self.start, self.recurrent.dtype)

    def drive(self, x: Float[ArrayLike, "... _"]) -> Float[Array, "..."]:
        r"""$VX_t+b$, of one input or of many along leading axes."""
        drive = real("x", x, f"... {self.inputs.shape[1]}", finite=False) @ self.inputs.T
        return drive if self.bias is None else drive + self.bias

    def step(self, drive: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.activation(drive + state @ self.recurrent.T)

    def __call__(self, x: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.step(self.drive(x), state)


@implements("M13.05", "E05.03")
class Elman(Recurrent):
    r"""$Z_t=\phi(UZ_{t-1}+VX_t+b)$, $Y_t=\psi(WZ_t+c)$: (T, inputs) to (T, outputs).

    `bias=False` leaves $b$ and $c$ out, as E does: $m^2+mn+qm$ parameters, however long the sequence.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        outputs: int,
        activation: Callable = tanh,
        output_activation: Callable = identity,
        *,
        key: PRNGKeyArray,
        bias: bool = True,
        start: float = 0.0,
        initialisation: Callable = uniform_fan_in,
        recurrent_initialisation: Callable = orthogonal,
    ):
        cell_key, readout_key = jax.random.split(key)
        cell = ElmanCell(
            inputs,
            units,
            activation,
            key=cell_key,
            bias=bias,
            start=start,
            initialisation=initialisation,
            recurrent_initialisation=recurrent_initialisation,
        )
        super().__init__(cell, FullyConnected(units, outputs, output_activation, key=readout_key, bias=bias))

    @classmethod
    def of(
        cls,
        recurrent: Float[ArrayLike, "..."],
        inputs: Float[ArrayLike, "..."],
        bias: Float[ArrayLike, "..."],
        readout: Float[ArrayLike, "..."],
        offset: Float[ArrayLike, "..."],
        activation: Callable = tanh,
        output_activation: Callable = identity,
        *,
        start: float = 0.0,
    ) -> "Elman":
        """The network with these parameters: (m, m), (m, n), (m,), (q, m), (q,); numbers for one unit of everything.

        `bias` and `offset` may be None.
        """
        recurrent, inputs, readout = (
            a.reshape(1, 1) if a.ndim == 0 else a for a in map(jnp.asarray, (recurrent, inputs, readout))
        )
        dims = {}
        recurrent = real("recurrent", recurrent, "m m", dims)
        inputs = real("inputs", inputs, "m n", dims)
        readout = real("readout", readout, "q m", dims)
        bias = None if bias is None else real("bias", jnp.atleast_1d(bias), "m", dims)
        offset = None if offset is None else real("offset", jnp.atleast_1d(offset), "q", dims)
        network = cls(
            dims["n"], dims["m"], dims["q"], activation, output_activation, key=jax.random.key(0), start=start
        )
        return eqx.tree_at(
            lambda e: (e.cell.recurrent, e.cell.inputs, e.cell.bias, e.readout.weight, e.readout.bias),
            network,
            (recurrent, inputs, bias, readout, offset),
        )


@implements("M13.06")
def book_elman() -> Elman:
    r"""The network of (13.4) and (13.6): $\theta=(0.20,-0.25,0.30,0.10,-0.15)$, $Z_0=0.1$, tanh twice."""
    return Elman.of(-0.25, 0.20, 0.30, 0.10, -0.15, tanh, tanh, start=0.1)
