r"""Other parameters for the same function: signs and order of hidden units.

$S(-z)=1-S(z)$ and $\tanh(-z)=-\tanh z$: a hidden unit can be turned round if the next layer makes up for it. With the
permutations a hidden layer of $N$ units has $2^NN!$ equivalent parameters, so a loss has that many minimisers or none.
"""

from __future__ import annotations

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from corollary._types import NetworkLike
from corollary._validate import concrete, real, whole
from corollary.catalog import implements
from corollary.nets.activations import logistic, tanh


@implements("M05.07")
def flip_hidden(network: NetworkLike, layer: int, signs: Float[ArrayLike, "_"]) -> NetworkLike:
    r"""The same function with the units of hidden layer `layer` (0 is the first) turned round where `signs` is -1.

    $(w,b,c)\to(-w,-b,-c)$ for a unit with outer weights $c$; for the logistic function $c$ goes into the outer bias.
    `network` is an `MLP` or a `FeedForward` with logistic or tanh in that layer and a bias in the next.
    """
    inner, outer = _pair(network, layer)
    signs = real("signs", signs, str(inner.weight.shape[0]))
    if concrete(signs) and not np.isin(np.asarray(signs), (-1, 1)).all():
        raise ValueError(f"signs must be 1 or -1, got {np.asarray(signs).tolist()}.")
    turned = jax.tree.map(lambda a: a * signs.reshape((-1,) + (1,) * (a.ndim - 1)), inner)
    weight = outer.weight * signs
    bias = outer.bias
    if inner.activation is logistic:  # a S(z) = a - a S(-z)
        bias = bias + outer.matrix @ ((1 - signs) / 2)
    outer = eqx.tree_at(lambda l: (l.weight, l.bias), outer, (weight, bias))
    return eqx.tree_at(lambda n: n.layers[layer : layer + 2], network, (turned, outer))


@implements("M05.07")
def hidden_symmetries(network: NetworkLike, layer: int = 0) -> NetworkLike:
    r"""All $2^NN!$ networks that turning and reordering the $N\le5$ units of a hidden layer makes, stacked.

    One function: `jax.vmap(lambda n: n(x))(hidden_symmetries(network))` is constant.
    """
    inner, _ = _pair(network, layer)
    units = inner.weight.shape[0]
    if units > 5:
        raise ValueError(f"network must have at most 5 units in the layer, got {units}: 2^N N! grows too fast.")
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=units)))
    orders = np.array(list(itertools.permutations(range(units))))
    assert len(signs) * len(orders) == 2**units * math.factorial(units)

    def one(sign, order):
        flipped = flip_hidden(network, layer, sign)
        inner, outer = flipped.layers[layer], flipped.layers[layer + 1]
        inner = jax.tree.map(lambda a: a[order], inner)
        outer = eqx.tree_at(lambda l: l.weight, outer, outer.weight[:, order])
        return eqx.tree_at(lambda n: n.layers[layer : layer + 2], flipped, (inner, outer))

    return jax.vmap(one)(jnp.asarray(np.repeat(signs, len(orders), 0)), jnp.asarray(np.tile(orders, (len(signs), 1))))


@implements("M05.17", "M05.18")
def outer_positive(network: NetworkLike) -> NetworkLike:
    """The equivalent network with non-negative outer weights, largest first.

    For one hidden layer and one output. Networks that are the same up to turning and reordering become equal.
    """
    inner, outer = _pair(network, 0)
    if len(network.layers) != 2 or outer.weight.shape[0] != 1:
        raise ValueError("network must have one hidden layer and one output.")
    flipped = flip_hidden(network, 0, jnp.where(outer.weight[0] < 0, -1.0, 1.0))
    order = jnp.argsort(-flipped.layers[1].weight[0])
    inner = jax.tree.map(lambda a: a[order], flipped.layers[0])
    outer = eqx.tree_at(lambda l: l.weight, flipped.layers[1], flipped.layers[1].weight[:, order])
    return eqx.tree_at(lambda n: n.layers, flipped, (inner, outer))


def _pair(network, layer):
    layers = getattr(network, "layers", None)
    if not isinstance(layers, tuple) or len(layers) < 2:
        raise TypeError(f"network must be an MLP or a FeedForward with a hidden layer, got {type(network).__name__}.")
    layer = whole("layer", layer, 0, len(layers) - 2)
    inner, outer = layers[layer], layers[layer + 1]
    if inner.activation not in (logistic, tanh):
        raise ValueError(
            "network must have the activation logistic or tanh in the layer: others have no such symmetry."
        )
    if outer.bias is None:
        raise ValueError(
            "network must have a bias in the next layer, because a logistic unit with its sign flipped adds a constant."
        )
    return inner, outer
