r"""The convolutional layer with channels, in the ways in which it is computed.

The layer itself is Equinox's `equinox.nn.Conv`, a cross-correlation: $Y_m[i]=b_m+\sum_c\sum_uK_{mc}[u]\,X_c[is+u-p]$.
Here are the same layer with its kernel reversed (a convolution proper), as one product of matrices, and by Fourier
transforms. Images have shape (channels, *size) with one to three axes of space.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import real
from corollary.catalog import implements
from corollary.nets.convolutional._arguments import image_and_kernel, per_axis, plain_layer
from corollary.nets.convolutional.fourier import fft_convolve


@implements("E04.13", "B10.11", "M14.24")
def convolve_channels(
    x: Float[ArrayLike, "..."],
    kernel: Float[ArrayLike, "..."],
    bias: Float[ArrayLike, "outputs"] | None = None,
    *,
    stride: int = 1,
    padding: int = 0,
) -> Float[Array, "..."]:
    r"""$Y_m[i]=b_m+\sum_c\sum_uX_c[is+u-p]\,K_{mc}[F-1-u]$ with zeros outside: kernels reversed, channels added up.

    `kernel` has shape (outputs, channels, *window); `stride` and `padding` are one number, or one for each axis.
    """
    x, kernel, bias, stride, padding = image_and_kernel(x, kernel, bias, stride, padding)
    reversed_kernel = jnp.flip(kernel, range(2, kernel.ndim))
    around = [(p, p) for p in padding]
    out = jax.lax.conv_general_dilated(x[None], reversed_kernel, stride, around, precision="highest")[0]
    return out + bias.reshape(-1, *[1] * len(stride))


@implements("B10.11")
def patches(x: Float[ArrayLike, "..."], window: int, *, stride: int = 1, padding: int = 0) -> Float[Array, "_ _"]:
    """The windows of an image as columns: shape (channels times entries of a window, number of windows)."""
    x = real("x", x, finite=False)
    window = per_axis("window", window, x.ndim - 1)
    stride = per_axis("stride", stride, len(window))
    padding = per_axis("padding", padding, len(window), low=0)
    if any(n + 2 * p < m for n, p, m in zip(x.shape[1:], padding, window, strict=True)):
        raise ValueError(f"window must fit into the padded image, got {window} for an image of {x.shape[1:]}.")
    around = [(p, p) for p in padding]
    out = jax.lax.conv_general_dilated_patches(x[None], window, stride, around, precision=jax.lax.Precision.HIGHEST)[0]
    return out.reshape(out.shape[0], -1)


@implements("B10.11")
def fft_layer(layer: eqx.nn.Conv, x: Float[ArrayLike, "in_channels ..."]) -> Float[Array, "..."]:
    """What an `equinox.nn.Conv` makes of an image, every pair of channels by Fourier transforms."""
    layer = plain_layer(layer)
    if any(d != 1 for d in layer.dilation):
        raise ValueError(f"layer must have dilation 1, got {layer.dilation}.")
    names = " ".join(f"n{axis}" for axis in range(layer.num_spatial_dims))
    x = real("x", x, f"{layer.in_channels} {names}", finite=False)
    x = jnp.pad(x, [(0, 0), *layer.padding])
    reversed_kernel = jnp.flip(layer.weight, range(2, layer.weight.ndim))
    pair = jax.vmap(jax.vmap(lambda f, h: fft_convolve(f, h, "valid")), in_axes=(None, 0))
    out = pair(x, reversed_kernel).sum(axis=1)[(slice(None), *[slice(None, None, s) for s in layer.stride])]
    return out if layer.bias is None else out + layer.bias


@implements("B10.11")
def flipped(layer: eqx.nn.Conv) -> eqx.nn.Conv:
    """The same `equinox.nn.Conv` with the kernel reversed along every axis of space."""
    layer = plain_layer(layer)
    return eqx.tree_at(lambda c: c.weight, layer, jnp.flip(layer.weight, range(2, layer.weight.ndim)))
