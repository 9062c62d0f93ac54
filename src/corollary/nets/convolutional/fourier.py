r"""Convolution by Fourier transforms: a product of transforms, and what it costs."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Complex, Float

from corollary._show import shown
from corollary._validate import whole
from corollary.catalog import implements
from corollary.nets.convolutional._arguments import signal_and_kernel


@implements("E04.07", "B10.17")
def fft_convolve(f: Float[ArrayLike, "..."], h: Float[ArrayLike, "..."], mode: str = "full") -> Float[Array, "..."]:
    r"""`convolve(f, h, mode)` by fast Fourier transforms, in $O(n\log n)$ for any size of the kernel.

    Both are lengthened by zeros to the size of the full result, so that nothing wraps around; `"circular"` is the mode
    that wants the wrapping.
    """
    f, h = signal_and_kernel(f, h, mode, names=("f", "h"))
    if mode == "circular":
        return _product(f, h, f.shape)
    full = tuple(n + m - 1 for n, m in zip(f.shape, h.shape, strict=True))
    # transforms are fastest for sizes without large prime factors
    out = _product(f, h, tuple(map(_smooth, full)))
    first = {"full": lambda m: 0, "same": lambda m: (m - 1) // 2, "valid": lambda m: m - 1}[mode]
    count = {"full": lambda n, m: n + m - 1, "same": lambda n, m: n, "valid": lambda n, m: n - m + 1}[mode]
    return out[tuple(slice(first(m), first(m) + count(n, m)) for n, m in zip(f.shape, h.shape, strict=True))]


@implements("B10.03")
def dft_matrix(n: int) -> Complex[Array, "_ _"]:
    r"""$F_{uk}=e^{-2\pi iuk/n}$: the discrete Fourier transform; $F/\sqrt n$ is unitary."""
    n = whole("n", n)
    # the exponent modulo n keeps its full precision
    return jnp.exp(-2j * jnp.pi * jnp.asarray(np.outer(np.arange(n), np.arange(n)) % n / n))


class Counted(NamedTuple):
    """A transform and the complex multiplications it took."""

    values: jax.Array
    multiplications: int

    __repr__ = shown


@implements("B10.17")
def radix2_fft(x: Float[ArrayLike, "..."]) -> Counted:
    r"""The discrete Fourier transform of $n=2^k$ numbers by halving.

    $\hat x_u=\hat e_u+\omega^u\hat o_u$ and $\hat x_{u+n/2}=\hat e_u-\omega^u\hat o_u$ with $\omega=e^{-2\pi i/n}$ and
    the transforms $\hat e$, $\hat o$ of the entries with even and odd index. Written to be read and counted;
    `jnp.fft.fft` is the fast one.
    """
    x = jnp.asarray(x)
    if x.ndim != 1 or x.size == 0 or x.size & (x.size - 1):
        raise ValueError(f"x must be a vector whose length is a power of two, got shape {x.shape}.")
    return Counted(*_halve(x.astype(jnp.result_type(x, jnp.complex64))))


@implements("B10.17")
def fft_convolution_cost(n: int) -> int:
    r"""$3n\log_2(2n)+2n$: complex multiplications to convolve two signals of $n=2^k$ entries by transforms.

    Three `radix2_fft`s of $2n$ numbers and one product. The direct sum takes $n^2$.
    """
    n = whole("n", n)
    if n & (n - 1):
        raise ValueError(f"n must be a power of two, got {n}.")
    return 3 * n * round(math.log2(2 * n)) + 2 * n


def _halve(x):
    n = x.shape[-1]
    if n == 1:
        return x, 0
    # both halves of all pieces at once: one level of the recursion is one array
    parts, spent = _halve(jnp.stack([x[..., ::2], x[..., 1::2]]))
    even, odd = parts
    turned = jnp.exp(-2j * jnp.pi * jnp.arange(n // 2) / n).astype(x.dtype) * odd
    return jnp.concatenate([even + turned, even - turned], axis=-1), spent + turned.size


def _product(f, h, size):
    spectrum = jnp.fft.rfftn(f, size) * jnp.fft.rfftn(h, size)
    return jnp.fft.irfftn(spectrum, size).astype(f.dtype)


def _smooth(n: int) -> int:
    """The least number from n on whose prime factors are 2, 3 and 5."""
    while True:
        rest = n
        for p in (2, 3, 5):
            while rest % p == 0:
                rest //= p
        if rest == 1:
            return n
        n += 1
