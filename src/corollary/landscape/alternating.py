r"""Alternating least squares for $ABx$: in each factor alone the squared loss is convex with a known minimum."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.landscape.linear_network import deep_linear_loss, least_squares_map, second_moments


@implements("B06.06")
def best_inner(
    outer: Float[ArrayLike, "k p"], x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n k"]
) -> Float[Array, "_ _"]:
    r"""The $B$ of least norm with $A^\top AB\Sigma_{xx}=A^\top\Sigma_{yx}$ (6.17): the best one for this $A$ (k, p)."""
    dims = {}
    outer, y = real("outer", outer, "k p", dims), real("y", y, "n k", dims)
    return jnp.linalg.pinv(outer) @ least_squares_map(x, y)


@implements("B06.06")
def best_outer(
    inner: Float[ArrayLike, "p d"], x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n k"]
) -> Float[Array, "_ _"]:
    r"""The $A$ of least norm with $AB\Sigma_{xx}B^\top=\Sigma_{yx}B^\top$ (6.23): the best one for this $B$ (p, d)."""
    dims = {}
    inner, x = real("inner", inner, "p d", dims), real("x", x, "n d", dims)
    second = second_moments(x, y)
    return second.yx @ inner.T @ jnp.linalg.pinv(inner @ second.xx @ inner.T, hermitian=True)


class Alternation(NamedTuple):
    """Both factors at the end, and the loss after each of the half steps (2 steps,)."""

    outer: jax.Array
    inner: jax.Array
    value: jax.Array

    __repr__ = shown


@implements("B06.06")
def alternating_least_squares(
    outer: Float[ArrayLike, "k p"], x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n k"], steps: int
) -> Alternation:
    """From an `outer` factor (k, p): the best inner one for it, the best outer one for that, and so on."""
    dims = {}
    outer, x, y = real("outer", outer, "k p", dims), real("x", x, "n d", dims), real("y", y, "n k", dims)
    steps, dtype = whole("steps", steps), jnp.result_type(outer, x, y)
    outer, x, y = outer.astype(dtype), x.astype(dtype), y.astype(dtype)

    def step(outer, _):
        inner = best_inner(outer, x, y)
        half = deep_linear_loss((inner, outer), x, y)
        outer = best_outer(inner, x, y)
        return outer, (inner, jnp.stack([half, deep_linear_loss((inner, outer), x, y)]))

    outer, (inner, value) = jax.lax.scan(step, outer, length=steps)
    return Alternation(outer, inner[-1], value.ravel())
