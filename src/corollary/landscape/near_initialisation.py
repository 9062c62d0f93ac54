r"""A shallow network with a fixed top layer, and its linearisation around the initial weights."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.nets import tanh


@implements("B06.24")
class FixedTopNetwork(eqx.Module):
    r"""$f(W)=\sum_ja_j\sigma(w_j\cdot x)$ with fixed random $a_j=\pm1/\sqrt m$; only $W$ (m, d) is trained.

    Called on one example; `gradient(x)` is $\nabla_Wf=D\,a\,x^\top$ with $D=\mathrm{diag}(\sigma'(w_j\cdot x))$.
    """

    weight: jax.Array
    top: jax.Array
    activation: Callable = eqx.field(static=True)

    def __init__(self, inputs: int, units: int, activation: Callable = tanh, *, key: PRNGKeyArray):
        inputs, units = whole("inputs", inputs), whole("units", units)
        if not callable(activation) or not hasattr(activation, "prime"):
            raise TypeError(f"activation must have a derivative `prime`, as those of nets do, got {activation!r}.")
        weight_key, top_key = jax.random.split(key)
        self.weight = jax.random.normal(weight_key, (units, inputs))
        self.top = jax.random.rademacher(top_key, (units,), self.weight.dtype) / units**0.5
        self.activation = activation

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        return self.top @ self.activation(self.weight @ self._input(x))

    def gradient(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        x = self._input(x)
        return jnp.outer(self.activation.prime(self.weight @ x) * self.top, x)

    def at(self, weight: Float[ArrayLike, "..."]) -> "FixedTopNetwork":
        """The same network with other weights."""
        weight = real("weight", weight, " ".join(map(str, self.weight.shape)))
        return eqx.tree_at(lambda n: n.weight, self, weight)

    def _input(self, x):
        return real("x", x, str(self.weight.shape[1]))


@implements("B06.24")
def linearised(
    network: FixedTopNetwork, weight: Float[ArrayLike, "..."], x: Float[ArrayLike, "..."]
) -> Float[Array, ""]:
    r"""$f_0(W)=f(W_0)+\langle\nabla f(W_0),W-W_0\rangle_F$ at `weight`, $W_0$ being the weights of `network`."""
    if not isinstance(network, FixedTopNetwork):
        raise TypeError(f"network must be a FixedTopNetwork, got {type(network).__name__}.")
    move = network.at(weight).weight - network.weight
    return network(x) + jnp.sum(network.gradient(x) * move)


@implements("B06.24")
def linearisation_bound(
    network: FixedTopNetwork, weight: Float[ArrayLike, "..."], x: Float[ArrayLike, "..."], beta: Scalar
) -> Float[Array, ""]:
    r"""$|f(W)-f_0(W)|\le\frac\beta{2\sqrt m}\|W-W_0\|_F^2\|x\|^2$ for a $\beta$-smooth activation."""
    if not isinstance(network, FixedTopNetwork):
        raise TypeError(f"network must be a FixedTopNetwork, got {type(network).__name__}.")
    beta, x = positive("beta", real("beta", beta, "")), network._input(x)
    move = network.at(weight).weight - network.weight
    return beta / (2 * move.shape[0] ** 0.5) * jnp.sum(move**2) * jnp.sum(x**2)
