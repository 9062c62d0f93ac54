r"""Backpropagation for multilayer networks: the recursion of the sensitivities to the pre-activations.

$H^\ell=\sigma_\ell(Z^\ell)$ and $Z^\ell=(W^\ell)^\top H^{\ell-1}+B^\ell$ with $W^\ell$ of shape
$(N_{\ell-1},N_\ell)$. For $\delta^\ell=\partial\Lambda/\partial Z^\ell$:
$\delta^L=\nabla_H\Lambda\odot\sigma'(Z^L)$, $\delta^{\ell-1}=(W^\ell\delta^\ell)\odot\sigma'(Z^{\ell-1})$, and the
derivatives by $B^\ell$ and $W^\ell$ are $\delta^\ell$ and $H^{\ell-1}(\delta^\ell)^\top$. Nothing here calls automatic
differentiation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import one_of, real, whole
from corollary.autodiff.activations import activation_pair
from corollary.catalog import implements

# a loss of one example, and its gradient by the output of the network
LOSSES = {
    "squared": (lambda h, y: jnp.sum((h - y) ** 2) / 2, lambda h, y: h - y),
    "absolute": (lambda h, y: jnp.sum(jnp.abs(h - y)), lambda h, y: jnp.sign(h - y)),
    "huber": (
        lambda h, y: jnp.sum(jnp.where(jnp.abs(h - y) < 1, (h - y) ** 2 / 2, jnp.abs(h - y) - 0.5)),
        lambda h, y: jnp.clip(h - y, -1, 1),
    ),
    "cross_entropy": (
        lambda h, y: -jnp.sum(y * jnp.log(h) + (1 - y) * jnp.log1p(-h)),
        lambda h, y: (h - y) / (h * (1 - h)),
    ),
}


class Layer(NamedTuple):
    """Weights of shape (inputs, outputs) and biases."""

    weights: jax.Array
    biases: jax.Array

    __repr__ = shown


class Pass(NamedTuple):
    """What the forward pass leaves behind: $Z^1..Z^L$ and $H^0..H^L$."""

    pre: tuple
    post: tuple


class Sensitivities(NamedTuple):
    """The gradient, layer by layer in the form of the layers, and the sensitivities $\\delta^1..\\delta^L$."""

    gradient: tuple[Layer, ...]
    deltas: tuple


def random_layers(widths: Sequence[int], scale: float = 1.0, *, key: PRNGKeyArray) -> tuple[Layer, ...]:
    """Layers with independent weights of variance `scale**2 / inputs` and biases of variance `scale**2`."""
    widths = [whole("widths", width) for width in widths]
    if len(widths) < 2:
        raise ValueError(
            f"widths must hold the number of inputs and the width of at least one layer, got {len(widths)} number(s)."
        )
    # one draw for all layers: a draw for each would take most of the compilation of what uses it
    sizes = [(m, n) for m, n in pairwise(widths)]
    draws = scale * jax.random.normal(key, (sum(m * n + n for m, n in sizes),))
    layers, at = [], 0
    for m, n in sizes:
        weights, biases = draws[at : at + m * n].reshape(m, n), draws[at + m * n : at + m * n + n]
        layers.append(Layer(weights / jnp.sqrt(m), biases))
        at += m * n + n
    return tuple(layers)


@implements("M06.05")
def forward_pass(
    layers: Sequence[Any], x: Float[ArrayLike, "... _"], activations: str | Sequence[str] = "logistic"
) -> Pass:
    """The pre-activations and the activations of every layer; `x` is one example or, with leading axes, many."""
    layers = _checked(layers)
    x = real("x", x, f"... {layers[0].weights.shape[0]}")
    pre, post = [], [x]
    for layer, (value, _) in zip(layers, _activations(activations, len(layers)), strict=True):
        pre.append(post[-1] @ layer.weights + layer.biases)
        post.append(value(pre[-1]))
    return Pass(tuple(pre), tuple(post))


@implements("M06.05", "M06.06", "M06.09")
def layered_backprop(
    layers: Sequence[Any],
    x: Float[ArrayLike, "_"],
    y: Float[ArrayLike, "_"],
    activations: str | Sequence[str] = "logistic",
    loss: str | Callable = "squared",
) -> Sensitivities:
    """The gradient of the loss of one example `x`, `y`.

    `activations` is one name for all layers or one for each; `loss` is a name of `LOSSES` or a function of output and
    label that gives the gradient by the output: nothing else depends on it. For the cross-entropy after a logistic
    last layer the factors cancel, and the sensitivity of the output is $H^L-y$.
    """
    layers = _checked(layers)
    x = real("x", x, f"{layers[0].weights.shape[0]}")
    y = real("y", y, f"{layers[-1].biases.shape[0]}")
    run = forward_pass(layers, x, activations)
    slopes = [slope(z) for (_, slope), z in zip(_activations(activations, len(layers)), run.pre, strict=True)]
    deltas = [_output_delta(run, y, slopes[-1], activations, loss)]
    for layer, slope in zip(layers[:0:-1], slopes[-2::-1], strict=True):
        deltas.insert(0, (layer.weights @ deltas[0]) * slope)
    gradient = tuple(Layer(jnp.outer(h, delta), delta) for h, delta in zip(run.post, deltas, strict=False))
    return Sensitivities(gradient, tuple(deltas))


@implements("M06.07")
def backprop_rows(
    layers: Sequence[Any],
    x: Float[ArrayLike, "n _"],
    y: Float[ArrayLike, "n _"],
    activations: str = "logistic",
    loss: str | Callable = "squared",
) -> Sensitivities:
    """The gradient of the average loss over a batch stored as rows (n, d): one matrix product a layer.

    The sensitivities are rows too, (n, width), not yet averaged.
    """
    layers = _checked(layers)
    dims: dict = {}
    x = real("x", x, f"n {layers[0].weights.shape[0]}", dims)
    y = real("y", y, f"n {layers[-1].biases.shape[0]}", dims)
    run = forward_pass(layers, x, activations)
    slopes = [slope(z) for (_, slope), z in zip(_activations(activations, len(layers)), run.pre, strict=True)]
    deltas = [_output_delta(run, y, slopes[-1], activations, loss)]
    for layer, slope in zip(layers[:0:-1], slopes[-2::-1], strict=True):
        deltas.insert(0, (deltas[0] @ layer.weights.T) * slope)
    n = x.shape[0]
    gradient = tuple(Layer(h.T @ delta / n, delta.mean(0)) for h, delta in zip(run.post, deltas, strict=False))
    return Sensitivities(gradient, tuple(deltas))


@implements("M06.07")
def backprop_columns(
    layers: Sequence[Any],
    x: Float[ArrayLike, "d n"],
    y: Float[ArrayLike, "_ _"],
    activations: str = "logistic",
    loss: str | Callable = "squared",
) -> Sensitivities:
    r"""The same with everything transposed: data as columns (d, n), weights of shape (outputs, inputs), $Z=WH+B$.

    The gradient has the shapes of these layers.
    """
    layers = [Layer(real("weights", w, "m n"), real("biases", b, "m")) for w, b in layers]
    x, y = real("x", x, "d n"), real("y", y, "d n")
    pairs = _activations(activations, len(layers))
    pre, post = [], [x]
    for layer, (value, _) in zip(layers, pairs, strict=True):
        if layer.weights.shape != (layer.biases.shape[0], post[-1].shape[0]):
            expected = (layer.biases.shape[0], post[-1].shape[0])
            raise ValueError(f"weights must have shape {expected}, (outputs, inputs), got {layer.weights.shape}.")
        pre.append(layer.weights @ post[-1] + layer.biases[:, None])
        post.append(value(pre[-1]))
    if y.shape != post[-1].shape:
        raise ValueError(f"y must have shape {post[-1].shape}, one column per example, got {y.shape}.")
    slopes = [slope(z) for (_, slope), z in zip(pairs, pre, strict=True)]
    deltas = [_output_delta(Pass(tuple(pre), tuple(post)), y, slopes[-1], activations, loss)]
    for layer, slope in zip(layers[:0:-1], slopes[-2::-1], strict=True):
        deltas.insert(0, (layer.weights.T @ deltas[0]) * slope)
    n = x.shape[1]
    gradient = tuple(Layer(delta @ h.T / n, delta.mean(1)) for h, delta in zip(post, deltas, strict=False))
    return Sensitivities(gradient, tuple(deltas))


def _output_delta(run, y, slope, activations, loss):
    if not callable(loss):
        one_of("loss", loss, tuple(LOSSES))
        last = activations if isinstance(activations, str) else activations[-1]
        if (loss, last) == ("cross_entropy", "logistic"):
            return run.post[-1] - y
        loss = LOSSES[loss][1]
    return loss(run.post[-1], y) * slope


def _activations(activations, depth):
    names = [activations] * depth if isinstance(activations, str) else list(activations)
    if len(names) != depth:
        raise ValueError(f"activations must hold one name per layer, {depth} in all, got {len(names)}.")
    return [activation_pair(name) for name in names]


def _checked(layers) -> list[Layer]:
    layers = [
        Layer(real(f"weights of layer {i}", w, "m n"), real(f"biases of layer {i}", b, "n"))
        for i, (w, b) in enumerate(layers, 1)
    ]
    if not layers:
        raise ValueError("layers must hold at least one pair of weights and biases.")
    widths = [layers[0].weights.shape[0], *(layer.biases.shape[0] for layer in layers)]
    for i, (layer, m, n) in enumerate(zip(layers, widths, widths[1:], strict=False), 1):
        if layer.weights.shape != (m, n):
            raise ValueError(f"weights of layer {i} must have shape {(m, n)}, got {layer.weights.shape}.")
    return layers
