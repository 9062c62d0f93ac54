r"""Convolutional networks in the form of LeNet: convolution, activation, pooling, again, and affine layers on top."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._validate import labels, one_of, real, whole
from corollary.catalog import implements
from corollary.nets.activations import relu
from corollary.nets.convolutional.sizes import convolution_weights, output_size
from corollary.nets.mlp import MLP
from corollary.network.losses import cross_entropy

READOUTS = ("flatten", "max", "mean")


class Stage(NamedTuple):
    """One convolution with its activation and pooling.

    `kernel` is a size or a pair of sizes (rows, columns); `padding` zeros are added on all sides; `pool` is the size of
    the blocks that are reduced to their maximum, 1 for none.
    """

    channels: int
    kernel: int | tuple[int, int] = 3
    stride: int = 1
    padding: int = 0
    pool: int = 1


@implements("B10.01", "E04.16", "M14.18")
class ConvolutionalNetwork(eqx.Module):
    r"""$H^\ell_k=\mathrm{pool}\,\sigma(b_k+\sum_{k'}r^\ell_{kk'}\star H^{\ell-1}_{k'})$, $H^0=x$, then affine layers.

    `shape` is that of one image (channels, rows, columns). The `readout` takes the last maps as one vector
    ("flatten"), or of each map its maximum or mean over all positions, which makes the class the same wherever the
    object is. `hidden` are the sizes of the layers between readout and logits. With one output, $f$, the probability
    of the class 1 is $1/(1+e^{-f})$; with more it is the softmax. The convolutions are Equinox's.
    """

    convolutions: tuple[eqx.nn.Conv2d, ...]
    dense: MLP
    stages: tuple[Stage, ...] = eqx.field(static=True)
    activation: Callable = eqx.field(static=True)
    readout: str = eqx.field(static=True)

    def __init__(
        self,
        shape: Sequence[int],
        stages: Sequence[Stage],
        outputs: int,
        *,
        key: PRNGKeyArray,
        hidden: Sequence[int] = (),
        activation: Callable = relu,
        readout: str = "flatten",
        bias: bool = True,
    ):
        if not isinstance(shape, Sequence) or len(shape) != 3:
            raise TypeError(f"shape must be (channels, rows, columns), got {shape!r}.")
        if not isinstance(stages, Sequence) or not stages:
            raise TypeError(f"stages must be a sequence of one or more stages, got {stages!r}.")
        stages = tuple(Stage(*stage) for stage in stages)
        channels, *size = (whole("shape", n) for n in shape)
        *keys, dense_key = jax.random.split(key, len(stages) + 1)
        convolutions = []
        for i, (stage, k) in enumerate(zip(stages, keys, strict=True)):
            convolutions.append(_convolution(channels, stage, bias, k))
            size = _size_after(stage, size)
            if min(size) < 1:
                raise ValueError(
                    f"stages must leave at least one pixel of the image; stage {i} reduces it to {tuple(size)}."
                )
            channels = stage.channels
        self.convolutions, self.stages = tuple(convolutions), stages
        self.readout, self.activation = one_of("readout", readout, READOUTS), activation
        features = channels * (size[0] * size[1] if readout == "flatten" else 1)
        self.dense = MLP((features, *hidden, whole("outputs", outputs)), activation, key=dense_key)

    def maps(self, x: Float[ArrayLike, "_ h w"]) -> list:
        """The image and what every stage makes of it, each (channels, rows, columns)."""
        maps = [real("x", x, f"{self.convolutions[0].in_channels} h w", finite=False)]
        for convolution, stage in zip(self.convolutions, self.stages, strict=True):
            maps.append(_pool(self.activation(convolution(maps[-1])), stage.pool))
        return maps

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The logits of one image."""
        last = self.maps(x)[-1]
        if self.readout != "flatten":
            last = getattr(last, self.readout)(axis=(1, 2))
        return self.dense(last.ravel())

    def batch(self, x: Float[ArrayLike, "n _ h w"]) -> Float[Array, "n _"]:
        """The logits of images (n, channels, rows, columns): what `jax.vmap` of the network gives.

        On a CPU in less than half of the time where channels are few: the examples lie along the last axis, and
        the windows of all of them are one matrix, so that a layer is one product.
        """
        x = real("x", x, f"n {self.convolutions[0].in_channels} h w", finite=False)
        if jax.default_backend() != "cpu":
            return jax.vmap(self)(x)
        x = jnp.moveaxis(x, 0, -1)
        for convolution, stage in zip(self.convolutions, self.stages, strict=True):
            x = _pool(self.activation(_product(convolution, stage, x)), stage.pool)
        if self.readout != "flatten":
            x = getattr(x, self.readout)(axis=(1, 2))
        return jax.vmap(self.dense)(x.reshape(-1, x.shape[-1]).T)

    def probabilities(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """Of the class 1 if there is one output, of all classes otherwise."""
        logits = self(x)
        return jax.nn.sigmoid(logits[0]) if logits.shape[0] == 1 else jax.nn.softmax(logits)

    def loss(self, x: Float[ArrayLike, "..."], y: Int[ArrayLike, ""]) -> Float[Array, ""]:
        """The cross-entropy of one image and its class."""
        logits = self(x)
        return cross_entropy(logits, labels("y", y, max(logits.shape[0], 2), ""))


@implements("B10.01")
def lenet5(outputs: int = 10, *, key: PRNGKeyArray, activation: Callable = relu) -> ConvolutionalNetwork:
    """LeNet-5's shape on images of 28 by 28: 6 and 16 maps by 5 by 5 windows, maxima over 2 by 2, layers of 120, 84."""
    stages = (Stage(6, 5, padding=2, pool=2), Stage(16, 5, pool=2))
    return ConvolutionalNetwork((1, 28, 28), stages, outputs, key=key, hidden=(120, 84), activation=activation)


@implements("B10.01")
def network_parameters(shape: Sequence[int], stages: Sequence[Stage], outputs: int, hidden: Sequence[int] = ()) -> int:
    r"""How many numbers a `ConvolutionalNetwork` holds that flattens: $\sum K(k_yk_xK'+1)$ and the affine layers."""
    channels, *size = shape
    count = 0
    for stage in (Stage(*s) for s in stages):
        count += convolution_weights(channels, stage.channels, _window(stage))
        channels, size = stage.channels, _size_after(stage, size)
    sizes = (channels * size[0] * size[1], *hidden, outputs)
    return count + sum(m * (n + 1) for n, m in itertools.pairwise(sizes))


def _convolution(channels, stage, bias, key):
    """Equinox's layer, its parameters by its own law, drawn as vectors: draws of rank four take long to compile."""
    window = _window(stage)
    layer = eqx.filter_eval_shape(
        eqx.nn.Conv2d, channels, stage.channels, window, stage.stride, stage.padding, use_bias=bias, key=key
    )
    bound = (channels * window[0] * window[1]) ** -0.5
    leaves, tree = jax.tree.flatten(layer)
    keys = jax.random.split(key)
    draws = [
        jax.random.uniform(k, (math.prod(a.shape),), a.dtype, -bound, bound).reshape(a.shape)
        for k, a in zip(keys, leaves, strict=False)
    ]
    return jax.tree.unflatten(tree, draws)


def _window(stage):
    return stage.kernel if isinstance(stage.kernel, tuple) else (stage.kernel, stage.kernel)


def _size_after(stage, size):
    fit = [
        output_size(n, m, stride=stage.stride, padding=stage.padding) for n, m in zip(size, _window(stage), strict=True)
    ]
    return [n // stage.pool for n in fit]


def _pool(x, window):
    if window == 1:
        return x
    c, h, w, *examples = x.shape
    h, w = h // window, w // window
    return jnp.max(x[:, : h * window, : w * window].reshape(c, h, window, w, window, *examples), axis=(2, 4))


def _product(convolution, stage, x):
    """The convolution of images (channels, rows, columns, n), as the product of its kernel and all their windows."""
    kernel, step = convolution.weight, stage.stride
    outputs, _, rows, columns = kernel.shape
    x = jnp.pad(x, ((0, 0), (stage.padding,) * 2, (stage.padding,) * 2, (0, 0)))
    h, w = x.shape[1] - rows + 1, x.shape[2] - columns + 1
    shifts = [x[:, r : r + h : step, s : s + w : step] for r in range(rows) for s in range(columns)]
    windows = jnp.stack(shifts, axis=1)
    out = kernel.reshape(outputs, -1) @ windows.reshape(kernel[0].size, -1)
    out = out.reshape(outputs, *windows.shape[2:])
    return out if convolution.bias is None else out + convolution.bias[..., None]
