r"""Risks of least squares on normal data, exactly: of any parameter, and of the empirical risk minimiser on average.

The inputs are normal with mean 0, the label is $y=\theta^*\cdot x+\sigma\xi$ with $\xi$ standard normal, the loss is
$\frac12(y-\theta\cdot x)^2$.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements


@implements("B05.02")
def gaussian_risk(
    theta: Float[ArrayLike, "d"],
    truth: Float[ArrayLike, "d"],
    sigma: Scalar,
    covariance: Float[ArrayLike, "d d"] | None = None,
) -> Array:
    r"""$\mathcal R(\theta)=\frac12\big(\sigma^2+(\theta-\theta^*)^\top\Sigma(\theta-\theta^*)\big)$ ($\Sigma=I$ unless
    given): what the empirical risk of a fixed $\theta$ has as its mean.

    That empirical risk is $\frac{\mathcal R(\theta)}n$ times a $\chi^2_n$ variable: its standard deviation is
    $\mathcal R(\theta)\sqrt{2/n}$.
    """
    dims = {}
    theta, truth = real("theta", theta, "d", dims), real("truth", truth, "d", dims)
    sigma = within("sigma", real("sigma", sigma, ""), 0.0)
    away = theta - truth
    square = away @ away if covariance is None else away @ real("covariance", covariance, "d d", dims) @ away
    return 0.5 * (sigma**2 + square)


@implements("B05.02")
def erm_training_risk(n: int, dim: int, sigma: Scalar) -> Array:
    r"""$\mathbb E\,\mathcal R_S(\hat\theta)=\frac{\sigma^2}2(1-\frac dn)$ for $n\ge d$ samples whose inputs have rank
    $d$, whatever they are; $\frac{2n}{\sigma^2}\mathcal R_S(\hat\theta)$ is $\chi^2_{n-d}$.
    """
    n, dim, sigma = _sizes(n, dim, sigma, 0)
    return 0.5 * sigma**2 * (1 - dim / n)


@implements("B05.02")
def erm_expected_risk(n: int, dim: int, sigma: Scalar) -> Array:
    r"""$\mathbb E\,\mathcal R(\hat\theta)=\frac{\sigma^2}2(1+\frac d{n-d-1})$ for $n\ge d+2$ normal samples, whatever
    $\Sigma$; with fewer the mean is infinite.
    """
    n, dim, sigma = _sizes(n, dim, sigma, 2)
    return 0.5 * sigma**2 * (1 + dim / (n - dim - 1))


def _sizes(n, dim, sigma, spare):
    dim = whole("dim", dim)
    return whole("n", n, dim + spare), dim, jnp.asarray(positive("sigma", real("sigma", sigma, "")))
