r"""Logistic networks are tanh networks with other parameters, and conversely.

$S(z)=\frac12+\frac12\tanh\frac z2$ and $\tanh z=-1+2S(2z)$ have one form, $\phi(z)=c+a\,\psi(kz)$. The factor $k$
goes into the affine map before the activation, $a$ and $c$ into the one after it; the shape of the network stays.
"""

import equinox as eqx
import jax.numpy as jnp

from corollary.catalog import implements
from corollary.nets.activations import ActivationFunction, logistic, tanh
from corollary.nets.layers import FullyConnected
from corollary.nets.mlp import MLP


@implements("M05.20", "B02.14")
def logistic_to_tanh(network: MLP) -> MLP:
    """The tanh network of the same shape that computes the same as this logistic network."""
    return _reexpress(network, logistic, tanh, a=0.5, c=0.5, k=0.5)


@implements("M05.20", "B02.14")
def tanh_to_logistic(network: MLP) -> MLP:
    """The logistic network of the same shape that computes the same as this tanh network."""
    return _reexpress(network, tanh, logistic, a=2.0, c=-1.0, k=2.0)


def _reexpress(network: MLP, phi: ActivationFunction, psi: ActivationFunction, *, a: float, c: float, k: float) -> MLP:
    if not isinstance(network, MLP):
        raise TypeError(f"network must be an MLP, got {type(network).__name__}.")
    if any(layer.activation is not phi for layer in network.layers[:-1]):
        raise ValueError(f"network must have the activation {phi.name} in every hidden layer.")
    layers = []
    for i, layer in enumerate(network.layers):
        first, last = i == 0, i == len(network.layers) - 1
        weight = layer.weight if first else a * layer.weight
        bias = jnp.zeros_like(layer.weight[:, 0]) if layer.bias is None else layer.bias
        bias = bias if first else bias + c * layer.matrix.sum(axis=1)
        if not last:
            weight, bias = k * weight, k * bias
        layers.append(FullyConnected.of(weight, bias, layer.activation if last else psi, layer.scaling))
    return eqx.tree_at(lambda n: n.layers, network, tuple(layers))
