r"""Normal laws of the weights as priors and posteriors."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import positive, real, within
from corollary.catalog import implements


@implements("B09.11", "T05.35")
def kl_gaussian(
    mean: Float[ArrayLike, "... p"],
    variance: Float[ArrayLike, "... p"],
    prior_mean: Float[ArrayLike, "... p"],
    prior_variance: Float[ArrayLike, "... p"],
) -> Float[Array, "..."]:
    r"""$\frac12\sum_i\big(\frac{s_i+(\mu_i-m_i)^2}{\lambda_i}-1-\ln\frac{s_i}{\lambda_i}\big)$, the KL of normal laws.

    $N(\mu,s)$ is the posterior and $N(m,\lambda)$ the prior, with independent coordinates; $s$ and $\lambda$ are
    variances, not standard deviations. A posterior of variance 0 is a point, which the prior does not charge: infinite.

    >>> float(kl_gaussian([1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0]))
    0.5
    """
    dims = {}
    mean, prior_mean = real("mean", mean, "... p", dims), real("prior_mean", prior_mean, "... p", dims)
    variance = within("variance", real("variance", variance, "... p", dims), 0.0)
    prior = positive("prior_variance", real("prior_variance", prior_variance, "... p", dims))
    ratio = variance / prior
    # r - 1 - ln r is small where r is near 1, and loses no digits in ln(1 + (r - 1))
    shape = (variance - prior) / prior - jnp.where(ratio > 0.5, jnp.log1p((variance - prior) / prior), jnp.log(ratio))
    return jnp.sum(shape + (mean - prior_mean) ** 2 / prior, -1) / 2
