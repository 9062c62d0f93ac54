r"""The tangent kernel of a network with finitely many units: an average of one matrix per unit, and how far it is off.

For $f(x)=\frac1{\sqrt m}\sum_ka_k\sigma(w_k\cdot x)$ with signs $a_k$ and trained $w_k$ the matrix of the kernel is
$\hat G=\frac1m\sum_kH_k$, $(H_k)_{ij}=x_i\cdot x_j\,\sigma'(w_k\cdot x_i)\sigma'(w_k\cdot x_j)$; its mean over
the $w_k$ is $G$, for Gaussian ones `kernels.first_layer_ntk`.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import positive, real, within
from corollary.catalog import implements
from corollary.generalization.bound import confidence


@implements("B08.30", "B08.31")
def unit_grams(
    x: Float[ArrayLike, "n d"], w: Float[ArrayLike, "m d"], activation: Callable = jnp.tanh
) -> Float[Array, "m n n"]:
    r"""$H_k=(x_i\cdot x_j\,\sigma'(w_k\cdot x_i)\sigma'(w_k\cdot x_j))_{ij}$ of every unit $k$: (m, n, n).

    Their mean is the matrix of the tangent kernel with signs on top; with other numbers $a_k$ there, unit $k$ counts
    $a_k^2$ times.

    >>> unit_grams(jnp.eye(2), jnp.zeros((3, 2))).shape
    (3, 2, 2)
    """
    dims = {}
    x, w = real("x", x, "n d", dims), real("w", w, "m d", dims)
    if not callable(activation):
        raise TypeError(f"activation must be a function of one number, got {type(activation).__name__}.")
    slopes = jax.vmap(jax.vmap(jax.grad(lambda z: activation(z))))(w @ x.T)
    rows = slopes[:, :, None] * x
    return jnp.einsum("knd,kld->knl", rows, rows, precision="highest")


@implements("B08.32")
def unit_gram_bound(x: Float[ArrayLike, "n d"], slope: Scalar) -> Float[Array, ""]:
    r"""$B^2\|X\|_F^2$, at least $\|H_k\|_F$ for an activation with $|\sigma'|\le B$ = `slope`."""
    return positive("slope", real("slope", slope, "")) ** 2 * jnp.sum(real("x", x, "n d") ** 2)


@implements("B08.34", "B08.35")
def sampled_ntk_deviation(
    x: Float[ArrayLike, "n d"], width: Float[ArrayLike, "..."], delta: Float[ArrayLike, "..."], *, slope: Scalar
) -> Float[Array, "..."]:
    r"""$B^2\|X\|_F^2\big(\frac2{\sqrt m}+6\sqrt{\frac{\ln(2/\delta)}{2m}}\big)$: $\|\hat G-G\|_2$ is below it, (8.28).

    With probability $1-\delta$ over $m$ = `width` independent units with $|\sigma'|\le B$ = `slope`, of any law. No
    eigenvalue of $\hat G$ is then further from that of $G$, in order.
    """
    width, delta = within("width", real("width", width), 1.0), confidence(delta)
    return unit_gram_bound(x, slope) * (2 + 6 * jnp.sqrt(jnp.log(2 / delta) / 2)) / jnp.sqrt(width)
