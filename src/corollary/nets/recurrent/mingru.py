r"""The minimal gated recurrent unit: gates and candidate that see the input alone, so that the state is linear."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.initialisations import uniform_fan_in
from corollary.nets.recurrent.gated import unit_biases


@implements("E05.15")
class MinGRU(eqx.Module):
    r"""$z_t=\sigma_t\odot z_{t-1}+(1-\sigma_t)\odot Vx_t$ with $\sigma_t=S(Gx_t)$ (E, section 5.2).

    Run it with `unroll`, or in parallel over time with `unroll_linear`. `bias=True` gives the gate one, and
    `keep_bias` what it begins with: a memory of about $e^b$ steps.
    """

    gate: jax.Array
    value: jax.Array
    bias: jax.Array | None

    def __init__(
        self,
        inputs: int,
        units: int,
        *,
        key: PRNGKeyArray,
        bias: bool = False,
        keep_bias: Float[ArrayLike, "..."] = 0.0,
    ):
        inputs, units = whole("inputs", inputs), whole("units", units)
        g, v = jax.random.split(key)
        dtype = jnp.result_type(float)
        self.gate = uniform_fan_in(g, (units, inputs), dtype)
        self.value = uniform_fan_in(v, (units, inputs), dtype)
        keep_bias = unit_biases("keep_bias", keep_bias, units)
        self.bias = jnp.zeros(units, dtype) + keep_bias if bias else None

    def initial(self) -> Float[Array, "_"]:
        return jnp.zeros(self.gate.shape[0], self.gate.dtype)

    def coefficients(self, xs: Float[ArrayLike, "... _"]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        r"""$\sigma_t$ and $(1-\sigma_t)\odot Vx_t$ for inputs (..., n)."""
        xs = real("xs", xs, f"... {self.gate.shape[1]}", finite=False)
        z = xs @ self.gate.T
        z = z if self.bias is None else z + self.bias
        # 1 - S(z) as S(-z), which stays exact for gates near 1
        return jax.nn.sigmoid(z), jax.nn.sigmoid(-z) * (xs @ self.value.T)

    drive = coefficients

    def step(self, drive: Sequence[Array], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        kept, new = drive
        return kept * state + new

    def __call__(self, x: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.step(self.drive(x), state)
