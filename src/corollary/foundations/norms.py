r"""Norms of vectors, sequences, functions and matrices, and the axioms that make a norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, one_of, positive, real, whole
from corollary.catalog import implements
from corollary.foundations.quadrature import panels as _panels


@implements("B01.04", "M00.01")
def vector_norm(x: Float[ArrayLike, "... d"], p: Scalar = 2.0) -> Float[Array, "..."]:
    r"""$\|x\|_p=(\sum_i|x_i|^p)^{1/p}$ over the last axis, $\max_i|x_i|$ for $p=\infty$; a norm exactly for $p\ge1$."""
    x = real("x", x, "... d")
    p = _exponent(p).astype(x.dtype)
    size = jnp.abs(x)
    top = jnp.max(size, axis=-1)
    # in units of the greatest entry no power overflows, and none is lost that matters
    scale = jnp.where(top > 0, top, 1)
    power = jnp.where(jnp.isinf(p), 1, p)
    total = jnp.sum((size / scale[..., None]) ** power, axis=-1)
    return jnp.where(jnp.isinf(p) | (top == 0), top, scale * total ** (1 / power))


@implements("B01.03")
def sequence_norms(a: Float[ArrayLike, "n"], p: Scalar = 2.0) -> Float[Array, "_"]:
    r"""$\|(a_1,\dots,a_N)\|_p$ for every $N$: bounded in $N$ exactly if the sequence is in $\ell^p$."""
    a = real("a", a, "n")
    p = _exponent(p).astype(a.dtype)
    power = jnp.where(jnp.isinf(p), 1, p)
    sums = jnp.cumsum(jnp.abs(a) ** power) ** (1 / power)
    return jnp.where(jnp.isinf(p), jax.lax.cummax(jnp.abs(a)), sums)


@implements("B01.03", "M00.01")
def function_norm(
    f: Callable,
    p: Scalar,
    low: Float[ArrayLike, "..."],
    high: Float[ArrayLike, "..."],
    *,
    panels: int = 64,
    nodes: int = 8,
) -> Float[Array, ""]:
    r"""$\|f\|_p=(\int|f|^p)^{1/p}$ over the box from `low` to `high`, by Gauss-Legendre on panels along each axis.

    `f` takes one point, of the shape of `low`: () or (d,). For $p=\infty$ the largest value at the nodes, which is
    at most the supremum.
    """
    if not callable(f):
        raise TypeError(f"f must be a function of a point, got {type(f).__name__}.")
    p, low, high = _exponent(p), real("low", low), real("high", high)
    if low.ndim > 1 or low.shape != high.shape:
        raise ValueError(f"low and high must both be numbers or both be vectors, got {low.shape} and {high.shape}.")
    if concrete(low) and concrete(high) and (np.asarray(low) >= np.asarray(high)).any():
        raise ValueError(f"low must be below high, got {low} and {high}.")
    panels, nodes = whole("panels", panels), whole("nodes", nodes)
    if (count := (panels * nodes) ** max(low.size, 1)) > 10**7:
        raise ValueError(f"panels and nodes must give at most 10 million points in all, got {count}.")
    axes = [
        _panels(a + (b - a) * jnp.linspace(0, 1, panels + 1), nodes)
        for a, b in zip(low.reshape(-1), high.reshape(-1), strict=True)
    ]
    points = jnp.stack([g.ravel() for g in jnp.meshgrid(*[x for x, _ in axes], indexing="ij")], -1)
    weights = jnp.prod(jnp.stack([g.ravel() for g in jnp.meshgrid(*[w for _, w in axes], indexing="ij")]), 0)
    size = jnp.abs(jax.vmap(f)(points.reshape(-1, *low.shape)))
    power = jnp.where(jnp.isinf(p), 1, p)
    return jnp.where(jnp.isinf(p), size.max(), jnp.sum(weights * size**power) ** (1 / power))


@implements("B01.05", "B01.32")
def operator_norm(a: Float[ArrayLike, "m n"], p: Scalar = 2.0) -> Float[Array, ""]:
    r"""$\sup_{x\ne0}\|Ax\|_p/\|x\|_p$ for $p=1$ (largest column sum), $2$ ($\sigma_1$), $\infty$ (largest row sum)."""
    a, p = real("a", a, "m n"), one_of("p", p, (1, 2, np.inf))
    if p == 2:
        return jnp.linalg.svd(a, compute_uv=False)[0]
    return jnp.max(jnp.sum(jnp.abs(a), axis=0 if p == 1 else 1))


class PowerIteration(NamedTuple):
    """The estimates of the largest singular value, step by step, and the last pair of unit vectors."""

    sigma: jax.Array
    left: jax.Array
    right: jax.Array

    __repr__ = shown


@implements("B01.05")
def power_iteration(a: Float[ArrayLike, "m n"], start: Float[ArrayLike, "n"], steps: int) -> PowerIteration:
    r"""$v\leftarrow A^\top Av/\|A^\top Av\|$ from `start`, with $\|Av\|$ before each step as estimate of $\sigma_1$.

    The angle to the top right singular vector shrinks by $(\sigma_2/\sigma_1)^2$ a step and the error of the
    estimate by its square, unless `start` is orthogonal to that vector.
    """
    dims = {}
    a, start, steps = real("a", a, "m n", dims), real("start", start, "n", dims), whole("steps", steps)
    if concrete(start) and not np.any(np.asarray(start)):
        raise ValueError("start must not be the zero vector.")

    def unit(x):
        size = jnp.linalg.norm(x)
        return x / jnp.where(size > 0, size, 1)

    def advance(v, _):
        return unit(a.T @ (a @ v)), jnp.linalg.norm(a @ v)

    right, sigma = jax.lax.scan(advance, unit(start).astype(jnp.result_type(a, start)), length=steps)
    return PowerIteration(sigma, unit(a @ right), right)


class NormAxioms(NamedTuple):
    """How far a function is from being a norm on the samples; a norm has zeros, and a positive `least`.

    `least` is the smallest value of a nonzero vector in units of its greatest entry, `homogeneity` the largest
    relative error of p(av) = |a| p(v), `triangle` the largest p(u + v) - p(u) - p(v) relative to p(u) + p(v).
    """

    negativity: jax.Array
    zero: jax.Array
    least: jax.Array
    homogeneity: jax.Array
    triangle: jax.Array

    __repr__ = shown


@implements("B01.04")
def norm_axioms(
    norm: Callable, u: Float[ArrayLike, "..."], v: Float[ArrayLike, "..."], scalars: Float[ArrayLike, "n"]
) -> NormAxioms:
    """Test the axioms on pairs `u`, `v` (n, ...) and `scalars` (n,); the unit vectors of the space join the pairs."""
    if not callable(norm):
        raise TypeError(f"norm must be a function of a vector, got {type(norm).__name__}.")
    u, v, scalars = real("u", u), real("v", v), real("scalars", scalars, "n")
    if u.ndim < 2 or u.shape != v.shape or u.shape[0] != scalars.size:
        raise ValueError(f"u and v must hold {scalars.size} vectors each, got shapes {u.shape} and {v.shape}.")
    shape, size = u.shape[1:], u[0].size
    basis = jnp.eye(size, dtype=u.dtype).reshape(size, *shape)
    u, v = jnp.concatenate([u, basis]), jnp.concatenate([v, jnp.roll(basis, 1, axis=0)])
    scalars = jnp.concatenate([scalars, jnp.full(size, -2.0, scalars.dtype)])
    value = jax.vmap(norm)
    pu, pv, scaled = value(u), value(v), value(scalars.reshape(-1, *[1] * len(shape)) * v)
    greatest = jnp.max(jnp.abs(v.reshape(v.shape[0], -1)), axis=1)
    tiny = jnp.finfo(u.dtype).tiny
    return NormAxioms(
        negativity=jnp.maximum(-jnp.min(jnp.concatenate([pu, pv])), 0),
        zero=jnp.abs(norm(jnp.zeros(shape, u.dtype))),
        least=jnp.min(jnp.where(greatest > 0, pv / jnp.maximum(greatest, tiny), jnp.inf)),
        homogeneity=jnp.max(jnp.abs(scaled - jnp.abs(scalars) * pv) / jnp.maximum(jnp.abs(scaled), tiny)),
        triangle=jnp.max((value(u + v) - pu - pv) / jnp.maximum(pu + pv, tiny)),
    )


@implements("B01.02")
def inner(
    x: Float[ArrayLike, "d"], y: Float[ArrayLike, "d"], gram: Float[ArrayLike, "d d"] | None = None
) -> Float[Array, ""]:
    r"""$x^\top My$; $M$ is the identity unless `gram` is given."""
    dims = {}
    x, y = real("x", x, "d", dims), real("y", y, "d", dims)
    return x @ y if gram is None else x @ real("gram", gram, "d d", dims) @ y


@implements("B01.06")
def cauchy_schwarz_gap(
    x: Float[ArrayLike, "d"], y: Float[ArrayLike, "d"], gram: Float[ArrayLike, "d d"] | None = None
) -> Float[Array, ""]:
    r"""$\langle x,x\rangle\langle y,y\rangle-\langle x,y\rangle^2$: zero or more in every inner product."""
    return inner(x, x, gram) * inner(y, y, gram) - inner(x, y, gram) ** 2


@implements("B01.06")
def lagrange_gap(x: Float[ArrayLike, "d"], y: Float[ArrayLike, "d"]) -> Float[Array, ""]:
    r"""$\sum_{i<j}(x_iy_j-x_jy_i)^2$: the gap as a sum of squares (Lagrange), zero exactly for parallel vectors."""
    dims = {}
    x, y = real("x", x, "d", dims), real("y", y, "d", dims)
    return jnp.sum((x[:, None] * y - y[:, None] * x) ** 2) / 2


def _exponent(p):
    return positive("p", real("p", p, "", finite=False))
