r"""Filters with a known purpose: smoothing, their response to frequencies, and what a stride can miss of a signal."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Complex, Float

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.convolutional.operator import cross_correlate


@implements("B10.07")
def binomial_kernel(order: int = 4) -> Float[Array, "_"]:
    r"""$h[t]=2^{-n}\binom nt$, the $n$-fold convolution of $(\frac12,\frac12)$; $n=4$ is $\frac1{16}(1,4,6,4,1)$."""
    order = whole("order", order, 0, 1000)
    return jnp.asarray([math.comb(order, t) / 2**order for t in range(order + 1)])


@implements("M14.26")
def moving_average(x: Float[ArrayLike, "length"], taps: int) -> Float[Array, "_"]:
    r"""$Z_n=\frac1k\sum_{j<k}X_{n+j}$ wherever all $k$ entries are there, by differences of running sums."""
    x, taps = real("x", x, "length"), whole("taps", taps)
    if taps > x.size:
        raise ValueError(f"taps must be at most the length of x, {x.size}, got {taps}.")
    sums = jnp.concatenate([jnp.zeros(1, x.dtype), jnp.cumsum(x)])
    return (sums[taps:] - sums[:-taps]) / taps


@implements("B10.07", "M14.26")
def frequency_response(
    h: Float[ArrayLike, "taps"], u: Float[ArrayLike, "..."], *, start: int = 0
) -> Complex[Array, "..."]:
    r"""$\hat h(u)=\sum_th[t]e^{-2\pi itu}$ at frequencies $u$ in turns per entry, $h$ starting at $t=$ `start`.

    Convolving a wave $e^{2\pi itu}$ with $h$ multiplies it by $\hat h(u)$.
    """
    h, u = real("h", h, "taps"), real("u", u, "...")
    t = np.arange(h.size) + whole("start", start, -(2**31))
    return jnp.exp(-2j * jnp.pi * u[..., None] * jnp.asarray(t, u.dtype)) @ h


@implements("M14.12")
def signal_lipschitz(r: Float[ArrayLike, "taps"]) -> Float[Array, ""]:
    r"""$\max_{n\in\mathbb Z}|R_{n+1}-R_n|$ of a signal that is zero outside its support: its ends count."""
    r = real("r", r, "taps")
    return jnp.max(jnp.abs(jnp.diff(jnp.pad(r, 1))))


@implements("M14.12")
def stride_gap(r: Float[ArrayLike, "taps"], x: Float[ArrayLike, "length"], stride: int) -> Float[Array, ""]:
    r"""$\max_n(R\star X)_n-\max_k(R\star X)_{sk}$ over all integers: what is lost by looking at every $s$-th only.

    Zeros outside both signals. It lies between 0 and $\lfloor s/2\rfloor\,\mathrm{Lip}(R)\sum_k|X_k|$.
    """
    r, x, s = real("r", r, "taps"), real("x", x, "length"), whole("stride", stride)
    # where the signals do not meet the correlation is zero; s such places at each end hold a multiple of s
    every = jnp.pad(cross_correlate(r, x, "full"), s)
    first = (r.size - 1 + s) % s  # the entry at n = 0 has the index N' - 1 + s
    return every.max() - every[first::s].max()
