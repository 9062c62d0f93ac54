r"""The condition of Polyak and Łojasiewicz: $\frac12\|\nabla f(\theta)\|^2\ge\mu(f(\theta)-f^*)$ for all $\theta$."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import concrete, real
from corollary.catalog import implements
from corollary.optimization.problem import Problem


@implements("B05.21", "E03.08", "T06.07")
def pl_ratio(f: Callable, minimum: Scalar, theta: Float[ArrayLike, "..."]) -> Array:
    r"""$\frac{\frac12\|\nabla f(\theta)\|^2}{f(\theta)-f^*}$: at least $\mu$ everywhere, at most $L$; infinite at a
    minimiser.
    """
    if not callable(f):
        raise TypeError(f"f must be a function of a point, got {type(f).__name__}.")
    theta, minimum = real("theta", theta), real("minimum", minimum, "")
    value, slope = jax.value_and_grad(f)(theta)
    gap = value - minimum
    if concrete(gap) and float(gap) < 0:
        raise ValueError(
            f"minimum must be at most every value of f, got {float(minimum)} and a value of {float(value)}."
        )
    return jnp.where(gap > 0, 0.5 * jnp.sum(slope**2) / jnp.where(gap > 0, gap, 1), jnp.inf)


@implements("B05.21", "E03.08", "T06.07")
def pl_constant(f: Callable, minimum: Scalar, points: Float[ArrayLike, "..."]) -> Float[Array, ""]:
    r"""The least ratio over `points` (n, ...): an upper bound of the constant $\mu$, 0 iff some stationary point is no
    minimum.
    """
    points = real("points", points)
    if points.ndim == 0 or points.shape[0] == 0:
        raise ValueError(f"points must hold at least one point, one per row, got shape {points.shape}.")
    return jax.vmap(lambda theta: pl_ratio(f, minimum, theta))(points).min()


def valley(start: Float[ArrayLike, "2"] = (0.0, 2.0)) -> Problem:
    r"""$\frac12(y-\sin x)^2$: a curved valley of minima, Polyak-Łojasiewicz with $\mu=1$, not convex, smooth on strips
    only: the ratio is $1+\cos^2x$.
    """
    start = real("start", start, "2")
    zero = jnp.zeros_like(start)

    def value(theta):
        return 0.5 * (theta[1] - jnp.sin(theta[0])) ** 2

    return Problem(value, (), start, pl=zero.sum() + 1, minimum=zero.sum(), minimiser=zero)
