r"""The noise of stochastic gradients: variance, covariance, and the constants $\kappa_1,\kappa_2$ of the theorems."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, Float, PyTree

from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements
from corollary.optimization._arguments import start_of
from corollary.optimization.problem import FiniteSum


@implements("B05.25")
def gradient_variance(problem: FiniteSum, theta: PyTree) -> Array:
    r"""$\frac1n\sum_i\|\nabla f_i(\theta)-\nabla f(\theta)\|^2$, the trace of `gradient_covariance`."""
    return jnp.sum(_centred(problem, theta) ** 2, axis=1).mean()


def gradient_covariance(problem: FiniteSum, theta: PyTree) -> Array:
    r"""$\frac1n\sum_i(\nabla f_i-\nabla f)(\nabla f_i-\nabla f)^\top$ at $\theta$: shape (d, d)."""
    spread = _centred(problem, theta)
    return spread.T @ spread / spread.shape[0]


def batch_factor(n: int, batch_size: int, *, replacement: bool = True) -> float:
    r"""By what a batch multiplies the variance of one example: $\frac1B$ with replacement, $\frac{n-B}{B(n-1)}$
    without.
    """
    n = whole("n", n)
    batch_size = whole("batch_size", batch_size, 1, None if replacement else n)
    return 1 / batch_size if replacement or n == 1 else (n - batch_size) / (batch_size * (n - 1))


class NoiseConstants(NamedTuple):
    r"""$\mathbb E\|\nabla f_i(\theta)\|^2\le\kappa_1+\kappa_2\|\nabla f(\theta)\|^2$ everywhere, with equality at
    `attained`.
    """

    kappa1: jnp.ndarray
    kappa2: jnp.ndarray
    attained: jnp.ndarray


@implements("M18.09")
def noise_constants(x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n"], kappa2: Scalar) -> NoiseConstants:
    r"""The least $\kappa_1$ for a given $\kappa_2$ and least squares, $f_i(\theta)=\frac12(x_i\cdot\theta-y_i)^2$, one
    at a time.

    Both sides are quadratic in $\theta$, so $\kappa_1$ is the maximum of a quadratic: exact and attained. It is finite
    for $\kappa_2$ above `least_growth(x)`, infinite below.
    """
    dims = {}
    x, y = real("x", x, "n d", dims), real("y", y, "n", dims)
    kappa2 = within("kappa2", real("kappa2", kappa2, ""), 1.0)
    centre = jnp.linalg.lstsq(x, y)[0]
    residual, size, hessian, fourth = x @ centre - y, jnp.sum(x**2, axis=1), *_moments(x)
    slope = (size * residual) @ x / x.shape[0]
    gap = kappa2 * hessian @ hessian - fourth
    away = jnp.linalg.solve(gap, slope)
    finite = jnp.linalg.eigvalsh(gap)[0] > 0
    kappa1 = jnp.where(finite, jnp.mean(size * residual**2) + slope @ away, jnp.inf)
    return NoiseConstants(kappa1, kappa2, jnp.where(finite, centre + away, jnp.nan))


def least_growth(x: Float[ArrayLike, "n d"]) -> Float[Array, ""]:
    r"""The infimum of the $\kappa_2$ that least squares with full column rank allows:
    $\lambda_{\max}(A^{-1}BA^{-1})$.

    $A=\frac1n\sum x_ix_i^\top$ and $B=\frac1n\sum\|x_i\|^2x_ix_i^\top$.
    """
    hessian, fourth = _moments(real("x", x, "n d"))
    half = jnp.linalg.solve(hessian, fourth)
    return jnp.linalg.eigvalsh(jnp.linalg.solve(hessian, half.T))[-1]


@implements("M18.14")
def batch_constants(
    kappa1: Float[ArrayLike, "..."], kappa2: Float[ArrayLike, "..."], batch_size: Float[ArrayLike, "..."]
) -> tuple:
    r"""The constants of a batch drawn with replacement: $\frac{\kappa_1}B$ and $1+\frac{\kappa_2-1}B$.

    M prints $\frac{\kappa_2}B$ for the second, which cannot be: no batch has a second moment below
    $\|\nabla f\|^2$.
    """
    kappa1, kappa2 = within("kappa1", real("kappa1", kappa1), 0.0), within("kappa2", real("kappa2", kappa2), 1.0)
    batch_size = within("batch_size", real("batch_size", batch_size), 1.0)
    return kappa1 / batch_size, 1 + (kappa2 - 1) / batch_size


@implements("M18.18")
def example_noise(problem: FiniteSum, theta: PyTree) -> Array:
    r"""$R_i=\nabla f(\theta)-\nabla f_i(\theta)$ of every example, what a step adds to the gradient: shape (n, d)."""
    return -_centred(problem, theta)


def decreasing_step(
    L: Float[ArrayLike, "..."], gradient_norm: Float[ArrayLike, "..."], second_moment: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""The step below which the expected value decreases for sure:
    $\frac{2\|\nabla f\|^2}{L\,\mathbb E\|\nabla f_i\|^2}$.
    """
    L, second_moment = positive("L", real("L", L)), positive("second_moment", real("second_moment", second_moment))
    return 2 * real("gradient_norm", gradient_norm) ** 2 / (L * second_moment)


def _centred(problem, theta):
    if not isinstance(problem, FiniteSum):
        raise TypeError(f"problem must be a FiniteSum, got {type(problem).__name__}.")
    each = jax.vmap(lambda slope: ravel_pytree(slope)[0])(problem.gradients(start_of(problem, theta, "theta")))
    return each - each.mean(0)


def _moments(x):
    return x.T @ x / x.shape[0], (jnp.sum(x**2, axis=1) * x.T) @ x / x.shape[0]
