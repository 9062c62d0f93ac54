r"""Strict saddles, second-order stationary points, and the constants that measure them.

A point is an $\epsilon$-second-order stationary point of a $\rho$-Hessian Lipschitz $f$ if
$\|\nabla f\|\le\epsilon$ and $\nabla^2f\succeq-\sqrt{\rho\epsilon}\,I$: one accuracy for both conditions, in
the units of the function.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float

from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.landscape.conditions import second_order_stationary
from corollary.optimization import Problem


@implements("T07.01")
def hessian_lipschitz_lower_bound(f: Callable, x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n d"]) -> Array:
    r"""$\max\|\nabla^2f(x)-\nabla^2f(y)\|_2/\|x-y\|$ over the pairs of rows (n, d): a lower bound of $\rho$.

    Pairs that coincide say nothing. What is sampled lies below what is true everywhere.
    """
    f, dims = _function(f), {}
    x, y = real("x", x, "n d", dims), real("y", y, "n d", dims)
    distance = jnp.linalg.norm(x - y, axis=1)

    def norm(pair):  # one matrix after the other: batched decompositions of one program can wait for each other
        difference = jax.hessian(f)(pair[0]) - jax.hessian(f)(pair[1])
        return jnp.max(jnp.abs(jnp.linalg.eigvalsh(difference)))

    norms = jax.lax.map(norm, (x, y))
    return jnp.max(jnp.where(distance > 0, norms / jnp.where(distance > 0, distance, 1), 0))


@implements("T07.01")
def cosines_hessian_lipschitz(amplitudes: Float[ArrayLike, "m"], directions: Float[ArrayLike, "m d"]) -> Array:
    r"""$\rho\le\sum_j|c_j|\|a_j\|^3$ for $\sum_jc_j\cos(a_j\cdot w+b_j)$, everywhere."""
    dims = {}
    amplitudes, directions = real("amplitudes", amplitudes, "m", dims), real("directions", directions, "m d", dims)
    return jnp.abs(amplitudes) @ jnp.sum(directions**2, axis=1) ** 1.5


@implements("T07.01")
def rank_one_constants(matrix: Float[ArrayLike, "d d"], radius: Scalar) -> tuple[Array, Array]:
    r"""$(\ell,\rho)=(3R^2+\lambda_{\max},\,6R)$ of $\frac14\|M-xx^\top\|_F^2$ on the ball $\|x\|\le R$.

    For symmetric positive semidefinite $M$; outside a ball there are no such constants.
    """
    matrix, radius = real("matrix", matrix, "d d"), positive("radius", real("radius", radius, ""))
    return 3 * radius**2 + jnp.linalg.eigvalsh(matrix)[-1], 6 * radius


@implements("T07.02")
def is_strict_saddle(f: Callable, x: Float[ArrayLike, "d"], tolerance: Scalar | None = None) -> Array:
    r"""Whether $\nabla f(x)=0$ and $\lambda_{\min}(\nabla^2f(x))<0$; strict local maxima count.

    Up to `tolerance`, the square root of the precision unless given, a number counts as zero.
    """
    f, x = _function(f), real("x", x, "d")
    if tolerance is None:
        tolerance = float(jnp.finfo(x.dtype).eps) ** 0.5
    tolerance = positive("tolerance", real("tolerance", tolerance, ""))
    norm, least = _first_and_second(f, x)
    return (norm <= tolerance) & (least < -tolerance)


@implements("T07.03")
def is_second_order_stationary(f: Callable, x: Float[ArrayLike, "d"], epsilon: Scalar, rho: Scalar) -> Bool[Array, ""]:
    r"""Whether $\|\nabla f(x)\|\le\epsilon$ and $\nabla^2f(x)\succeq-\sqrt{\rho\epsilon}\,I$.

    Invariant under $g(x)=af(bx)$, $a,b>0$: $x$ is one of $f$ exactly if $x/b$ is one of $g$ with
    $\epsilon_g=ab\,\epsilon$ and $\rho_g=ab^3\rho$.
    """
    f, x = _function(f), real("x", x, "d")
    epsilon, rho = positive("epsilon", real("epsilon", epsilon, "")), positive("rho", real("rho", rho, ""))
    return second_order_stationary(f, x, epsilon, jnp.sqrt(rho * epsilon)).holds


@implements("T07.07")
def cubic_saddle(dim: int, gamma: Scalar, rho: Scalar = 1.0, stiffness: Scalar = 1.0) -> Problem:
    r"""$-\frac\gamma2x_1^2+\frac\rho6|x_1|^3+\frac s2\sum_{i\ge2}x_i^2$, started at its strict saddle, the origin.

    One direction of escape, of curvature $-\gamma$, and a Hessian that is exactly $\rho$-Lipschitz everywhere.
    The minimum $-\frac{2\gamma^3}{3\rho^2}$ lies at $x_1=\pm\frac{2\gamma}\rho$. `L` is $\max(s,\gamma)$, which
    bounds the curvature for $|x_1|\le2\gamma/\rho$; there gradient descent with a step of at most $1/L$ stays.
    """
    dim = whole("dim", dim)
    gamma = positive("gamma", real("gamma", gamma, ""))
    rho, stiffness = positive("rho", real("rho", rho, "")), positive("stiffness", real("stiffness", stiffness, ""))
    start = jnp.zeros(dim, gamma.dtype)

    def value(x, gamma, rho, stiffness):
        return -gamma / 2 * x[0] ** 2 + rho / 6 * jnp.abs(x[0]) ** 3 + stiffness / 2 * jnp.sum(x[1:] ** 2)

    return Problem(
        value,
        (gamma, rho, stiffness),
        start,
        L=jnp.maximum(stiffness, gamma),
        minimum=-2 * gamma**3 / (3 * rho**2),
        minimiser=start.at[0].set(2 * gamma / rho),
    )


def _first_and_second(f, x):
    return jnp.linalg.norm(jax.grad(f)(x)), jnp.linalg.eigvalsh(jax.hessian(f)(x))[0]


def _function(f):
    if not callable(f):
        raise TypeError(f"f must be a function of a point, got {type(f).__name__}.")
    return f
