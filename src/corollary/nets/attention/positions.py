r"""Positional encodings: vectors that are added to the tokens, because attention by itself does not see their order."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.nets.initialisations import normal

BASE = 10_000.0


@implements("B10.45", "E06.08", "M13.43")
def sinusoidal_positions(
    length: int, size: int, *, base: float = BASE, paired: bool = True, dtype: DTypeLike | None = None
) -> Float[Array, "_ _"]:
    r"""$p_{t,2i}=\sin(t\omega_i)$, $p_{t,2i+1}=\cos(t\omega_i)$, $\omega_i=\text{base}^{-2i/\text{size}}$.

    Shape (length, size); `size` must be even: the coordinates come in pairs of one frequency, so that a shift of the
    position rotates every pair. With `paired=False` coordinate $k$ has its own frequency
    $\text{base}^{-k/\text{size}}$, and that is lost.
    """
    length, size = whole("length", length), _even(size)
    coordinate = np.arange(size)
    frequencies = _frequencies(size, base)[coordinate // 2] if paired else float(base) ** (-coordinate / size)
    # the angles in double precision, also where the result is single: at position 10,000 it would be off by 0.001
    angles = np.arange(length)[:, None] * frequencies
    values = np.where(coordinate % 2 == 0, np.sin(angles), np.cos(angles))
    return jnp.asarray(values, jnp.result_type(float) if dtype is None else dtype)


@implements("B10.45", "M13.43")
def shift_rotation(offset: int, size: int, *, base: float = BASE) -> Float[Array, "_ _"]:
    r"""The rotation $R_s$ with $p_{t+s}=R_sp_t$ at every $t$, for the paired sinusoidal encoding: (size, size).

    On the pair $(\sin t\omega_i,\cos t\omega_i)$ it acts by the angle $s\omega_i$.
    """
    size = _even(size)
    angle = whole("offset", offset, -(2**53)) * _frequencies(size, base)
    even = 2 * np.arange(size // 2)
    out = np.zeros((size, size))
    out[even, even] = out[even + 1, even + 1] = np.cos(angle)
    out[even, even + 1], out[even + 1, even] = np.sin(angle), -np.sin(angle)
    return jnp.asarray(out, jnp.result_type(float))


@implements("M13.43")
def random_positions(length: int, size: int, *, key: PRNGKeyArray) -> Float[Array, "_ _"]:
    r"""Independent standard normal vectors: $\langle q_i,q_j\rangle\approx\text{size}\cdot\delta_{ij}$."""
    return jax.random.normal(key, (whole("length", length), whole("size", size)))


@implements("B10.46", "M13.43")
class LearnedPositions(eqx.Module):
    """A trainable vector for each of the positions 0 to `length - 1`, added to the tokens (T, size)."""

    table: jax.Array

    def __init__(self, length: int, size: int, *, key: PRNGKeyArray, initialisation: Callable | None = None):
        shape = whole("length", length), whole("size", size)
        initialisation = normal(0.02) if initialisation is None else initialisation
        self.table = initialisation(key, shape, jnp.result_type(float))

    def __call__(self, x: Float[ArrayLike, "T size"], start: int | jax.Array = 0) -> Float[Array, "T size"]:
        """`x` at the positions `start`, `start + 1`, ..."""
        length, size = self.table.shape
        x = real("x", x, f"T {size}", finite=False)
        if x.shape[0] > length:
            raise ValueError(f"x must have at most {length} tokens, one for each position, got {x.shape[0]}.")
        if not isinstance(start, jax.core.Tracer):
            whole("start", np.asarray(start).item(), 0, length - x.shape[0])
        return x + jax.lax.dynamic_slice_in_dim(self.table, start, x.shape[0]).astype(x.dtype)


def _frequencies(size, base):
    return float(positive("base", base)) ** (-2 * np.arange(size // 2) / size)


def _even(size: int) -> int:
    if whole("size", size) % 2:
        raise ValueError(f"size must be even, since coordinates come in pairs, got {size}.")
    return int(size)
