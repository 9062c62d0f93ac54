"""The power method: the eigenvalue of largest modulus of a matrix that is only known through its products."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from corollary._show import shown
from corollary._validate import concrete, real, whole
from corollary.catalog import implements


class Power(NamedTuple):
    r"""The Rayleigh quotients $u^\top Hu$ before each step, and the last unit vector.

    `residual` is $\|Hu-(u^\top Hu)u\|$: some eigenvalue lies within it of the last quotient. It stays large when the
    two eigenvalues of largest modulus have opposite signs, and the method does not converge.
    """

    quotients: jax.Array
    vector: jax.Array
    residual: jax.Array

    __repr__ = shown


@implements("T02.38")
def power_method(product: Callable, start: Float[ArrayLike, "d"], steps: int) -> Power:
    r"""$u\leftarrow Hu/\|Hu\|$ from `start`, for a symmetric $H$ given as `product(u)`.

    The quotients approach the eigenvalue of largest modulus, with its sign, like $(\lambda_2/\lambda_1)^{2t}$. For the
    Hessian of a loss, `product` is `corollary.autodiff.hessian_operator` and the result the sharpness.

    >>> print(power_method(lambda v: jnp.array([3.0, 1.0]) * v, jnp.ones(2), 30).vector)
    [1. 0.]
    """
    if not callable(product):
        raise TypeError(f"product must be a function of a vector, got {type(product).__name__}.")
    start, steps = real("start", start, "d"), whole("steps", steps)
    if concrete(start) and not np.any(np.asarray(start)):
        raise ValueError("start must not be the zero vector.")

    def unit(u):
        size = jnp.linalg.norm(u)
        return u / jnp.where(size > 0, size, 1)

    def advance(u, _):
        image = product(u)
        return unit(image), u @ image

    last, quotients = jax.lax.scan(advance, unit(start), length=steps)
    image = product(last)
    quotient = last @ image
    return Power(jnp.append(quotients, quotient), last, jnp.linalg.norm(image - quotient * last))
