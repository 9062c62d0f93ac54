r"""Symmetric factorisation of rank $r$ and completion: $\min_X\frac14\|M-XX^\top\|_F^2$, from all entries or
from some.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import positive, real, within
from corollary.catalog import implements
from corollary.optimization import Problem


@implements("T06.27")
def symmetric_factorization(matrix: Float[ArrayLike, "d d"], start: Float[ArrayLike, "d r"]) -> Problem:
    r"""Minimise $\frac14\|M-XX^\top\|_F^2$ over $X\in\mathbb R^{d\times r}$, the shape of `start`.

    The minimum is $\frac14$ of the squared eigenvalues that are negative or not among the $r$ largest; with
    $X$ every $XR$, $R$ orthogonal, is a minimiser.
    """
    dims = {}
    matrix, start = real("matrix", matrix, "d d", dims), real("start", start, "d r", dims)
    spectrum, axes = jnp.linalg.eigh(matrix)
    top = jnp.maximum(spectrum[::-1][: start.shape[1]], 0)
    return Problem(
        lambda x, m: 0.25 * jnp.sum((m - x @ x.T) ** 2),
        (matrix,),
        start,
        minimum=0.25 * (jnp.sum(spectrum**2) - jnp.sum(top**2)),
        minimiser=axes[:, ::-1][:, : start.shape[1]] * jnp.sqrt(top),
    )


@implements("T06.27")
def procrustes(x: Float[ArrayLike, "d r"], z: Float[ArrayLike, "d r"]) -> Float[Array, "r r"]:
    r"""The orthogonal $R$ that minimises $\|X-ZR\|_F$, for $X$ and $Z$ (d, r): $UV^\top$ of the decomposition of
    $Z^\top X$.

    $X-ZR$ is the direction towards the nearest of the minimisers; for $r=1$ it is $x-z$ or $x+z$, whichever
    is shorter.
    """
    dims = {}
    x, z = real("x", x, "d r", dims), real("z", z, "d r", dims)
    u, _, vt = jnp.linalg.svd(z.T @ x)
    return u @ vt


@implements("T06.27")
def symmetric_completion(
    matrix: Float[ArrayLike, "d d"],
    observed: Float[ArrayLike, "d d"],
    start: Float[ArrayLike, "d r"],
    *,
    level: Scalar,
    penalty: Scalar = 1.0,
) -> Problem:
    r"""Minimise $\frac1{4p}\sum_{(i,j)\in\Omega}(M-XX^\top)_{ij}^2+\lambda\sum_i(\|X_i\|-\alpha)_+^4$ over $X$.

    `observed` (d, d) is 1 on $\Omega$ and 0 elsewhere, symmetric; $p$ is its mean. Rows longer than the
    `level` $\alpha$ are penalised with weight `penalty`: without that, points with a few long rows look
    better than they are.
    """
    dims = {}
    matrix, start = real("matrix", matrix, "d d", dims), real("start", start, "d r", dims)
    observed = within("observed", real("observed", observed, "d d", dims), 0.0, 1.0)
    level, penalty = positive("level", real("level", level, "")), within("penalty", real("penalty", penalty, ""), 0.0)

    def value(x, m, observed, level, penalty):
        share = jnp.maximum(observed.mean(), 1 / observed.size)
        rest = observed * (m - x @ x.T)
        # the square root of 0 has no gradient; a row shorter than the level has no penalty anyway
        square = jnp.sum(x**2, axis=1)
        length = jnp.sqrt(jnp.maximum(square, level**2))
        return 0.25 * jnp.sum(rest**2) / share + penalty * jnp.sum((length - level) ** 4)

    return Problem(value, (matrix, observed, level, penalty), start, minimum=jnp.zeros((), start.dtype))
