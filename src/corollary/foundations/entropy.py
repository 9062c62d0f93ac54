r"""Entropies as error functions, and the cumulant that is conjugate to the relative entropy of two coins.

Natural logarithms, $0\ln0=0$; an impossible event that happens costs infinity.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.scipy.special import entr, rel_entr, xlog1py, xlogy
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import real, within
from corollary.catalog import implements
from corollary.foundations._laws import distributions


def bernoulli_entropy(p: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$-p\ln p-(1-p)\ln(1-p)$.

    >>> round(float(bernoulli_entropy(0.5)), 4)
    0.6931
    """
    p = _probability("p", p)
    return entr(p) - xlog1py(1 - p, -p)


@implements("M01.13", "M03.06", "B02.21")
def binary_cross_entropy(y: Float[ArrayLike, "..."], prediction: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$-y\ln y'-(1-y)\ln(1-y')$, for hard and soft labels $y\in[0,1]$."""
    y, prediction = _probability("y", y), _probability("prediction", prediction)
    return -xlogy(y, prediction) - xlog1py(1 - y, -prediction)


@implements("M03.08", "B02.21")
def binary_cross_entropy_prime(y: Float[ArrayLike, "..."], prediction: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\ell_y'(y')=-y/y'+(1-y)/(1-y')$ (3.10), the derivative in the prediction; a term with weight 0 is 0."""
    y, prediction = _probability("y", y), _probability("prediction", prediction)
    one = jnp.where(y > 0, -y / jnp.where(y > 0, prediction, 1), 0)
    zero = jnp.where(y < 1, (1 - y) / jnp.where(y < 1, 1 - prediction, 1), 0)
    return one + zero


@implements("M03.24", "B05.01", "M15.01")
def kl(y: Float[ArrayLike, "... J"], p: Float[ArrayLike, "... J"]) -> Float[Array, "..."]:
    r"""$\sum_iy_i\ln\frac{y_i}{p_i}$ over the last axis: the label first, as the one-hot case needs it."""
    y, p = distributions(y=y, p=p)
    return jnp.sum(rel_entr(y, p), axis=-1)


@implements("M03.24", "B02.21", "E02.12", "B05.01")
def cross_entropy(y: Float[ArrayLike, "... J"], p: Float[ArrayLike, "... J"]) -> Float[Array, "..."]:
    r"""$-\sum_iy_i\ln p_i$ over the last axis; $-\ln p_i$ if $y$ is one-hot at $i$."""
    y, p = distributions(y=y, p=p)
    return -jnp.sum(xlogy(y, p), axis=-1)


@implements("M03.31")
def cumulant(theta: Float[ArrayLike, "..."], p: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\ln(pe^\theta+1-p)$, the logarithm of the moment generating function of a Bernoulli($p$) variable."""
    theta, p = real("theta", theta), _probability("p", p, open="both")
    return jnp.logaddexp(theta + jnp.log(p), jnp.log1p(-p))


@implements("M03.31")
def tilted_mean(theta: Float[ArrayLike, "..."], p: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\frac{pe^\theta}{pe^\theta+1-p}$, the maximiser of $q\mapsto\theta q-H(q,p)$; the maximum is `cumulant`."""
    theta, p = real("theta", theta), _probability("p", p, open="both")
    return jnp.exp(theta + jnp.log(p) - cumulant(theta, p))


@implements("M03.32")
def tilt(q: Float[ArrayLike, "..."], p: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\ln\frac{q(1-p)}{p(1-q)}$, the maximiser of $\theta\mapsto\theta q-\ln(pe^\theta+1-p)$; maximum $H(q,p)$."""
    q, p = _probability("q", q, open="both"), _probability("p", p, open="both")
    return jnp.log(q) - jnp.log1p(-q) - jnp.log(p) + jnp.log1p(-p)


def _probability(name, value, open=""):
    return within(name, real(name, value, finite=False), 0.0, 1.0, open=open)
