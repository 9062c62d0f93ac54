r"""The perceptron in dual form: it counts its mistakes on each point, and never sees a feature.

A point is classified by $\operatorname{sign}(\sum_m\alpha_my_mK(x_m,x))$ with $\operatorname{sign}(0)=+1$, as in (4.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._show import shown
from corollary._validate import concrete, labels, real
from corollary.catalog import implements
from corollary.kernels.gram import gram


class DualRun(NamedTuple):
    """The mistakes counted on each point, and at which of the visits one was made."""

    alpha: jax.Array
    mistakes: jax.Array

    __repr__ = shown


@implements("M04.07", "M04.11")
def kernel_perceptron(g: Float[ArrayLike, "n n"], y: Float[ArrayLike, "n"], order: Int[ArrayLike, "k"]) -> DualRun:
    r"""Visit the points in this `order` and count the mistakes on each.

    A mistake is $y_m\ne\operatorname{sign}(\sum_k\alpha_ky_kG_{km})$; then $\alpha_m$ grows by 1. `g` is the Gram
    matrix and `y` holds signs. The scores of all points are kept up to date, so that a visit without a mistake costs
    nothing.
    """
    dims = {}
    g, y = real("g", g, "n n", dims), _signs(y, dims)
    order = labels("order", order, y.shape[0], "k")

    def visit(state, m):
        alpha, scores = state
        wrong = jnp.where(scores[m] >= 0, 1, -1) != y[m]
        return (alpha.at[m].add(wrong), scores + jnp.where(wrong, y[m] * g[m], 0)), wrong

    (alpha, _), mistakes = jax.lax.scan(visit, (jnp.zeros_like(y), jnp.zeros_like(y, dtype=g.dtype)), order)
    return DualRun(alpha, mistakes)


@implements("M04.07")
def primal_from_dual(
    alpha: Float[ArrayLike, "n"], y: Float[ArrayLike, "n"], features: Float[ArrayLike, "n d"]
) -> Array:
    r"""$w=\sum_m\alpha_my_m\psi(x_m)$, features in the rows: the weights of the perceptron from $w_0=0$."""
    dims = {}
    y, alpha = _signs(y, dims), real("alpha", alpha, "n", dims)
    return (alpha * y) @ real("features", features, "n d", dims)


@implements("M04.11")
class KernelPerceptron(eqx.Module):
    r"""A trained classifier: `score` of a point is $\sum_m\alpha_my_mK(x_m,x)$, calling it gives the sign."""

    kernel: object
    points: jax.Array
    y: jax.Array
    alpha: jax.Array

    @classmethod
    def fit(
        cls, kernel: Callable, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "n"], order: Int[ArrayLike, "k"]
    ) -> KernelPerceptron:
        """Train by visits in this `order`, such as `jax.random.randint(key, (steps,), 0, n)`."""
        g = gram(kernel, x)
        x = real("x", x)
        return cls(kernel, x[:, None] if x.ndim == 1 else x, _signs(y, {}), kernel_perceptron(g, y, order).alpha)

    def score(self, x: Float[ArrayLike, "d"]) -> Array:
        return (self.alpha * self.y) @ gram(self.kernel, self.points, real("x", x, "d")[None])[:, 0]

    def __call__(self, x: Float[ArrayLike, "d"]) -> Int[Array, ""]:
        return jnp.where(self.score(x) >= 0, 1, -1)


def _signs(y, dims):
    y = real("y", y, "n", dims)
    if concrete(y) and not (np.abs(np.asarray(y)) == 1).all():
        raise ValueError("y must hold +1 and -1 only.")
    return y
