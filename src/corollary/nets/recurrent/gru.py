r"""Gated recurrent units: one gate that trades the old state for a new one."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import one_of, real, whole
from corollary.catalog import implements
from corollary.nets.initialisations import uniform_fan_in
from corollary.nets.recurrent.gated import unit_biases

RESETS = ("before", "after")


class GRUGates(NamedTuple):
    """How much of the old state is kept, how much of it the candidate sees, and the candidate."""

    keep: jax.Array
    reset: jax.Array
    candidate: jax.Array

    __repr__ = shown


@implements("E05.13", "M13.18")
class GRU(eqx.Module):
    r"""$Y_t=u_t\odot Y_{t-1}+(1-u_t)\odot v_t$, a convex combination of the old state and a candidate.

    $v_t=\tanh(W^vX_t+U^v(r_t\odot Y_{t-1})+B^v)$; the gates are $u_t,r_t=S(WX_t+UY_{t-1}+B)$ with a $W,U,B$ for each.
    `gates_see_state=False` leaves the $U$ of the gates out (M, section 13.7.1), `bias=False` the $B$ (E). With
    `reset="after"` the candidate is $\tanh(W^vX_t+B^v+r_t\odot(U^vY_{t-1}+C))$, as Equinox and PyTorch compute it, in
    one product for a step instead of two. The rows of `inputs` and `bias` are those of $r,u,v$ in this order.
    """

    inputs: jax.Array
    gate_recurrent: jax.Array | None
    recurrent: jax.Array
    bias: jax.Array | None
    recurrent_bias: jax.Array | None
    reset: str = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        units: int,
        *,
        key: PRNGKeyArray,
        gates_see_state: bool = True,
        bias: bool = True,
        reset: str = "before",
        keep_bias: Float[ArrayLike, "..."] = 0.0,
    ):
        inputs, units = whole("inputs", inputs), whole("units", units)
        w, g, u = jax.random.split(key, 3)
        dtype = jnp.result_type(float)
        self.reset = one_of("reset", reset, RESETS)
        self.inputs = uniform_fan_in(w, (3 * units, inputs), dtype)
        self.gate_recurrent = uniform_fan_in(g, (2 * units, units), dtype) if gates_see_state else None
        self.recurrent = uniform_fan_in(u, (units, units), dtype)
        keep_bias = unit_biases("keep_bias", keep_bias, units)
        self.bias = jnp.zeros(3 * units, dtype).at[units : 2 * units].set(keep_bias) if bias else None
        self.recurrent_bias = jnp.zeros(units, dtype) if bias and reset == "after" else None

    @property
    def units(self) -> int:
        return self.recurrent.shape[0]

    def initial(self) -> Float[Array, "_"]:
        return jnp.zeros(self.units, self.inputs.dtype)

    def drive(self, xs: Float[ArrayLike, "... _"]) -> Float[Array, "..."]:
        r"""$WX+B$ of inputs (..., n), for the three of them: (..., 3N)."""
        xs = real("xs", xs, f"... {self.inputs.shape[1]}", finite=False)
        out = xs @ self.inputs.T
        return out if self.bias is None else out + self.bias

    def gates(self, drive: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."]) -> GRUGates:
        """The gates and the candidate of a step, from what its input contributes and the state before it."""
        of_gates, of_candidate = jnp.split(drive, [2 * self.units], axis=-1)
        if self.reset == "after" and self.gate_recurrent is not None:
            both = state @ jnp.concatenate([self.gate_recurrent, self.recurrent]).T
            into_gates, into_candidate = jnp.split(both, [2 * self.units], axis=-1)
            of_gates = of_gates + into_gates
        else:
            if self.gate_recurrent is not None:
                of_gates = of_gates + state @ self.gate_recurrent.T
            into_candidate = None
        reset, keep = jnp.split(jax.nn.sigmoid(of_gates), 2, axis=-1)
        if self.reset == "before":
            return GRUGates(keep, reset, jnp.tanh(of_candidate + (reset * state) @ self.recurrent.T))
        into_candidate = state @ self.recurrent.T if into_candidate is None else into_candidate
        if self.recurrent_bias is not None:
            into_candidate = into_candidate + self.recurrent_bias
        return GRUGates(keep, reset, jnp.tanh(of_candidate + reset * into_candidate))

    def step(self, drive: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        gates = self.gates(drive, state)
        return gates.keep * state + (1 - gates.keep) * gates.candidate

    def __call__(self, x: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.step(self.drive(x), state)
