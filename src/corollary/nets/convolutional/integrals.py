r"""Integral operators on functions of one or several variables: the Fourier transform and the convolution.

Integrals are taken over the box from `low` to `high` by Gauss-Legendre quadrature with 16 points on each of `panels`
equal pieces along every axis. For an integral over all of $\mathbb R^d$ choose the box so large that nothing is left
outside; for a function with jumps or kinks, so that they fall between two pieces. Numbers for `low` and `high` mean
functions of a number, vectors mean functions of a vector.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Complex, Float, Inexact

from corollary._validate import concrete, real, whole
from corollary.catalog import implements

NODES = 16


@implements("E04.01", "B10.03")
def integral_operator(
    kernel: Callable,
    f: Callable,
    u: Float[ArrayLike, "..."],
    low: Float[ArrayLike, "..."],
    high: Float[ArrayLike, "..."],
    *,
    panels: int = 16,
) -> Inexact[Array, "..."]:
    r"""$(Tf)(u)=\int H(u,t)\,f(t)\,dt$ at each of the points `u`, for a `kernel` $H(u,t)$."""
    for name, function in (("kernel", kernel), ("f", f)):
        if not callable(function):
            raise TypeError(f"{name} must be a function, got {type(function).__name__}.")
    t, weights = _quadrature(low, high, whole("panels", panels))
    u = real("u", u, "count" if t.ndim == 1 else f"count {t.shape[1]}")
    values = jax.vmap(f)(t)
    if values.shape != weights.shape:
        raise ValueError(f"f must give one number at each point, got shape {values.shape[1:]}.")
    # one point at a time: the table of all kernel values may be large
    return jax.lax.map(lambda v: jax.vmap(lambda s: kernel(v, s))(t) @ (weights * values), u)


@implements("E04.02", "B10.03")
def fourier_transform(
    f: Callable,
    u: Float[ArrayLike, "..."],
    low: Float[ArrayLike, "..."],
    high: Float[ArrayLike, "..."],
    *,
    panels: int = 16,
) -> Complex[Array, "..."]:
    r"""$(\mathcal Ff)(u)=\int e^{-2\pi i\,t\cdot u}f(t)\,dt$ at each of the points `u`."""
    return integral_operator(lambda v, t: jnp.exp(-2j * jnp.pi * jnp.sum(v * t)), f, u, low, high, panels=panels)


@implements("E04.03", "B10.04", "B10.09")
def convolve_functions(
    f: Callable,
    h: Callable,
    u: Float[ArrayLike, "..."],
    low: Float[ArrayLike, "..."],
    high: Float[ArrayLike, "..."],
    *,
    panels: int = 16,
) -> Float[Array, "..."]:
    r"""$(f*h)(u)=\int h(u-t)\,f(t)\,dt$ at each of the points `u`."""
    if not callable(h):
        raise TypeError(f"h must be a function, got {type(h).__name__}.")
    return integral_operator(lambda v, t: h(v - t), f, u, low, high, panels=panels)


def _quadrature(low, high, panels):
    """Points and weights on the box, all axes multiplied out."""
    low, high = real("low", low), real("high", high)
    if low.ndim > 1 or low.shape != high.shape or low.size == 0:
        raise ValueError(f"low and high must be two numbers or two vectors, got shapes {low.shape} and {high.shape}.")
    if concrete(low) and concrete(high) and not (np.asarray(low) < np.asarray(high)).all():
        raise ValueError(f"low must be less than high, got {low} and {high}.")
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    unit = (np.arange(panels)[:, None] + (nodes + 1) / 2).ravel() / panels
    share = np.tile(weights / 2, panels) / panels
    if low.ndim == 0:
        return low + (high - low) * unit.astype(low.dtype), (high - low) * share.astype(low.dtype)
    axes = low.size
    grid = np.stack(np.meshgrid(*[unit] * axes, indexing="ij"), axis=-1).reshape(-1, axes)
    shares = np.stack(np.meshgrid(*[share] * axes, indexing="ij"), axis=-1).reshape(-1, axes).prod(axis=1)
    return low + (high - low) * grid.astype(low.dtype), jnp.prod(high - low) * shares.astype(low.dtype)
