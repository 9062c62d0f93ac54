r"""Multilayer perceptrons of any depth, the shallow networks of the texts, and deep linear networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._types import NetworkLike
from corollary._validate import labels, real, whole
from corollary.catalog import implements
from corollary.nets.activations import identity, logistic
from corollary.nets.composition import activations_of
from corollary.nets.initialisations import uniform_fan_in
from corollary.nets.layers import FullyConnected


@implements("B02.24", "E02.08", "M01.01", "T01.05", "M07.17")
class MLP(eqx.Module):
    r"""$x\mapsto W_L\phi(\cdots\phi(W_1x+b_1)\cdots)+b_L$ for `sizes` $=(n_0,n_1,\dots,n_L)$.

    No activation after the last layer. `initialisation`, `bias_initialisation` and `scaling` are those of
    `FullyConnected`; `bias=False` leaves all biases out.

    >>> MLP((3, 8, 2), key=key)(x[0]).shape
    (2,)
    """

    layers: tuple[FullyConnected, ...]

    def __init__(
        self,
        sizes: Sequence[int],
        activation: Callable = logistic,
        *,
        key: PRNGKeyArray,
        bias: bool = True,
        initialisation: Callable = uniform_fan_in,
        bias_initialisation: Callable = uniform_fan_in,
        scaling: str = "standard",
    ):
        sizes = _sizes(sizes)
        depth = len(sizes) - 1
        options = {
            "bias": bias,
            "initialisation": initialisation,
            "bias_initialisation": bias_initialisation,
            "scaling": scaling,
        }
        self.layers = tuple(
            FullyConnected(n, m, activation if i < depth - 1 else identity, key=k, **options)
            for i, (n, m, k) in enumerate(zip(sizes[:-1], sizes[1:], jax.random.split(key, depth), strict=True))
        )

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.activations(x)[-1]

    def activations(self, x: Float[ArrayLike, "n"]) -> list:
        r"""$[x^0,\dots,x^L]$: the input, what every hidden layer makes of it, and the output."""
        return activations_of(self.layers, x)


@implements("B02.05", "B06.04", "B06.09", "E02.14")
class DeepLinearNetwork(eqx.Module):
    r"""$x\mapsto W_L\cdots W_1x$: one matrix, of rank at most the smallest size, with a parametrisation of its own."""

    weights: tuple[jax.Array, ...]

    def __init__(self, sizes: Sequence[int], *, key: PRNGKeyArray, initialisation: Callable = uniform_fan_in):
        network = MLP(sizes, identity, key=key, bias=False, initialisation=initialisation)
        self.weights = tuple(layer.weight for layer in network.layers)

    def __call__(self, x: Float[ArrayLike, "_"]) -> Float[Array, "_"]:
        x = real("x", x, str(self.weights[0].shape[1]), finite=False)
        for weight in self.weights:
            x = weight @ x
        return x

    def end_to_end_matrix(self) -> Array:
        r"""$W_L\cdots W_1$."""
        return jnp.linalg.multi_dot(self.weights[::-1]) if len(self.weights) > 1 else self.weights[0]


@implements("M01.09")
class ShallowNetwork(eqx.Module):
    r"""$m(x;\theta)=\sum_{n=1}^Nc^n\sigma(w^n\cdot x+b^n)$: one hidden layer, no output bias; $N(d+2)$ numbers."""

    hidden: FullyConnected
    outer: jax.Array

    def __init__(
        self,
        inputs: int,
        units: int,
        activation: Callable = logistic,
        *,
        key: PRNGKeyArray,
        initialisation: Callable = uniform_fan_in,
        bias_initialisation: Callable = uniform_fan_in,
        outer_initialisation: Callable = uniform_fan_in,
    ):
        hidden_key, outer_key = jax.random.split(key)
        self.hidden = FullyConnected(
            inputs,
            units,
            activation,
            key=hidden_key,
            initialisation=initialisation,
            bias_initialisation=bias_initialisation,
        )
        self.outer = outer_initialisation(outer_key, (1, units), jnp.result_type(float))[0]

    def __call__(self, x: Float[ArrayLike, "..."]) -> Array:
        return self.outer @ self.hidden(x)


@implements("B02.17")
class SigmoidMLP(eqx.Module):
    r"""$f(x;\beta,w)=\sum_{j=1}^m\beta_j\sigma(w_j\cdot x)$ (2.1): no biases at all, $m(n+1)$ numbers.

    For a bias append a constant to the input.
    """

    hidden: jax.Array
    outer: jax.Array

    def __init__(self, inputs: int, units: int, *, key: PRNGKeyArray, initialisation: Callable = uniform_fan_in):
        inputs, units = whole("inputs", inputs), whole("units", units)
        hidden_key, outer_key = jax.random.split(key)
        self.hidden = initialisation(hidden_key, (units, inputs), jnp.result_type(float))
        self.outer = initialisation(outer_key, (1, units), jnp.result_type(float))[0]

    def __call__(self, x: Float[ArrayLike, "_"]) -> Array:
        return self.outer @ logistic(self.hidden @ real("x", x, str(self.hidden.shape[1]), finite=False))


@implements("B02.05", "E02.14", "M01.01", "M01.10")
def collapse(network: NetworkLike) -> FullyConnected:
    r"""The single affine layer that computes the same as a network whose activations are all the identity.

    Takes an `MLP` or a `ShallowNetwork`: of the latter, $w=\sum_nc^nw^n$ and $b=\sum_nc^nb^n$.
    """
    if isinstance(network, ShallowNetwork):
        layers = (network.hidden, FullyConnected.of(network.outer[None]))
    elif isinstance(network, MLP):
        layers = network.layers
    else:
        raise TypeError(f"network must be an MLP or a ShallowNetwork, got {type(network).__name__}.")
    if any(layer.activation is not identity for layer in layers):
        raise ValueError("network must have the identity as its activation: no other collapses to one affine layer.")
    weight, bias = layers[0].matrix, layers[0].bias
    for layer in layers[1:]:
        weight = layer.matrix @ weight
        bias = None if bias is None else layer.matrix @ bias
        if layer.bias is not None:
            bias = layer.bias if bias is None else bias + layer.bias
    return FullyConnected.of(weight, bias)


@implements("E02.09")
def permute_hidden(network: MLP, layer: int, permutation: Int[ArrayLike, "width"]) -> MLP:
    r"""The same function with the units of hidden layer `layer` (0 is the first) in another order.

    $(W^\ell,b^\ell,W^{\ell+1})\to(PW^\ell,Pb^\ell,W^{\ell+1}P^{-1})$; unit `permutation[i]` becomes unit $i$.
    """
    if not isinstance(network, MLP):
        raise TypeError(f"network must be an MLP, got {type(network).__name__}.")
    layer = whole("layer", layer, 0, len(network.layers) - 2)
    width = network.layers[layer].weight.shape[0]
    permutation = labels("permutation", permutation, width, str(width))
    if not isinstance(permutation, jax.core.Tracer) and len(set(permutation.tolist())) < width:
        raise ValueError(f"permutation must hold each of 0 to {width - 1} once, got {permutation.tolist()}.")
    inner, outer = network.layers[layer], network.layers[layer + 1]
    inner = jax.tree.map(lambda a: a[permutation], inner)
    outer = eqx.tree_at(lambda l: l.weight, outer, outer.weight[:, permutation])
    return eqx.tree_at(lambda n: n.layers[layer : layer + 2], network, (inner, outer))


def _sizes(sizes) -> tuple[int, ...]:
    if not isinstance(sizes, Sequence) or len(sizes) < 2:
        raise TypeError(
            f"sizes must be a sequence of at least two layer sizes, input and output included, got {sizes!r}."
        )
    return tuple(whole("sizes", n) for n in sizes)
