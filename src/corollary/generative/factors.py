r"""Structure as a product of two matrices: principal components, sparse codes, parts that are zero or more."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements


class PrincipalComponents(NamedTuple):
    """`axes` (k, d), the `variances` (d,) along all axes in falling order, the `mean` and the `codes` (n, k)."""

    mean: jax.Array
    axes: jax.Array
    variances: jax.Array
    codes: jax.Array

    __repr__ = shown

    def decode(self) -> Array:
        """The examples as the components have them, (n, d)."""
        return self.mean + self.codes @ self.axes


class Factors(NamedTuple):
    """`codes` (n, k) times `factors` (k, d), and the objective before each step and after the last."""

    codes: jax.Array
    factors: jax.Array
    losses: jax.Array

    __repr__ = shown


@implements("T14.01")
def pca(x: Float[ArrayLike, "n d"], count: int) -> PrincipalComponents:
    r"""The `count` leading eigenvectors of the covariance $\frac1n\sum_i(x_i-\bar x)(x_i-\bar x)^\top$.

    What they leave of the data, in the mean square, are the variances of the other axes.

    >>> pca([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]], 1).variances.tolist()[1]
    0.0
    """
    x = real("x", x, "n d")
    count = whole("count", count, 1, x.shape[1])
    mean = x.mean(0)
    values, vectors = jnp.linalg.eigh((x - mean).T @ (x - mean) / len(x))
    axes = vectors[:, ::-1][:, :count].T
    return PrincipalComponents(mean, axes, jnp.maximum(values[::-1], 0), (x - mean) @ axes.T)


@implements("T14.01")
def nmf(x: Float[ArrayLike, "n d"], count: int, steps: int, *, key: PRNGKeyArray) -> Factors:
    r"""$x\approx WH$ with all entries zero or more, by Lee and Seung's multiplicative steps from a random start.

    $W\leftarrow W\frac{xH^\top}{WHH^\top}$, $H\leftarrow H\frac{W^\top x}{W^\top WH}$: $\frac12\|x-WH\|_F^2$ never
    grows.
    """
    x = within("x", real("x", x, "n d"), 0.0)
    count = whole("count", count)
    tiny = jnp.finfo(x.dtype).eps
    codes_key, factors_key = jax.random.split(key)
    scale = jnp.sqrt(x.mean() / count)
    codes = scale * jax.random.uniform(codes_key, (len(x), count), x.dtype, 0.5, 1.5)
    factors = scale * jax.random.uniform(factors_key, (count, x.shape[1]), x.dtype, 0.5, 1.5)
    loss = lambda w, h: 0.5 * jnp.sum((x - w @ h) ** 2)  # noqa: E731

    def advance(carry, _):
        w, h = carry
        before = loss(w, h)
        w = w * (x @ h.T) / jnp.maximum(w @ (h @ h.T), tiny)
        h = h * (w.T @ x) / jnp.maximum(w.T @ w @ h, tiny)
        return (w, h), before

    (codes, factors), losses = lax.scan(advance, (codes, factors), length=whole("steps", steps))
    return Factors(codes, factors, jnp.append(losses, loss(codes, factors)))


@implements("T14.01")
def sparse_code(x: Float[ArrayLike, "n d"], count: int, steps: int, *, penalty: Scalar, key: PRNGKeyArray) -> Factors:
    r"""$\min\frac12\|x-ZD\|_F^2+\lambda\|Z\|_1$ over codes and dictionaries with rows of length 1 at most.

    A proximal gradient step in $Z$ (soft thresholding) and a projected one in $D$ by turns, each as long as the
    curvature of the other factor allows, so that the objective never grows. `count` may exceed the dimension.
    """
    x, count = real("x", x, "n d"), whole("count", count)
    penalty = positive("penalty", real("penalty", penalty, ""))
    within_ball = lambda d: d / jnp.maximum(jnp.linalg.norm(d, axis=1, keepdims=True), 1)  # noqa: E731
    start = jax.random.normal(key, (count, x.shape[1]), x.dtype)
    factors = start / jnp.linalg.norm(start, axis=1, keepdims=True)
    loss = lambda z, d: 0.5 * jnp.sum((x - z @ d) ** 2) + penalty * jnp.sum(jnp.abs(z))  # noqa: E731

    def advance(carry, _):
        z, d = carry
        before = loss(z, d)
        step = 1 / jnp.linalg.norm(d @ d.T)  # Frobenius, which is above the largest eigenvalue
        z = z - step * (z @ d - x) @ d.T
        z = jnp.sign(z) * jnp.maximum(jnp.abs(z) - step * penalty, 0)
        step = 1 / jnp.maximum(jnp.linalg.norm(z.T @ z), jnp.finfo(x.dtype).tiny)
        d = within_ball(d - step * z.T @ (z @ d - x))
        return (z, d), before

    begin = jnp.zeros((len(x), count), x.dtype), factors
    (codes, factors), losses = lax.scan(advance, begin, length=whole("steps", steps))
    return Factors(codes, factors, jnp.append(losses, loss(codes, factors)))
