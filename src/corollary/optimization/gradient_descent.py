"""Gradient descent with a constant step, and what it does on a quadratic, in closed form."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements


@implements("M01.11", "M02.06", "M03.09", "B05.07", "E03.03", "M17.02", "T02.01")
def gradient_descent(
    gradient: Callable, start: Float[ArrayLike, "..."], step: Scalar, steps: int
) -> Float[Array, "..."]:
    r"""The path $\theta_{k+1}=\theta_k-\eta\,\nabla f(\theta_k)$, start included: shape `(steps + 1, *start.shape)`.

    `gradient` maps a point to the gradient there. One compiled scan; `vmap` over `start` and `step` runs many
    descents side by side.

    >>> gradient_descent(lambda w: 2 * w, jnp.ones(1), 0.25, 2).tolist()
    [[1.0], [0.5], [0.25]]
    """
    if not callable(gradient):
        raise TypeError(f"gradient must be a function of a point, got {type(gradient).__name__}.")
    start, step, steps = real("start", start), positive("step", real("step", step, "")), whole("steps", steps, 0)
    slope = jax.eval_shape(gradient, start)
    if getattr(slope, "shape", None) != start.shape:
        raise ValueError(f"gradient must return shape {start.shape} like start, got {slope}.")
    dtype = jnp.result_type(start, slope.dtype)
    start, step = start.astype(dtype), step.astype(dtype)

    def advance(theta, _):
        theta = theta - step * gradient(theta)
        return theta, theta

    _, rest = jax.lax.scan(advance, start, length=steps)
    return jnp.concatenate([start[None], rest])


@implements("M02.06", "B05.12", "B05.33", "T02.19")
def quadratic_descent(
    hessian: Float[ArrayLike, "d d"],
    start: Float[ArrayLike, "d"],
    step: Scalar,
    steps: int,
    minimiser: Float[ArrayLike, "d"] | None = None,
) -> Float[Array, "_ _"]:
    r"""What gradient descent does on a quadratic: $\theta_k=\theta^*+(I-\eta H)^k(\theta_0-\theta^*)$.

    `hessian` is the symmetric $H$, `minimiser` any $\theta^*$ with zero gradient (the origin unless given). No
    iteration: the powers are taken of the eigenvalues.
    """
    rates, basis, start, minimiser = _eigen(hessian, start, minimiser)
    step, steps = positive("step", real("step", step, "")), whole("steps", steps, 0)
    powers = (1 - step * rates) ** jnp.arange(steps + 1)[:, None]
    return minimiser + (powers * (basis.T @ (start - minimiser))) @ basis.T


@implements("M17.23")
def quadratic_flow(
    hessian: Float[ArrayLike, "d d"],
    start: Float[ArrayLike, "d"],
    times: Float[ArrayLike, "t"],
    minimiser: Float[ArrayLike, "d"] | None = None,
) -> Float[Array, "_ _"]:
    r"""The gradient flow $\dot X=-H(X-\theta^*)$ at each of `times`: $\theta^*+e^{-tH}(\theta_0-\theta^*)$."""
    rates, basis, start, minimiser = _eigen(hessian, start, minimiser)
    times = within("times", real("times", times, "t"), 0.0)
    return minimiser + (jnp.exp(-times[:, None] * rates) * (basis.T @ (start - minimiser))) @ basis.T


def _eigen(hessian, start, minimiser):
    dims = {}
    hessian, start = real("hessian", hessian, "d d", dims), real("start", start, "d", dims)
    minimiser = jnp.zeros_like(start) if minimiser is None else real("minimiser", minimiser, "d", dims)
    return *jnp.linalg.eigh(hessian), start, minimiser
