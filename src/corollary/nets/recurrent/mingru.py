r"""The minimal gated recurrent unit: gates and candidate that see the input alone, so that the state is linear."""

import equinox as eqx
import jax
import jax.numpy as jnp

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

    def __init__(self, inputs: int, units: int, *, key, bias: bool = False, keep_bias=0.0):
        inputs, units = whole("inputs", inputs), whole("units", units)
        g, v = jax.random.split(key)
        dtype = jnp.result_type(float)
        self.gate = uniform_fan_in(g, (units, inputs), dtype)
        self.value = uniform_fan_in(v, (units, inputs), dtype)
        keep_bias = unit_biases("keep_bias", keep_bias, units)
        self.bias = jnp.zeros(units, dtype) + keep_bias if bias else None

    def initial(self):
        return jnp.zeros(self.gate.shape[0], self.gate.dtype)

    def coefficients(self, xs):
        r"""$\sigma_t$ and $(1-\sigma_t)\odot Vx_t$ for inputs (..., n)."""
        xs = real("xs", xs, f"... {self.gate.shape[1]}", finite=False)
        z = xs @ self.gate.T
        z = z if self.bias is None else z + self.bias
        # 1 - S(z) as S(-z), which stays exact for gates near 1
        return jax.nn.sigmoid(z), jax.nn.sigmoid(-z) * (xs @ self.value.T)

    drive = coefficients

    def step(self, drive, state):
        kept, new = drive
        return kept * state + new

    def __call__(self, x, state):
        return self.step(self.drive(x), state)
