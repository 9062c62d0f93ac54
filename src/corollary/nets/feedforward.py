"""Feed-forward networks with an activation of its own after every layer, the last included, and any given weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.activations import identity, relu, tanh
from corollary.nets.initialisations import uniform_fan_in
from corollary.nets.layers import FullyConnected


@implements("M05.01", "M05.11")
class FeedForward(eqx.Module):
    r"""$m(x;\theta)=\phi_L(W_L\cdots\phi_1(W_1x+B_1)\cdots+B_L)$ for `sizes` $=(D_0,\dots,D_L)$.

    `activations` is one for all layers or one per layer; unlike in an `MLP` the last layer has one too. It holds
    $\sum_nD_n(D_{n-1}+1)$ numbers. `FeedForward.of` takes the matrices and biases themselves.
    """

    layers: tuple[FullyConnected, ...]

    def __init__(
        self,
        sizes: Sequence[int],
        activations: Callable | Sequence[Callable],
        *,
        key: PRNGKeyArray,
        initialisation: Callable = uniform_fan_in,
        bias_initialisation: Callable = uniform_fan_in,
    ):
        if not isinstance(sizes, Sequence) or len(sizes) < 2:
            raise TypeError(f"sizes must be a sequence of at least two layer sizes, got {sizes!r}.")
        depth = len(sizes) - 1
        sizes, activations = [whole("sizes", n) for n in sizes], _one_each(activations, depth)
        self.layers = tuple(
            FullyConnected(n, m, phi, key=k, initialisation=initialisation, bias_initialisation=bias_initialisation)
            for n, m, phi, k in zip(sizes[:-1], sizes[1:], activations, jax.random.split(key, depth), strict=True)
        )

    @classmethod
    def of(cls, params: Sequence, activations: Callable) -> "FeedForward":
        r"""The network with $\theta=((W_1,B_1),\dots,(W_L,B_L))$, where $W_n$ has shape $(D_n,D_{n-1})$."""
        if not isinstance(params, Sequence) or not params or any(len(pair) != 2 for pair in params):
            raise TypeError("params must be a sequence of pairs, the matrix and the bias of each layer.")
        layers, width = [], None
        for n, ((weight, bias), phi) in enumerate(zip(params, _one_each(activations, len(params)), strict=True), 1):
            weight = real(f"W{n}", weight, "m n" if width is None else f"m {width}", dims := {})
            layers.append(FullyConnected.of(weight, real(f"B{n}", bias, "m", dims), phi))
            width = weight.shape[0]
        sizes = [layers[0].weight.shape[1], *(layer.weight.shape[0] for layer in layers)]
        return eqx.tree_at(lambda n: n.layers, cls(sizes, identity, key=jax.random.key(0)), tuple(layers))

    def __call__(self, x: Float[ArrayLike, "..."]) -> Array:
        for layer in self.layers:
            x = layer(x)
        return x


@implements("M05.03")
@dataclass(frozen=True)
class HyperParameters:
    """What is chosen before training: how many hidden layers, how wide each, and the activations of all layers.

    Question one of the text, the weights, is answered by training; depth, widths and activations by validation.
    """

    widths: tuple[int, ...]
    activations: tuple[Callable, ...]

    def __post_init__(self):
        object.__setattr__(self, "widths", tuple(whole("widths", n) for n in self.widths))
        object.__setattr__(self, "activations", _one_each(self.activations, len(self.widths) + 1))

    @property
    def depth(self) -> int:
        """The number of hidden layers."""
        return len(self.widths)

    def parameters(self, inputs: int, outputs: int) -> int:
        r"""$\sum_nD_n(D_{n-1}+1)$, without building the network."""
        sizes = (whole("inputs", inputs), *self.widths, whole("outputs", outputs))
        return sum(m * (n + 1) for n, m in pairwise(sizes))

    def build(self, inputs: int, outputs: int, *, key: PRNGKeyArray) -> FeedForward:
        """A network with these choices and random weights."""
        return FeedForward((inputs, *self.widths, outputs), self.activations, key=key)


@implements("M05.02")
def book_feedforward(last_bias: float = 6.0) -> FeedForward:
    r"""The network 2-3-4-1 of (5.2): tanh, tanh, ReLU.

    With the printed last bias, 6, ReLU never acts: its argument is at least $6+5\tanh1-2>7.8$ for every input. With
    another `last_bias`, such as -10, it does.
    """
    first = [[1, -3], [2, 4], [-6, 0]]
    second = [[-1, -2, 0], [6, 7, -1], [5, 6, -2], [0, 1, -2]]
    theta = ((first, [-2, 0, -1]), (second, [4, 1, -2, 3]), ([[5, -1, 1, 0]], jnp.reshape(last_bias, 1)))
    return FeedForward.of(theta, (tanh, tanh, relu))


def _one_each(activations, layers: int) -> tuple:
    activations = (activations,) * layers if callable(activations) else activations
    if not isinstance(activations, Sequence) or not all(map(callable, activations)):
        raise TypeError(f"activations must be one function or a sequence of them, got {activations!r}.")
    if len(activations) != layers:
        raise ValueError(f"activations must be a single one or one per layer, {layers} in all, got {len(activations)}.")
    return tuple(activations)
