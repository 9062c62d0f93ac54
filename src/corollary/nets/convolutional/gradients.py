r"""Gradients of convolutional layers, written out: they are correlations and convolutions themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import labels, positive, real, whole
from corollary.catalog import implements
from corollary.nets.activations import ActivationFunction, tanh
from corollary.nets.convolutional.operator import convolve, cross_correlate
from corollary.network.losses import cross_entropy


class LayerGradients(NamedTuple):
    """The gradients by the input, the kernel and the bias of a convolutional layer."""

    x: jax.Array
    kernel: jax.Array
    bias: jax.Array

    __repr__ = shown


@implements("E04.17", "B10.12", "M14.15")
def layer_backward(
    x: Float[ArrayLike, "..."], kernel: Float[ArrayLike, "..."], upstream: Float[ArrayLike, "..."]
) -> LayerGradients:
    r"""Of $Y_o=b_o+\sum_cK_{oc}\star X_c$ (valid, stride 1), given $\delta=\partial\ell/\partial Y$:
    $$\frac{\partial\ell}{\partial K_{oc}}=\delta_o\star X_c,\qquad
    \frac{\partial\ell}{\partial X_c}=\sum_o\delta_o*K_{oc},\qquad\frac{\partial\ell}{\partial b_o}=\sum_i\delta_o[i].$$

    The kernel's gradient is the valid correlation of the input with $\delta$ as the filter; the input's is the full
    convolution (the transpose of the layer's matrix). `x` has shape (channels, *size), `kernel` (outputs, channels,
    *window), `upstream` that of the output.
    """
    x, kernel, upstream = real("x", x), real("kernel", kernel), real("upstream", upstream)
    size = tuple(n - m + 1 for n, m in zip(x.shape[1:], kernel.shape[2:], strict=False))
    if kernel.ndim != x.ndim + 1 or x.ndim < 2 or kernel.shape[1] != x.shape[0] or min(size) < 1:
        raise ValueError(
            f"kernel must have shape (outputs, channels, *window) and fit into x, got {kernel.shape} for {x.shape}."
        )
    if upstream.shape != (kernel.shape[0], *size):
        raise ValueError(
            f"upstream must have the shape of the output, {(kernel.shape[0], *size)}, got {upstream.shape}."
        )
    pairs = jax.vmap(jax.vmap(cross_correlate, in_axes=(None, 0)), in_axes=(0, None))
    spread = jax.vmap(jax.vmap(convolve, in_axes=(None, 0)))
    by_x = spread(upstream, kernel).sum(axis=0)
    return LayerGradients(by_x, pairs(upstream, x), upstream.sum(axis=tuple(range(1, upstream.ndim))))


@implements("M14.14", "M14.17", "M14.25")
class ConvClassifier(eqx.Module):
    r"""$Z_k=\mathbf r_k\star\mathbf X+b^1_k$, $H=\sigma(Z)$, $U_j=\langle W_j,H\rangle+b_j$, $m=\mathrm{softmax}(U)$.

    One image (rows, columns) with one channel, $K$ feature maps, $J$ classes. Chapter 14 of M has no $b^1$ (it is
    exercise 14.4): it starts at 0.
    """

    filters: jax.Array
    filter_bias: jax.Array
    weight: jax.Array
    bias: jax.Array
    activation: ActivationFunction = eqx.field(static=True)

    def __init__(
        self,
        shape: Sequence[int],
        window: Sequence[int],
        maps: int,
        classes: int,
        activation: ActivationFunction = tanh,
        *,
        key: PRNGKeyArray,
    ):
        rows, columns = (whole("shape", n) for n in shape)
        ky, kx = (whole("window", n) for n in window)
        maps, classes = whole("maps", maps), whole("classes", classes, 2)
        if ky > rows or kx > columns:
            raise ValueError(f"window must fit into the image {(rows, columns)}, got {(ky, kx)}.")
        if not isinstance(activation, ActivationFunction):
            raise TypeError(f"activation must be an Activation, which knows its derivative, got {activation!r}.")
        r_key, w_key = jax.random.split(key)
        size = (rows - ky + 1) * (columns - kx + 1) * maps
        self.filters = jax.random.normal(r_key, (maps * ky * kx,)).reshape(maps, ky, kx) * (ky * kx) ** -0.5
        draws = jax.random.normal(w_key, (classes * size,)) * size**-0.5
        self.weight = draws.reshape(classes, maps, rows - ky + 1, columns - kx + 1)
        self.filter_bias, self.bias = jnp.zeros(maps), jnp.zeros(classes)
        self.activation = activation

    def preactivations(self, x: Float[ArrayLike, "rows columns"]) -> Float[Array, "_ _ _"]:
        r"""$Z$, of shape (maps, rows, columns)."""
        x = real("x", x, "rows columns", finite=False)
        return jax.vmap(cross_correlate, in_axes=(0, None))(self.filters, x) + self.filter_bias[:, None, None]

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""The logits $U$ of one image."""
        return jnp.tensordot(self.weight, self.activation(self.preactivations(x)), axes=3) + self.bias

    def loss(self, x: Float[ArrayLike, "..."], y: Int[ArrayLike, ""]) -> Float[Array, ""]:
        r"""$-\ln m_y$."""
        return cross_entropy(self(x), labels("y", y, self.bias.shape[0], ""))


@implements("M14.15", "M14.16", "M14.17", "M14.25")
def classifier_gradient(network: ConvClassifier, x: Float[ArrayLike, "..."], y: Int[ArrayLike, ""]) -> ConvClassifier:
    r"""The gradient of $-\ln m_y$ for one image, without automatic differentiation, in the form of the network.

    $\partial_U=m-e(y)$, $\delta=\sum_j\partial_{U_j}W_j$, $\partial_{W_j}=\partial_{U_j}H$, $\partial_b=\partial_U$,
    and with $D=\sigma'(Z)\odot\delta$: $\partial_{\mathbf r_k}=D_k\star\mathbf X$, $\partial_{b^1_k}=\sum_{iq}D_{kiq}$.
    """
    if not isinstance(network, ConvClassifier):
        raise TypeError(f"network must be a ConvClassifier, got {type(network).__name__}.")
    z = network.preactivations(x)
    h = network.activation(z)
    classes = network.bias.shape[0]
    truth = jax.nn.one_hot(labels("y", y, classes, ""), classes, dtype=h.dtype)
    by_u = jax.nn.softmax(jnp.tensordot(network.weight, h, axes=3) + network.bias) - truth
    below = network.activation.prime(z) * jnp.tensordot(by_u, network.weight, axes=1)
    by_filters = jax.vmap(cross_correlate, in_axes=(0, None))(below, real("x", x))
    by_weight = by_u[:, None, None, None] * h
    return eqx.tree_at(
        lambda m: (m.filters, m.filter_bias, m.weight, m.bias),
        network,
        (by_filters, below.sum(axis=(1, 2)), by_weight, by_u),
    )


class Descent(NamedTuple):
    """The network after the last step, and the loss of every step's image before it."""

    network: ConvClassifier
    losses: jax.Array

    __repr__ = shown


@implements("M14.16", "B10.12")
def sgd_classifier(
    network: ConvClassifier,
    x: Float[ArrayLike, "n rows columns"],
    y: Int[ArrayLike, "n"],
    *,
    key: PRNGKeyArray,
    steps: int,
    step: Scalar = 0.05,
) -> Descent:
    r"""Draw an image, go forward and backward as in `classifier_gradient`, step down the gradient, and again."""
    x = real("x", x, "n rows columns", dims := {})
    y = labels("y", y, network.bias.shape[0], "n", dims)
    positive("step", step)

    def advance(network, i):
        slope = classifier_gradient(network, x[i], y[i])
        moved = jax.tree.map(lambda a, g: a - step * g, *(eqx.filter(m, eqx.is_array) for m in (network, slope)))
        return eqx.combine(moved, network), network.loss(x[i], y[i])

    chosen = jax.random.randint(key, (whole("steps", steps),), 0, x.shape[0])
    return Descent(*jax.lax.scan(advance, network, chosen))
