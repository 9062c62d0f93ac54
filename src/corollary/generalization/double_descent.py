r"""Least squares as the number of features passes the number of points: its risk, exactly, and its variance."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import labels, real, whole, within
from corollary.catalog import implements


class LeastSquaresRisk(NamedTuple):
    """The expected risk of a new point and its parts: `risk` = `bias` + `variance` + the variance of the noise."""

    risk: Array
    bias: Array
    variance: Array
    __repr__ = shown


@implements("B13.09")
def least_squares_risk(
    n: int, p: Int[ArrayLike, "..."], signal: Float[ArrayLike, "d"], noise: Scalar
) -> LeastSquaresRisk:
    r"""Exact for least squares of least norm on the first `p` of d features, from `n` points with
    $x\sim\mathcal N(0,I_d)$, $y=w_*\cdot x+\epsilon$.

    `signal` is $w_*$ and `noise` the standard deviation $\sigma$ of $\epsilon$. With $A=\sum_{j\le p}w_{*j}^2$,
    $B=\sum_{j>p}w_{*j}^2$ and $C=B+\sigma^2$, for features left out act as noise: the squared bias is $B$ up to
    $p=n$ and $B+(1-\frac np)^2A$ beyond; the variance is $C\frac p{n-p-1}$ for $p\le n-2$ and
    $A\frac np(1-\frac np)+C\frac n{p-n-1}$ for $p\ge n+2$, infinite between. The variance of the squared error
    itself is infinite if $|p-n|<4$: averages over samples are then of no use.

    >>> [round(float(r), 3) for r in least_squares_risk(32, [16, 32, 64], jnp.full(128, 128**-0.5), 0.5).risk]
    [2.325, inf, 1.774]
    """
    n, signal = whole("n", n), real("signal", signal, "d")
    p, noise = labels("p", p, signal.shape[0] + 1, "..."), within("noise", real("noise", noise, ""), 0.0)
    cumulated = jnp.concatenate([jnp.zeros(1, signal.dtype), jnp.cumsum(signal**2)])
    seen, unseen = cumulated[p], cumulated[-1] - cumulated[p]
    whole_noise = unseen + noise**2
    ratio = jnp.minimum(n / jnp.maximum(p, 1), 1.0)
    bias = unseen + (1 - ratio) ** 2 * seen
    few, many = p <= n - 2, p >= n + 2
    gain = jnp.where(few, p / jnp.where(few, n - p - 1, 1), n / jnp.where(many, p - n - 1, 1))
    variance = jnp.where(few | many, whole_noise * gain + ratio * (1 - ratio) * seen, jnp.inf)
    return LeastSquaresRisk(bias + variance + noise**2, bias, variance)


@implements("B13.08")
def ols_variance(
    features: Float[ArrayLike, "n p"], covariance: Float[ArrayLike, "p p"], noise: Scalar
) -> Float[Array, ""]:
    r"""$\frac{\sigma^2}n\operatorname{tr}(\Sigma\bar\Sigma^{-1})$, $\bar\Sigma=\frac1n\Phi^\top\Phi$: the variance part
    of the risk of ordinary least squares at these `features` $\Phi$, for noise of variance $\sigma^2I$ and $p\le n$.

    `covariance` is $\Sigma$, the second moments of the features of a new point. Infinite if $\Phi$ has dependent
    columns.
    """
    dims = {}
    features = real("features", features, "n p", dims)
    covariance = real("covariance", covariance, "p p", dims)
    noise = within("noise", real("noise", noise, ""), 0.0)
    n, p = features.shape
    if p > n:
        raise ValueError(f"features must have no more columns than rows, got shape {features.shape}.")
    _, s, vt = jnp.linalg.svd(features, full_matrices=False)
    regular = s[-1] > n * jnp.finfo(features.dtype).eps * s[0]
    spread = jnp.einsum("ij,jk,ik->i", vt, covariance, vt)
    return jnp.where(regular, noise**2 * jnp.sum(spread / jnp.where(regular, s, 1) ** 2), jnp.inf)


@implements("B13.07", "B13.09")
def first_features_fit(
    features: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n"], p: Int[ArrayLike, ""]
) -> Float[Array, "d"]:
    r"""Least squares on the first `p` columns, of least norm if there are more columns than rows; zero for the others.

    `p` may be traced, so that one program maps over the number of features. It factors the smaller Gram matrix, of
    the columns ($p\le n$, $\bar w=(\Phi^\top\Phi)^{-1}\Phi^\top y$) or of the rows, and corrects the solution once by
    its residual; for features in general position, NaN where a Gram matrix is singular to the last digit. `linear`'s
    `min_norm_interpolant` costs more and needs no such premise.
    """
    dims = {}
    features, y = real("features", features, "n d", dims), real("y", y, "n", dims)
    n, d = features.shape
    p = labels("p", p, d + 1, "")
    used = features * (jnp.arange(d) < p)
    # up to n columns: padded by ones on the diagonal, so that p is no shape
    tall = jnp.pad(used[:, :n], ((0, 0), (0, max(n - d, 0))))
    rows = p > n
    gram = jnp.where(rows, used @ used.T, tall.T @ tall + jnp.diag((jnp.arange(n) >= p).astype(used.dtype)))
    factor = jnp.linalg.cholesky(gram), True

    def solve(b):
        found = jax.scipy.linalg.cho_solve(factor, jnp.where(rows, b, tall.T @ b))
        return jnp.where(rows, used.T @ found, jnp.pad(found, (0, max(d - n, 0)))[:d])

    w = solve(y)
    return w + solve(y - used @ w)
