r"""DenseNet connectivity: every layer sees the input and everything that the layers before it made."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.activations import relu
from corollary.nets.initialisations import uniform_fan_in
from corollary.nets.layers import FullyConnected


@implements("E02.19", "T01.05")
class DenseNetwork(eqx.Module):
    r"""$x^{\ell+1}=F^{\ell+1}(x^\ell,\dots,x^1,x)$ on the concatenation of all that came before.

    Layer $\ell=0,\dots,L-1$ has `growth` $=k$ units and fan-in $n+k\ell$, so that the parameters are
    $\sum_\ell k(n+k\ell)+k$ numbers. The output is $(x,x^1,\dots,x^L)$, of size $n+kL$.
    """

    layers: tuple[FullyConnected, ...]

    def __init__(
        self,
        inputs: int,
        growth: int,
        depth: int,
        activation: Callable = relu,
        *,
        key: PRNGKeyArray,
        initialisation: Callable = uniform_fan_in,
        bias_initialisation: Callable = uniform_fan_in,
    ):
        inputs, growth, depth = whole("inputs", inputs), whole("growth", growth), whole("depth", depth)
        self.layers = tuple(
            FullyConnected(
                inputs + growth * i,
                growth,
                activation,
                key=layer_key,
                initialisation=initialisation,
                bias_initialisation=bias_initialisation,
            )
            for i, layer_key in enumerate(jax.random.split(key, depth))
        )

    def __call__(self, x: Float[ArrayLike, "_"]) -> Array:
        x = real("x", x, str(self.layers[0].weight.shape[1]), finite=False)
        for layer in self.layers:
            x = jnp.concatenate([x, layer(x)])
        return x
