r"""Likelihood as an objective and as a score: of the data that were fitted, and of data held out."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import concrete, real
from corollary.catalog import implements
from corollary.foundations import Gaussian


@implements("T14.05")
def mean_log_likelihood(law: Any, x: Float[ArrayLike, "n ..."]) -> Float[Array, ""]:
    r"""$\frac1n\sum_i\ln p(x_i)$ for a law with `log_prob(x)` of one example: what maximum likelihood maximises."""
    if not hasattr(law, "log_prob"):
        raise TypeError(f"law must have log_prob(x), got {type(law).__name__}.")
    return jnp.mean(jax.vmap(law.log_prob)(real("x", x)))


@implements("T14.06")
def held_out_gap(law: Any, train: Float[ArrayLike, "n ..."], test: Float[ArrayLike, "m ..."]) -> Float[Array, ""]:
    """The mean log-likelihood of the data that were fitted, less that of data that were not."""
    return mean_log_likelihood(law, train) - mean_log_likelihood(law, test)


@implements("T14.07")
def fit_isotropic(x: Float[ArrayLike, "n d"]) -> Gaussian:
    r"""The most likely $N(\mu,\sigma^2I)$: $\mu$ the mean and $\sigma^2=\frac1{nd}\sum_i\|x_i-\mu\|^2$.

    >>> float(fit_isotropic([[0.0, 0.0], [2.0, 0.0]]).covariance[0, 0])
    0.5
    """
    x = real("x", x, "n d")
    mean = x.mean(0)
    variance = jnp.mean((x - mean) ** 2)
    if concrete(variance) and not np.asarray(variance) > 0:
        raise ValueError("x must hold two different examples: the likelihood of a single point has no maximum.")
    return Gaussian(mean, variance * jnp.eye(x.shape[1], dtype=x.dtype))
