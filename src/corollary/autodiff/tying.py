r"""Weight tying: one parameter in many places, its gradient the sum over the places. A convolution is an instance.

A layer with tied weights is a dense matrix filled from a short vector $u$ according to a pattern: entry $(i,j)$ is
$u_{p(i,j)}$, or zero where $p(i,j)=-1$.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._validate import real, whole
from corollary.catalog import implements


@implements("T04.10", "T04.11")
def tied_matrix(shared: Float[ArrayLike, "k"], pattern: Int[ArrayLike, "..."]) -> Float[Array, "..."]:
    """The dense matrix with `shared[pattern]` where the pattern is 0 or more and zero where it is -1."""
    shared, pattern = real("shared", shared, "k"), _pattern(pattern, np.shape(shared)[0])
    return jnp.where(pattern >= 0, shared[pattern], 0)


@implements("T04.10")
def tied_gradient(
    dense_gradient: Float[ArrayLike, "..."], pattern: Int[ArrayLike, "..."], size: int
) -> Float[Array, "..."]:
    """The gradient by the shared vector: the entries of the dense gradient, added up over the places of each."""
    size = whole("size", size)
    pattern = _pattern(pattern, size)
    dense = real("dense_gradient", dense_gradient)
    if dense.shape != pattern.shape:
        raise ValueError(f"dense_gradient must have shape {pattern.shape} like pattern, got {dense.shape}.")
    # places without a parameter are collected in an extra bin and dropped
    bins = jnp.where(pattern >= 0, pattern, size).ravel()
    return jnp.zeros(size + 1, dense.dtype).at[bins].add(dense.ravel())[:size]


@implements("T04.11")
class CircularConvolution(eqx.Module):
    r"""A circular convolution layer in any dimension: $y_o(s)=b_o+\sum_{c,r}k_{oc}(r)\,x_c(s+r)$.

    Positions are taken modulo the size of the input.
    `kernel` has shape (outputs, channels, *window). Called on one example of shape (channels, *size).
    """

    kernel: jax.Array
    bias: jax.Array

    def __init__(self, channels: int, outputs: int, window: Sequence[int], *, key: PRNGKeyArray):
        channels, outputs = whole("channels", channels), whole("outputs", outputs)
        window = tuple(whole("window", w) for w in window)
        if not window:
            raise ValueError("window must have a length for at least one dimension, got none.")
        fan_in = channels * int(np.prod(window))
        self.kernel = jax.random.normal(key, (outputs, channels, *window)) / jnp.sqrt(fan_in)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The direct way: slide the window over the input, wrapped around."""
        x, window = self._input(x), self.kernel.shape[2:]
        wrapped = jnp.pad(x, [(0, 0)] + [(0, w - 1) for w in window], mode="wrap")
        out = jax.lax.conv_general_dilated(
            wrapped[None], self.kernel.astype(x.dtype), (1,) * len(window), "VALID", precision="highest"
        )
        return out[0] + self.bias.reshape((-1,) + (1,) * len(window))

    def pattern(self, size: Sequence[int]) -> np.ndarray:
        """Which entry of the kernel (flattened) stands where in the dense matrix for inputs of this size."""
        window = self.kernel.shape[2:]
        size = tuple(whole("size", s) for s in size)
        if len(size) != len(window) or any(s < w for s, w in zip(size, window, strict=False)):
            raise ValueError(f"size must have {len(window)} dimension(s) no shorter than {window}, got {size}.")
        outputs, channels = self.kernel.shape[:2]
        positions, cells = int(np.prod(size)), int(np.prod(window))
        places = np.indices(size).reshape(len(size), -1)
        shifts = np.indices(window).reshape(len(window), -1)
        reached = (places[:, :, None] + shifts[:, None, :]) % np.array(size)[:, None, None]
        columns = np.ravel_multi_index(tuple(reached), size)
        one = np.full((positions, positions), -1)
        one[np.arange(positions)[:, None], columns] = np.arange(cells)
        numbers = np.arange(outputs * channels).reshape(outputs, channels, 1, 1) * cells
        full = np.where(one >= 0, one + numbers, -1)
        return full.transpose(0, 2, 1, 3).reshape(outputs * positions, channels * positions)

    def dense(self, size: Sequence[int]) -> Float[Array, "_ _"]:
        """The same layer as a dense matrix with tied entries, for inputs of this size."""
        return tied_matrix(self.kernel.ravel(), self.pattern(size))

    def _input(self, x):
        names = " ".join(f"s{i}" for i in range(self.kernel.ndim - 2))
        x = real("x", x, f"{self.kernel.shape[1]} {names}")
        if any(s < w for s, w in zip(x.shape[1:], self.kernel.shape[2:], strict=True)):
            raise ValueError(f"x must be no smaller than the window {self.kernel.shape[2:]}, got {x.shape[1:]}.")
        return x


def _pattern(pattern, size: int) -> np.ndarray:
    pattern = np.asarray(pattern)
    if pattern.ndim != 2 or pattern.dtype.kind not in "iu":
        raise ValueError(f"pattern must be a matrix of integers, got shape {pattern.shape} of {pattern.dtype}.")
    if pattern.size == 0 or pattern.min() < -1 or pattern.max() >= size:
        raise ValueError(f"pattern must hold indices from -1 to {size - 1}.")
    return pattern
