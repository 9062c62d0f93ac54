r"""Penalised regression in a feature space, in primal and in dual form.

$\Lambda(w)=\frac1M\sum_m\frac12(w\cdot\psi(x_m)+b-y_m)^2+C\|w\|^2$ with $b$ known. The penalty stands outside the
average, so that the ridge is $2CM$.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import positive, real
from corollary.catalog import implements
from corollary.kernels.gram import gram


@implements("M04.14")
def primal_objective(
    w: Float[ArrayLike, "n"],
    features: Float[ArrayLike, "m n"],
    y: Float[ArrayLike, "m"],
    penalty: Scalar,
    bias: Scalar = 0.0,
) -> Array:
    r"""$\Lambda(w)$, with the feature vectors $\psi(x_m)$ in the rows of `features`."""
    dims = {}
    features, y = real("features", features, "m n", dims), real("y", y, "m", dims)
    w, penalty, bias = real("w", w, "n", dims), _penalty(penalty), real("bias", bias, "")
    return 0.5 * jnp.mean((features @ w + bias - y) ** 2) + penalty * w @ w


@implements("M04.14")
def feature_ridge(
    features: Float[ArrayLike, "m n"], y: Float[ArrayLike, "m"], penalty: Scalar, bias: Scalar = 0.0
) -> Array:
    r"""The minimiser $w=(\Psi\Psi^\top+2CMI)^{-1}\Psi(y-b)$ of $\Lambda$: one system in the number of features."""
    dims = {}
    features, y = real("features", features, "m n", dims), real("y", y, "m", dims)
    penalty, bias = _penalty(penalty), real("bias", bias, "")
    m, n = features.shape
    ridge = 2 * penalty * m * jnp.eye(n, dtype=features.dtype)
    return jnp.linalg.solve(features.T @ features + ridge, features.T @ (y - bias))


@implements("M04.15")
def dual_objective(
    alpha: Float[ArrayLike, "m"],
    g: Float[ArrayLike, "m m"],
    y: Float[ArrayLike, "m"],
    penalty: Scalar,
    bias: Scalar = 0.0,
) -> Array:
    r"""$\Lambda(\alpha)=\frac1{2M}\|G\alpha+b-y\|^2+C\alpha^\top G\alpha$: $\Lambda$ at $w=\sum_m\alpha_m\psi(x_m)$."""
    g, y, penalty, bias = _dual(g, y, penalty, bias)
    alpha = real("alpha", alpha, "m", {"m": y.shape[0]})
    return 0.5 * jnp.mean((g @ alpha + bias - y) ** 2) + penalty * alpha @ g @ alpha


@implements("M04.15")
def kernel_ridge_dual(
    g: Float[ArrayLike, "m m"], y: Float[ArrayLike, "m"], penalty: Scalar, bias: Scalar = 0.0
) -> Array:
    r"""$\alpha=(G+2CMI)^{-1}(y-b)$: one system in the number of points, whatever the number of features."""
    g, y, penalty, bias = _dual(g, y, penalty, bias)
    return jnp.linalg.solve(g + 2 * penalty * y.shape[0] * jnp.eye(y.shape[0], dtype=g.dtype), y - bias)


@implements("M04.16")
class KernelRidge(eqx.Module):
    r"""A fitted predictor $x\mapsto\sum_m\alpha_mK(x_m,x)+b$; made with `KernelRidge.fit`."""

    kernel: object
    points: jax.Array
    alpha: jax.Array
    bias: jax.Array

    @classmethod
    def fit(
        cls, kernel: Callable, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "m"], penalty: Scalar, bias: Scalar = 0.0
    ) -> KernelRidge:
        """Fit to points in the rows of `x`; `bias` is the known constant."""
        alpha = kernel_ridge_dual(gram(kernel, x), y, penalty, bias)
        x = real("x", x)
        return cls(kernel, x[:, None] if x.ndim == 1 else x, alpha, real("bias", bias, ""))

    def __call__(self, x: Float[ArrayLike, "..."]) -> Array:
        """The prediction at one point."""
        x = real("x", x)
        return self.alpha @ gram(self.kernel, self.points, x.reshape(1, -1))[:, 0] + self.bias


def _dual(g, y, penalty, bias):
    dims = {}
    g, y = real("g", g, "m m", dims), real("y", y, "m", dims)
    return g, y, _penalty(penalty), real("bias", bias, "")


def _penalty(value):
    return positive("penalty", real("penalty", value, ""))
