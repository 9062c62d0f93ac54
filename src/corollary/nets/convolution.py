r"""Convolution and pooling along one axis: local, weight-tied linear maps, and what is kept of a window."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import one_of, real, whole
from corollary.catalog import implements
from corollary.nets.composition import matrix_of
from corollary.nets.initialisations import uniform_fan_in


@implements("T01.05")
class Convolution(eqx.Module):
    r"""$y_{ct}=b_c+\sum_{c'}\sum_{s=0}^{r-1}K_{cc's}\,x_{c',t+s}$ for $x$ of shape (channels, length), without padding.

    As everywhere in deep learning this is a correlation: the kernel is not reversed.
    """

    kernel: jax.Array
    bias: jax.Array

    def __init__(
        self, inputs: int, outputs: int, window: int, *, key: PRNGKeyArray, initialisation: Callable = uniform_fan_in
    ):
        inputs, outputs, window = whole("inputs", inputs), whole("outputs", outputs), whole("window", window)
        kernel_key, bias_key = jax.random.split(key)
        flat = initialisation(kernel_key, (outputs, inputs * window), jnp.result_type(float))
        self.kernel = flat.reshape(outputs, inputs, window)
        self.bias = initialisation(bias_key, (outputs, inputs * window), jnp.result_type(float))[:, 0]

    def __call__(self, x: Float[ArrayLike, "inputs length"]) -> Array:
        _, inputs, window = self.kernel.shape
        x = real("x", x, f"{inputs} length", finite=False)
        if x.shape[1] < window:
            raise ValueError(f"x must be at least as long as the window, {window}, got length {x.shape[1]}.")
        out = jax.lax.conv_general_dilated(x[None], self.kernel, window_strides=(1,), padding="VALID")[0]
        return out + self.bias[:, None]

    def matrix(self, length: int) -> Float[Array, "_ _"]:
        """The linear part for inputs of this length, as a matrix on flattened inputs: Toeplitz blocks, mostly zero."""
        inputs = self.kernel.shape[1]
        origin = self(jnp.zeros((inputs, whole("length", length))))
        return matrix_of(lambda v: (self(v.reshape(inputs, length)) - origin).ravel(), inputs * length)


@implements("T01.05")
def pool(x: Float[ArrayLike, "... length"], window: int, kind: str = "max") -> Array:
    """The greatest entry, or the mean, of every full window of `window` entries along the last axis."""
    x, window = real("x", x, "... length", finite=False), whole("window", window)
    one_of("kind", kind, ("max", "mean"))
    count = x.shape[-1] // window
    if count == 0:
        raise ValueError(f"x must be at least as long as the window, {window}, got length {x.shape[-1]}.")
    blocks = x[..., : count * window].reshape(*x.shape[:-1], count, window)
    return blocks.max(axis=-1) if kind == "max" else blocks.mean(axis=-1)
