r"""Robust regression with the bounded loss $\frac{r^2}{1+r^2}$: smooth, not convex, all gradients bounded."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import ArrayLike, Float

from corollary._validate import real
from corollary.optimization.problem import FiniteSum, finite_sum

#: the largest slope of $r^2/(1+r^2)$, at $r=1/\sqrt3$
STEEPEST = 9 / (8 * 3**0.5)


def geman_mcclure(
    x: Float[ArrayLike, "n d"],
    y: Float[ArrayLike, "n"],
    start: Float[ArrayLike, "d"] | None = None,
    *,
    batch_size: int = 1,
) -> FiniteSum:
    r"""$f_i(\theta)=\frac{r^2}{1+r^2}$ with $r=x_i\cdot\theta-y_i$, between 0 and 1.

    $L=2\lambda_{\max}(X^\top X/n)$ bounds the curvature, `STEEPEST` times $\|x_i\|$ the gradients. Outliers pull with
    a force that fades with their distance; there may be many local minima.
    """
    dims = {}
    x, y = real("x", x, "n d", dims), real("y", y, "n", dims)
    start = jnp.zeros(x.shape[1], x.dtype) if start is None else real("start", start, "d", dims)
    L = 2 * jnp.linalg.eigvalsh(x.T @ x / x.shape[0])[-1]
    return finite_sum(_bounded, (x, y), start, batch_size=batch_size, L=L)


def _bounded(theta, x, y):
    square = (x @ theta - y) ** 2
    return square / (1 + square)
