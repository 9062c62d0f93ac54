r"""One weight per layer: how a step of gradient descent couples all layers of a network that is not normalised."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import real
from corollary.catalog import implements


@implements("B10.27")
class ScalarProductNetwork(eqx.Module):
    r"""$y=(\prod_{l=1}^Lw_l)x$ for `weights` $w_1..w_L$; $\partial y/\partial w_k=x\prod_{l\ne k}w_l$."""

    weights: jax.Array

    def __init__(self, weights: Float[ArrayLike, "L"]):
        self.weights = real("weights", weights, "L")

    def __call__(self, x: Scalar) -> Float[Array, ""]:
        return jnp.prod(self.weights) * real("x", x, "", finite=False)

    def slopes(self, x: Scalar) -> Float[Array, "_"]:
        r"""$\partial y/\partial w_k$ for all $k$, as products over the layers below and above: no division by $w_k$."""
        one = jnp.ones(1, self.weights.dtype)
        below = jnp.concatenate([one, jnp.cumprod(self.weights)[:-1]])
        above = jnp.concatenate([jnp.cumprod(self.weights[::-1])[::-1][1:], one])
        return real("x", x, "", finite=False) * below * above


class UpdatedOutput(NamedTuple):
    r"""Coefficients $c_0..c_L$ of $y^{new}(\eta)=\sum_kc_k\eta^k$."""

    coefficients: jax.Array

    __repr__ = shown

    def __call__(self, step: Scalar, order: int | None = None) -> Float[Array, ""]:
        r"""$y^{new}(\eta)$, or only its terms up to `order`: 1 is what the gradient predicts."""
        kept = self.coefficients if order is None else self.coefficients[: order + 1]
        return jnp.polyval(kept[::-1], jnp.asarray(step))


@implements("B10.27")
def updated_output(weights: Float[ArrayLike, "L"], slopes: Float[ArrayLike, "L"], x: Scalar = 1.0) -> UpdatedOutput:
    r"""$\prod_l(w_l-\eta g_l)\,x$ as a polynomial in $\eta$ for the loss's `slopes` $g_l=\partial\ell/\partial w_l$.

    Of degree $L$: $c_k=(-1)^kx\sum_{|S|=k}\prod_{l\in S}g_l\prod_{l\notin S}w_l$. The first order is what the gradient
    promises; the others couple the layers.
    """
    weights, slopes = real("weights", weights, "L", dims := {}), real("slopes", slopes, "L", dims)
    x = real("x", x, "")
    start = jnp.zeros(weights.shape[0] + 1, jnp.result_type(weights, slopes)).at[0].set(1)

    def multiply(c, factor):
        w, g = factor
        return w * c - g * jnp.concatenate([jnp.zeros(1, c.dtype), c[:-1]]), None

    return UpdatedOutput(x * jax.lax.scan(multiply, start, (weights, slopes))[0])
