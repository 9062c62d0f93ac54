r"""Likelihood of labels 0 and 1 under predicted probabilities, and its negative logarithm."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._validate import labels, real, within
from corollary.catalog import implements


@implements("M01.12")
def bernoulli_mass(p: Float[ArrayLike, "n"], y: Int[ArrayLike, "n"]) -> Float[Array, "_"]:
    r"""$p^y(1-p)^{1-y}$: the probability $p$ of label 1, or $1-p$ of label 0, of each label."""
    p, y = _pairs(p, y)
    return p**y * (1 - p) ** (1 - y)


@implements("M01.12")
def likelihood(p: Float[ArrayLike, "n"], y: Int[ArrayLike, "n"]) -> Float[Array, ""]:
    r"""$\prod_mp_m^{y_m}(1-p_m)^{1-y_m}$, the probability of all labels (1.7); of many it is 0 in floating point."""
    return jnp.prod(bernoulli_mass(p, y))


@implements("M01.12")
def negative_log_likelihood(p: Float[ArrayLike, "n"], y: Int[ArrayLike, "n"]) -> Float[Array, ""]:
    r"""$-\frac1M\sum_m\{y_m\ln p_m+(1-y_m)\ln(1-p_m)\}$ (1.8): same order as the likelihood, turned round.

    A label that was impossible costs infinity.
    """
    p, y = _pairs(p, y)
    return -jnp.mean(jnp.where(y == 1, jnp.log(p), jnp.log1p(-p)))


def _pairs(p, y):
    dims = {}
    p = within("p", real("p", p, "n", dims), 0.0, 1.0)
    return p, labels("y", y, 2, "n", dims)
