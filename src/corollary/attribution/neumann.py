r"""The inverse of a matrix from its products alone: the truncated series $A^{-1}\approx\sum_{i<r}(I-A)^i$.

One convention: `terms` $=r$ counts the summands, $i=0,\dots,r-1$, which takes $r-1$ products. With a `scale` $s$ the
series is that of $A/s$, divided by $s$: it converges exactly if the spectrum of $A$ lies in $(0,2s)$.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import concrete, positive, real, whole, within
from corollary.catalog import implements


@implements("T10.05")
def neumann_inverse(matrix: Float[ArrayLike, "d d"], terms: int, *, scale: Scalar = 1.0) -> Float[Array, "d d"]:
    r"""$\frac1s\sum_{i<r}(I-A/s)^i$, which tends to $A^{-1}$ if every eigenvalue of $A$ lies in $(0,2s)$.

    >>> neumann_inverse(jnp.diag(jnp.array([0.5, 1.0])), 40).round(4).tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    """
    matrix, scale = real("matrix", matrix, "d d"), positive("scale", real("scale", scale, ""))
    if concrete(matrix) and concrete(scale):
        _converging(np.asarray(matrix, float), float(scale))
    eye = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    # the rows of the inverse solve the transposed systems
    return neumann_solve(lambda u: u @ matrix, eye, terms, scale=scale)


def _converging(matrix, scale):
    """One sentence where the powers of I - A/s do not die out."""
    spectrum = np.linalg.eigvals(matrix)
    worst = spectrum[np.argmax(np.abs(1 - spectrum / scale))]
    if abs(1 - worst / scale) >= 1:
        raise ValueError(
            f"the eigenvalues of matrix must lie less than scale = {scale:g} away from it for the series to have a "
            f"limit, between 0 and {2 * scale:g} if they are real, got {worst:.4g}."
        )


@implements("T10.07")
def neumann_solve(
    product: Callable, vector: Float[ArrayLike, "..."], terms: int, *, scale: Scalar = 1.0
) -> Float[Array, "..."]:
    r"""$\frac1s\sum_{i<r}(I-A/s)^iv$ by $u\leftarrow v+(I-A/s)u$, with $r-1$ calls of `product`, $u\mapsto Au$.

    >>> neumann_solve(lambda u: 0.5 * u, jnp.ones(2), 30).round(4).tolist()
    [2.0, 2.0]
    """
    vector, scale = real("vector", vector), positive("scale", real("scale", scale, ""))
    scale = scale.astype(vector.dtype)

    def add(_, u):
        return vector + u - product(u) / scale

    return jax.lax.fori_loop(0, whole("terms", terms) - 1, add, vector) / scale


@implements("T10.07")
def stochastic_neumann_solve(
    product: Callable, vector: Float[ArrayLike, "..."], terms: int, *, scale: Scalar = 1.0, key: PRNGKeyArray
) -> Float[Array, "..."]:
    r"""The same sum with a fresh random matrix in each product: `product(u, key)` is $A_ju$ with $\mathbb E A_j=A$.

    The matrices are independent of each other, so that the mean of the result is the truncated sum for $A$; it is not
    if one random matrix serves all terms.
    """
    vector, scale = real("vector", vector), positive("scale", real("scale", scale, ""))
    scale = scale.astype(vector.dtype)

    def add(u, one):
        return vector + u - product(u, one) / scale, None

    keys = jax.random.split(key, whole("terms", terms))[1:]
    return jax.lax.scan(add, vector, keys)[0] / scale


@implements("T10.06")
def neumann_error(least: Float[ArrayLike, "..."], terms: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\frac{(1-\lambda)^r}\lambda$: the largest eigenvalue of $A^{-1}-\sum_{i<r}(I-A)^i$.

    $\lambda$ is the least eigenvalue of $A$, whose spectrum lies in $(0,1]$; $r$ is the number of terms.

    >>> float(neumann_error(0.5, 3))
    0.25
    """
    least, terms = real("least", least), within("terms", real("terms", terms), 0.0)
    within("least", least, 0.0, 1.0, open="low")
    return (1 - least) ** terms / least


@implements("T10.06")
def neumann_terms(least: float, epsilon: float) -> int:
    r"""The least number of terms with $\frac{(1-\lambda)^r}\lambda\le\epsilon$.

    At most $\frac1\lambda\ln\frac1{\lambda\epsilon}+1$.

    >>> neumann_terms(0.5, 0.25)
    3
    """
    for name, value in (("least", least), ("epsilon", epsilon)):
        if not concrete(value):
            raise TypeError(f"{name} must be a number, not a value traced by jit: a number of terms is static.")
        real(name, value, "")
    least, epsilon = float(least), float(epsilon)
    within("least", least, 0.0, 1.0, open="low")
    positive("epsilon", epsilon)
    if least == 1 or least * epsilon >= 1:
        return 1
    needed = math.log(least * epsilon) / math.log1p(-least)
    # a number that is whole but for rounding stays that
    return max(1, math.ceil(needed * (1 - 1e-12)))
