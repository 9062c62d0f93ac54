r"""Models that are linear in their parameters: $\theta^\top x$, the quadratic form $x^\top\theta x$, a parabola."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import real, whole
from corollary.catalog import implements


@implements("M01.05")
class LinearModel(eqx.Module):
    r"""$m(x;\theta)=\theta^\top x$, without bias, called on one example."""

    theta: jax.Array

    def __init__(self, features: int, *, key: PRNGKeyArray):
        self.theta = jax.random.normal(key, (whole("features", features),)) / features**0.5

    @classmethod
    def of(cls, theta: Float[ArrayLike, "d"]) -> "LinearModel":
        """The model with this parameter vector."""
        theta = real("theta", theta, "d")
        return eqx.tree_at(lambda m: m.theta, cls(theta.shape[0], key=jax.random.key(0)), theta)

    def __call__(self, x: Float[ArrayLike, "_"]) -> Float[Array, ""]:
        return self.theta @ real("x", x, str(self.theta.shape[0]), finite=False)


@implements("M01.06")
class QuadraticForm(eqx.Module):
    r"""$m(x;\theta)=x^\top\theta x$ with $\theta\in\mathbb R^{d\times d}$, called on one example.

    Only the symmetric part of $\theta$ plays a part: the model has $d(d+1)/2$ degrees of freedom, not $d^2$.
    """

    theta: jax.Array

    def __init__(self, features: int, *, key: PRNGKeyArray):
        self.theta = jax.random.normal(key, (whole("features", features), features)) / features

    @classmethod
    def of(cls, theta: Float[ArrayLike, "d d"]) -> "QuadraticForm":
        """The model with this square parameter matrix."""
        theta = real("theta", theta, "d d")
        return eqx.tree_at(lambda m: m.theta, cls(theta.shape[0], key=jax.random.key(0)), theta)

    @property
    def degrees_of_freedom(self) -> int:
        d = self.theta.shape[0]
        return d * (d + 1) // 2

    def __call__(self, x: Float[ArrayLike, "_"]) -> Float[Array, ""]:
        x = real("x", x, str(self.theta.shape[0]), finite=False)
        return x @ self.theta @ x


@implements("M01.06", "M01.07")
def quadratic_features(x: Float[ArrayLike, "n d"]) -> Float[Array, "n _"]:
    r"""The products $x_i^2$ and $\sqrt2x_ix_j$, $i<j$, of each row: shape (n, d(d+1)/2).

    The quadratic form of a symmetric $\theta$ is linear in them, with coefficients $\theta_{ii}$ and
    $\sqrt2\theta_{ij}$ whose length is the Frobenius norm of $\theta$.
    """
    x = real("x", x, "n d")
    i, j = np.triu_indices(x.shape[1])
    return jnp.where(i == j, 1.0, jnp.sqrt(2.0)).astype(x.dtype) * x[:, i] * x[:, j]


@implements("M01.07")
def fit_quadratic_form(x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n"]) -> QuadraticForm:
    r"""The symmetric quadratic form of least squared error; of several, the one of least Frobenius norm."""
    dims = {}
    x, y = real("x", x, "n d", dims), real("y", y, "n", dims)
    coefficients = jnp.linalg.lstsq(quadratic_features(x), y)[0]
    i, j = np.triu_indices(x.shape[1])
    upper = jnp.zeros((x.shape[1],) * 2, coefficients.dtype).at[i, j].set(coefficients)
    # on the diagonal the coefficient itself, off it sqrt 2 times the entry that stands there twice
    off = jnp.triu(upper, 1) / jnp.sqrt(2.0)
    return QuadraticForm.of(jnp.diag(jnp.diagonal(upper)) + off + off.T)


@implements("M01.15")
def parabola_through(x0: Scalar, y0: Scalar, a: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$(a,b,c)$ with $b=-ax_0$ and $c=y_0$: for any $a$, $ax^2+bx+c$ passes through $(x_0,y_0)$."""
    x0, y0, a = real("x0", x0, ""), real("y0", y0, ""), real("a", a)
    return jnp.stack(jnp.broadcast_arrays(a, -a * x0, y0), axis=-1)
