r"""Matrix Bernstein: the spectral norm of a sum of independent random matrices of mean zero.

$Z=\sum_iX_i$ in $\mathbb R^{n_1\times n_2}$, $E[X_i]=0$, $\|X_i\|\le M$ in the spectral norm. The size of $Z$ is
governed by the variance $V=\max\{\|\sum E[X_iX_i^\top]\|,\|\sum E[X_i^\top X_i]\|\}$ and by the logarithm of $n_1+n_2$.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import positive, real, whole, within
from corollary.catalog import implements
from corollary.foundations._laws import together


@implements("T01.13")
def matrix_variance(
    matrices: Float[ArrayLike, "j a b"], weights: Float[ArrayLike, "j"] | None = None
) -> Float[Array, ""]:
    r"""$\max\{\|\sum_jw_jA_jA_j^\top\|,\|\sum_jw_jA_j^\top A_j\|\}$ for `matrices` $A_j$ of shape (j, n1, n2).

    Without weights: the variance of $\sum_j\epsilon_jA_j$ with independent signs, or any coefficients of mean 0 and
    variance 1. In general list all values of all summands, with their probabilities as weights.
    """
    dims = {}
    matrices = real("matrices", matrices, "j a b", dims)
    weights = jnp.ones(matrices.shape[0], matrices.dtype) if weights is None else real("weights", weights, "j", dims)
    within("weights", weights, 0.0)
    scaled = jnp.sqrt(weights)[:, None, None] * matrices
    # stacked side by side, the sum of A A' is one product, and its norm the largest eigenvalue
    rows = jnp.einsum("jab,jcb->ac", scaled, scaled)
    columns = jnp.einsum("jba,jbc->ac", scaled, scaled)
    return jnp.maximum(jnp.linalg.eigvalsh(rows)[-1], jnp.linalg.eigvalsh(columns)[-1])


@implements("T01.13")
def matrix_bernstein_mean(
    variance: Float[ArrayLike, "..."], bound: Float[ArrayLike, "..."], shape: tuple[int, int]
) -> Float[Array, "..."]:
    r"""$E\|Z\|\le\sqrt{2V\ln(n_1+n_2)}+\frac M3\ln(n_1+n_2)$, `shape` being $(n_1,n_2)$."""
    variance, bound = _premises(variance, bound)
    size = jnp.log(_size(shape))
    return jnp.sqrt(2 * variance * size) + bound * size / 3


@implements("T01.13")
def matrix_bernstein(
    t: Float[ArrayLike, "..."],
    variance: Float[ArrayLike, "..."],
    bound: Float[ArrayLike, "..."],
    shape: tuple[int, int],
) -> Float[Array, "..."]:
    r"""$P\{\|Z\|\ge t\}\le(n_1+n_2)\exp\Big(-\frac{t^2/2}{V+Mt/3}\Big)$, `shape` being $(n_1,n_2)$.

    For $n_1=n_2=1$ it is the scalar inequality for both tails.
    """
    variance, bound = _premises(variance, bound)
    t = positive("t", real("t", t))
    together(t=t, variance=variance, bound=bound)
    return _size(shape) * jnp.exp(-(t**2) / 2 / (variance + bound * t / 3))


def matrix_bernstein_deviation(
    delta: Float[ArrayLike, "..."],
    variance: Float[ArrayLike, "..."],
    bound: Float[ArrayLike, "..."],
    shape: tuple[int, int],
) -> Float[Array, "..."]:
    r"""The $t$ at which `matrix_bernstein` is `delta`: as for scalars, with $L=\ln\frac{n_1+n_2}\delta$."""
    variance, bound = _premises(variance, bound)
    delta = within("delta", real("delta", delta), 0.0, 1.0, open="both")
    together(delta=delta, variance=variance, bound=bound)
    level = jnp.log(_size(shape) / delta)
    return level * bound / 3 + jnp.sqrt((level * bound / 3) ** 2 + 2 * level * variance)


def _premises(variance, bound):
    variance, bound = within("variance", real("variance", variance), 0.0), positive("bound", real("bound", bound))
    together(variance=variance, bound=bound)
    return variance, bound


def _size(shape) -> int:
    if not isinstance(shape, tuple | list) or len(shape) != 2:
        raise TypeError(f"shape must be the pair (n1, n2), got {shape!r}.")
    return whole("n1", shape[0]) + whole("n2", shape[1])
