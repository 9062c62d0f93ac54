r"""The top eigenvector as a landscape: $f(x)=\frac14\|M-xx^\top\|_F^2$ for a symmetric positive semidefinite
$M$.

Not convex, but every local minimum is global: $\pm\sqrt{\lambda_1}v_1$. The critical points are known one by
one, and for $M=zz^\top$ everything happens in the plane of $z$ and $x$.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import real
from corollary.catalog import implements
from corollary.optimization import Problem


@implements("T06.21")
def top_eigenvector(matrix: Float[ArrayLike, "d d"], start: Float[ArrayLike, "..."] | None = None) -> Problem:
    r"""Minimise $\frac14\|M-xx^\top\|_F^2$ over $x$: minimiser $\sqrt{\lambda_1}v_1$ (and its negative), minimum
    $\frac14\sum_{i>1}\lambda_i^2$ (Eckart and Young).

    Needs $\lambda_1>0$. The gradient is Lipschitz on balls only, with $3R^2-\lambda_d$ or $\lambda_1$ on
    $\|x\|\le R$, whichever is larger; `L` is for the ball $R^2=2\lambda_1$.
    """
    matrix = real("matrix", matrix, "d d", {})
    start = jnp.ones(matrix.shape[0], matrix.dtype) if start is None else real("start", start)
    if start.shape != matrix.shape[:1]:
        raise ValueError(f"start must have shape {matrix.shape[:1]}, got {start.shape}.")
    spectrum, axes = jnp.linalg.eigh(matrix)
    top = spectrum[-1]
    return Problem(
        lambda x, m: 0.25 * jnp.sum((m - jnp.outer(x, x)) ** 2),
        (matrix,),
        start,
        L=jnp.maximum(6 * top - spectrum[0], top),
        minimum=0.25 * jnp.sum(spectrum[:-1] ** 2),
        minimiser=jnp.sqrt(jnp.maximum(top, 0)) * axes[:, -1],
    )


@implements("T06.22")
def factor_gradient(matrix: Float[ArrayLike, "d d"], x: Float[ArrayLike, "d"]) -> Float[Array, "d"]:
    r"""$\nabla f=(xx^\top-M)x$."""
    matrix, x = _pair(matrix, x)
    return (x @ x) * x - matrix @ x


@implements("T06.22")
def factor_hessian(matrix: Float[ArrayLike, "d d"], x: Float[ArrayLike, "d"]) -> Float[Array, "d d"]:
    r"""$\nabla^2f=\|x\|^2I+2xx^\top-M$."""
    matrix, x = _pair(matrix, x)
    return (x @ x) * jnp.eye(x.size, dtype=x.dtype) + 2 * jnp.outer(x, x) - matrix


@implements("T06.22")
def factor_forms(
    matrix: Float[ArrayLike, "d d"], x: Float[ArrayLike, "d"], delta: Float[ArrayLike, "_"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    r"""The first and second derivative along $\delta$ as inner products of matrices:
    $-\frac12\langle M-xx^\top,x\delta^\top+\delta x^\top\rangle$ and
    $\frac12\|x\delta^\top+\delta x^\top\|_F^2-\langle M-xx^\top,\delta\delta^\top\rangle$.
    """
    matrix, x = _pair(matrix, x)
    delta = real("delta", delta, "d", {"d": x.size})
    rest, both = matrix - jnp.outer(x, x), jnp.outer(x, delta) + jnp.outer(delta, x)
    return -0.5 * jnp.sum(rest * both), 0.5 * jnp.sum(both**2) - delta @ rest @ delta


class FactorCriticalPoints(NamedTuple):
    r"""The critical points (2d + 1, d), the Hessian's number of negative eigenvalues at each, and
    $v_1^\top\nabla^2fv_1$: first 0, then $\sqrt{\lambda_i}v_i$ and their negatives, largest eigenvalue first.
    """

    points: jax.Array
    index: jax.Array
    curvature: jax.Array

    __repr__ = shown


@implements("T06.23")
def factor_critical_points(matrix: Float[ArrayLike, "d d"]) -> FactorCriticalPoints:
    r"""All critical points of $\frac14\|M-xx^\top\|_F^2$ for distinct positive eigenvalues, and what the
    Hessian says.

    At $\pm\sqrt{\lambda_i}v_i$ it has the eigenvalues $\lambda_i-\lambda_j$ and $2\lambda_i$, so that $i-1$
    are negative; at 0 all are. Where eigenvalues coincide there are spheres of critical points, of which
    these are some.
    """
    spectrum, axes = jnp.linalg.eigh(real("matrix", matrix, "d d", {}))
    spectrum, axes = spectrum[::-1], axes[:, ::-1].T
    size = spectrum.size
    some = jnp.sqrt(jnp.maximum(spectrum, 0))[:, None] * axes
    points = jnp.concatenate([jnp.zeros((1, size), axes.dtype), some, -some])
    order, along = jnp.arange(size), (spectrum - spectrum[0]).at[0].set(2 * spectrum[0])
    index = jnp.concatenate([jnp.full(1, size), order, order])
    return FactorCriticalPoints(points, index, jnp.concatenate([-spectrum[:1], along, along]))


class Plane(NamedTuple):
    r"""For $M=zz^\top$, $\|z\|=1$ and $x=az+bz^\perp$: the value, $\frac{\langle\nabla f,x\rangle}{\|x\|}$,
    $\langle\nabla f,z\rangle$, $\frac{x^\top\nabla^2fx}{\|x\|^2}$ and $z^\top\nabla^2fz$.
    """

    value: jax.Array
    slope_x: jax.Array
    slope_z: jax.Array
    curvature_x: jax.Array
    curvature_z: jax.Array

    __repr__ = shown


@implements("T06.25")
def rank_one_plane(a: Float[ArrayLike, "..."], b: Float[ArrayLike, "..."]) -> Plane:
    r"""$f=\frac14(r^4-2a^2+1)$ with $r^2=a^2+b^2$, and its derivatives along $x$ and $z$, entrywise.

    In every dimension: $f$ depends on $x$ through $\langle x,z\rangle=a$ and $\|x\|=r$ only. At $x=0$, which
    is no direction, the two along $x$ are 0.
    """
    a, b = real("a", a), real("b", b)
    square = a**2 + b**2
    safe = jnp.where(square > 0, square, 1)
    share = jnp.where(square > 0, a**2 / safe, 0)
    return Plane(
        0.25 * (square**2 - 2 * a**2 + 1),
        (square - share) * jnp.sqrt(square),
        a * (square - 1),
        3 * square - share,
        square + 2 * a**2 - 1,
    )


@implements("T06.26")
def improvement_ratio(
    a: Float[ArrayLike, "..."], b: Float[ArrayLike, "..."], gamma: Scalar = 0.25
) -> Float[Array, "..."]:
    r"""$\frac{\max(|\langle\nabla f,x\rangle|/\|x\|,|\langle\nabla f,z\rangle|)}{\min(f,1)}$ where neither
    $x$ nor $z$ has a curvature below $-\gamma$, infinite elsewhere, entrywise.

    With $c$ below it everywhere, a point where neither $x$ nor $z$ is a $(c\tau,\gamma)$-direction of
    improvement has $f\le\tau$, for every $\tau<1$. For $\gamma=\frac14$ a search finds $\frac1{\sqrt2}$, at
    $a=\frac1{2\sqrt2}$, $b=\sqrt{\frac38}$.
    """
    p = rank_one_plane(a, b)
    gamma = real("gamma", gamma, "")
    passes = (p.curvature_x >= -gamma) & (p.curvature_z >= -gamma) & (p.value > 0)
    slope = jnp.maximum(jnp.abs(p.slope_x), jnp.abs(p.slope_z))
    return jnp.where(passes, slope / jnp.where(passes, jnp.minimum(p.value, 1), 1), jnp.inf)


def _pair(matrix, x):
    dims = {}
    return real("matrix", matrix, "d d", dims), real("x", x, "d", dims)
