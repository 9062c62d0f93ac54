r"""Gates: factors in $(0,1)$ that decide what of a state is kept."""

from __future__ import annotations

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import real, whole, within
from corollary.catalog import implements
from corollary.nets.initialisations import uniform_fan_in


@implements("E05.11")
def gate(s: Float[ArrayLike, "..."], z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\sigma\odot z$ with $\sigma\in[0,1]$: an entry with $\sigma_i=0$ is forgotten, one with $\sigma_i=1$ kept."""
    s = within("s", real("s", s), 0.0, 1.0)
    return s * real("z", z)


@implements("E05.11")
def retained(g: Float[ArrayLike, "..."], steps: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$g^T$, what a constant gate $g$ leaves of a state after $T$ `steps`."""
    g = within("g", real("g", g), 0.0, 1.0)
    return g ** within("steps", real("steps", steps), 0.0)


@implements("E05.11")
def half_life(g: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\ln2/(-\ln g)$, after how many steps a constant gate $g\in(0,1)$ has left half of a state."""
    g = within("g", real("g", g), 0.0, 1.0, open="both")
    return math.log(2.0) / -jnp.log(g)


@implements("E05.11")
def memory_biases(units: int, longest: Scalar, *, key: PRNGKeyArray) -> Float[Array, "_"]:
    r"""Biases $b=\ln(\tau-1)$ of gates that keep, with lifetimes $\tau=1/(1-S(b))$ uniform on $[2,$ `longest` $]$.

    With minus the same as the biases of gates that write, the memories of an LSTM begin as moving averages over
    spans of all lengths up to that of the sequences to be learned.
    """
    longest = within("longest", real("longest", longest, ""), 2.0)
    return jnp.log(jax.random.uniform(key, (whole("units", units),), minval=1.0, maxval=longest - 1))


def unit_biases(name: str, value, units: int):
    """`value` as a bias for each of `units` units: a number, or one of each."""
    value = real(name, value)
    if value.shape not in ((), (units,)):
        raise ValueError(f"{name} must be a number or have shape ({units},), got {value.shape}.")
    return value


@implements("M13.17")
class GatedPlant(eqx.Module):
    r"""$Z_t=S(WX_t+B)\odot Z_{t-1}+\tilde f(X_t)$, with the logistic $S$ and any function $\tilde f$ of the input.

    An open gate, $B\to\infty$, adds $\tilde f(X_t)$ to the state, a closed one replaces the state by it.
    """

    weight: jax.Array
    bias: jax.Array
    update: Callable

    def __init__(self, inputs: int, units: int, update: Callable, *, key: PRNGKeyArray):
        inputs, units = whole("inputs", inputs), whole("units", units)
        if not callable(update):
            raise TypeError(f"update must be a function of one input, got {type(update).__name__}.")
        self.weight = uniform_fan_in(key, (units, inputs), jnp.result_type(float))
        self.bias = jnp.zeros(units)
        self.update = update

    def initial(self) -> Float[Array, "_"]:
        return jnp.zeros_like(self.bias)

    def coefficients(self, xs: Float[ArrayLike, "T _"]) -> tuple[Float[Array, "_ _"], Float[Array, "_ _"]]:
        r"""The gates $S(WX_t+B)$ and the updates $\tilde f(X_t)$ of all steps."""
        xs = real("xs", xs, f"T {self.weight.shape[1]}", finite=False)
        return jax.nn.sigmoid(xs @ self.weight.T + self.bias), jax.vmap(self.update)(xs)

    def __call__(self, x: Float[ArrayLike, "_"], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        x = real("x", x, f"{self.weight.shape[1]}", finite=False)
        return jax.nn.sigmoid(x @ self.weight.T + self.bias) * state + self.update(x)


@implements("M13.17")
def gated_solution(
    gates: Float[ArrayLike, "T N"], updates: Float[ArrayLike, "T N"], initial: Float[ArrayLike, "N"]
) -> Float[Array, "_"]:
    r"""$Z_T=\prod_{t\le T}\gamma_t\odot Z_0+\sum_{t\le T}\prod_{s=t+1}^T\gamma_s\odot f_t$, the last state.

    `gates` and `updates` are (T, N), `initial` (N,). The product in front of $f_t$ begins after $t$: as printed it
    begins at $t$, which would close the gate of the same step on what that step adds.
    """
    dims = {}
    gates, updates = real("gates", gates, "T N", dims), real("updates", updates, "T N", dims)
    initial = real("initial", initial, "N", dims)
    # T by T products, each taken as it stands: a reference for the recursion and not a way to compute
    later = jnp.arange(len(gates))[None, :] > jnp.arange(len(gates))[:, None]
    factors = jnp.prod(jnp.where(later[..., None], gates[None], 1.0), axis=1)
    return jnp.prod(gates, axis=0) * initial + jnp.sum(factors * updates, axis=0)
