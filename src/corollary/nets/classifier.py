r"""The softmax classifier on a network, and its backpropagation written out in both conventions.

$Z^1=W^1x+b^1$, $H^\ell=\sigma(Z^\ell)$, $Z^\ell=W^\ell H^{\ell-1}+b^\ell$ for $\ell=2..L$, $U=W^{L+1}H^L+b^{L+1}$ and
$m=S_{softmax}(U)$, with the loss $\lambda=-\ln m_y$. Whatever the convention, $\partial_U\lambda=m-e(y)$.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray, PyTree

from corollary._validate import labels, one_of, real, whole
from corollary.catalog import implements
from corollary.nets.activations import ActivationFunction, tanh
from corollary.nets.initialisations import uniform_fan_in
from corollary.nets.mlp import MLP
from corollary.network.losses import cross_entropy


@implements("M07.19", "M08.01")
class Classifier(eqx.Module):
    r"""$m(x;\theta)=S_{softmax}(U)$ for $L$ hidden layers of $d_H$ units, called on one example; `vmap` it over rows.

    It holds $d_H(d+1)+(L-1)d_H(d_H+1)+J(d_H+1)$ numbers; $L=1$ is the shallow classifier. `of` takes an `MLP`.
    """

    network: MLP

    def __init__(
        self,
        inputs: int,
        width: int,
        depth: int,
        classes: int,
        activation: Callable = tanh,
        *,
        key: PRNGKeyArray,
        initialisation: Callable = uniform_fan_in,
        bias_initialisation: Callable = uniform_fan_in,
    ):
        sizes = (
            whole("inputs", inputs),
            *[whole("width", width)] * whole("depth", depth),
            whole("classes", classes, 2),
        )
        self.network = MLP(
            sizes, activation, key=key, initialisation=initialisation, bias_initialisation=bias_initialisation
        )

    @classmethod
    def of(cls, network: MLP) -> "Classifier":
        """The classifier whose $U$ is the output of `network`."""
        if not isinstance(network, MLP):
            raise TypeError(f"network must be an MLP, got {type(network).__name__}.")
        blank = cls(1, 1, 1, 2, key=jax.random.key(0))
        return eqx.tree_at(lambda classifier: classifier.network, blank, network)

    def logits(self, x: Float[ArrayLike, "..."]) -> Array:
        r"""$U$."""
        return self.network(x)

    def __call__(self, x: Float[ArrayLike, "..."]) -> Array:
        return jax.nn.softmax(self.logits(x))

    def predict(self, x: Float[ArrayLike, "..."]) -> Array:
        r"""$\arg\max_jm_j(x)$, which adding a number to all of $U$ does not change; a tie goes to the lowest class."""
        return jnp.argmax(self.logits(x))

    def loss(self, x: Float[ArrayLike, "..."], y: Int[ArrayLike, ""]) -> Array:
        r"""$-\ln m_y(x)$ of one example."""
        return cross_entropy(self.logits(x), labels("y", y, self.network.layers[-1].weight.shape[0], ""))


def mean_loss(network: Classifier, data: PyTree) -> Array:
    r"""$\frac1M\sum_m-\ln m_{y_m}(x_m)$ over the rows of the pair $(x,y)$: `BatchLoss(mean_loss)` trains by it."""
    x, y = _rows(network, data)
    scores = jax.nn.log_softmax(jax.vmap(network.logits)(x))
    return -jnp.mean(jnp.take_along_axis(scores, y[:, None], axis=1))


def accuracy(network: Classifier, data: PyTree) -> Array:
    """The share of the rows of the pair `(x, y)` whose class is predicted right."""
    x, y = _rows(network, data)
    return jnp.mean(jax.vmap(network.predict)(x) == y, dtype=x.dtype)


def _rows(network, data):
    x, y = data
    x = real("x", x, "n d", dims := {})
    return x, labels("y", y, network.network.layers[-1].weight.shape[0], "n", dims)


class Backpropagated(NamedTuple):
    r"""The gradient, a `Classifier`, and the sensitivities $\delta^1..\delta^L$ of the convention."""

    gradient: Classifier
    deltas: tuple


@implements("M07.20", "M08.02", "M08.12")
def classifier_backprop(
    network: Classifier, x: Float[ArrayLike, "_"], y: Int[ArrayLike, ""], by: str = "H"
) -> Backpropagated:
    r"""The gradient of $-\ln m_y(x)$ of one example, without automatic differentiation.

    `by="H"`: $\delta^\ell=\partial\lambda/\partial H^\ell$, so $\delta^L=(W^{L+1})^\top\partial_U\lambda$,
    $\delta^\ell=(W^{\ell+1})^\top(\delta^{\ell+1}\odot\sigma'(Z^{\ell+1}))$ and
    $\partial_{b^\ell}\lambda=\delta^\ell\odot\sigma'(Z^\ell)$ (M chapter 8). `by="Z"`:
    $\delta^\ell=\partial\lambda/\partial Z^\ell=\partial_{b^\ell}\lambda$, with the slope inside (M section 7.4.2 and
    Exercise 8.3). In both $\partial_{W^\ell}\lambda=\partial_{b^\ell}\lambda\,(H^{\ell-1})^\top$, for all
    $\ell=1..L$ (M prints $\ell\le L-1$), and $\partial_{W^{L+1}}\lambda=\partial_U\lambda(H^L)^\top$.
    """
    if not isinstance(network, Classifier):
        raise TypeError(f"network must be a Classifier, got {type(network).__name__}.")
    one_of("by", by, ("H", "Z"))
    layers = network.network.layers
    slope_of = _slope(layers)
    h, states, slopes = real("x", x, str(layers[0].weight.shape[1])), [], []
    for layer in layers[:-1]:
        states.append(h)
        z = layer.weight @ h + layer.bias
        h, slope = layer.activation(z), slope_of(z)
        slopes.append(slope)
    last = layers[-1]
    classes = last.weight.shape[0]
    truth = jax.nn.one_hot(labels("y", y, classes, ""), classes, dtype=h.dtype)
    by_u = jax.nn.softmax(last.weight @ h + last.bias) - truth
    by_bias, by_weight, deltas = [by_u], [jnp.outer(by_u, h)], []
    below = last.weight.T @ by_u
    for layer, state, slope in zip(layers[-2::-1], states[::-1], slopes[::-1], strict=True):
        by_pre = below * slope
        deltas.insert(0, below if by == "H" else by_pre)
        by_bias.insert(0, by_pre)
        by_weight.insert(0, jnp.outer(by_pre, state))
        below = layer.weight.T @ by_pre
    gradient = eqx.tree_at(
        lambda m: [a for layer in m.network.layers for a in (layer.weight, layer.bias)],
        network,
        [a for pair in zip(by_weight, by_bias, strict=True) for a in pair],
    )
    return Backpropagated(gradient, tuple(deltas))


def _slope(layers):
    sigma = layers[0].activation
    if not isinstance(sigma, ActivationFunction):
        raise TypeError(f"network must have an Activation, which knows its derivative, got {sigma!r}.")
    if any(layer.bias is None or layer.scaling != "standard" for layer in layers):
        raise ValueError("network must have biases and the standard scaling in all layers.")
    return sigma.prime
