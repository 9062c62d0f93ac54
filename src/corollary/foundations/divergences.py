r"""How far apart two laws are: distances and divergences of vectors of probabilities, and of normal laws.

Vectors of probabilities lie along the last axis. The relative entropy `kl` of such vectors is in `entropy.py`,
distances that know how far apart the outcomes are in `transport.py`. What one law charges and the other does not costs
as much as the definition says, infinity where it is infinite, and is never a NaN.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import positive, real, whole, within
from corollary.catalog import implements
from corollary.foundations._laws import distributions, fixed_order
from corollary.foundations.entropy import kl


@implements("M15.04")
def total_variation(p: Float[ArrayLike, "... J"], q: Float[ArrayLike, "... J"]) -> Float[Array, "..."]:
    r"""$\frac12\sum_i|p_i-q_i|=\max_A|P(A)-Q(A)|$, between 0 and 1.

    >>> float(total_variation([0.5, 0.5, 0.0], [0.0, 0.5, 0.5]))
    0.5
    """
    p, q = distributions(p=p, q=q)
    return jnp.sum(jnp.abs(p - q), axis=-1) / 2


@implements("M15.04")
def hellinger(p: Float[ArrayLike, "... J"], q: Float[ArrayLike, "... J"]) -> Float[Array, "..."]:
    r"""$\big(\frac12\sum_i(\sqrt{p_i}-\sqrt{q_i})^2\big)^{1/2}$, between 0 and 1.

    >>> float(hellinger([1.0, 0.0], [0.0, 1.0]))
    1.0
    """
    p, q = distributions(p=p, q=q)
    return jnp.linalg.norm(jnp.sqrt(p) - jnp.sqrt(q), axis=-1) / 2**0.5


@implements("M15.04")
def renyi(p: Float[ArrayLike, "... J"], q: Float[ArrayLike, "... J"], order: float) -> Float[Array, "..."]:
    r"""$\frac1{\alpha-1}\ln\sum_ip_i^\alpha q_i^{1-\alpha}$ of order $\alpha\in(0,\infty]$; `kl` at 1.

    At $\alpha=\infty$ it is $\ln\max_ip_i/q_i$. From order 1 on it is infinite where $q$ is 0 and $p$ is not, below
    only if the two laws have no outcome in common.

    >>> round(float(renyi([0.5, 0.5], [0.25, 0.75], 2.0)), 4)
    0.2877
    """
    p, q = distributions(p=p, q=q)
    order = fixed_order(order, 0.0, open="low")
    if order == 1:
        return kl(p, q)
    # ln(p / q), -∞ where p is 0 and +∞ where only q is
    seen = (p > 0) & (q > 0)
    logs = jnp.log(jnp.where(seen, p, 1)) - jnp.log(jnp.where(seen, q, 1))
    logs = jnp.where(seen, logs, jnp.where(p > 0, jnp.inf, -jnp.inf))
    if order == jnp.inf:
        return jnp.max(logs, axis=-1)
    if abs(order - 1) < 0.5:  # the sum is near 1, and its logarithm would lose digits
        rest = jnp.where(p > 0, p * jnp.expm1((order - 1) * jnp.where(p > 0, logs, 0)), 0)
        return jnp.log1p(jnp.maximum(jnp.sum(rest, axis=-1), -1)) / (order - 1)
    terms = jnp.log(jnp.where(p > 0, p, 1)) + (order - 1) * jnp.where(p > 0, logs, 0)
    return logsumexp(jnp.where(p > 0, terms, -jnp.inf), axis=-1) / (order - 1)


@implements("M15.04", "T16.01")
def f_divergence(p: Float[ArrayLike, "... J"], q: Float[ArrayLike, "... J"], f: Callable) -> Float[Array, "..."]:
    r"""$D_f(P\|Q)=\sum_iq_if(p_i/q_i)$ for a convex function $f$ on $(0,\infty)$ with $f(1)=0$.

    `f` takes an array of ratios. An outcome that only $Q$ charges costs $q_if(0)$, one that only $P$ charges
    $p_i\lim_{t\to\infty}f(t)/t$; the limits are looked for in the numbers, and what still moves there is infinite.

    >>> import jax.numpy as jnp
    >>> round(float(f_divergence([0.5, 0.5], [0.25, 0.75], lambda t: t * jnp.log(t))), 4)
    0.1438
    """
    if not callable(f):
        raise TypeError(f"f must be a function of an array of ratios, got {type(f).__name__}.")
    p, q = distributions(p=p, q=q)
    both = (p > 0) & (q > 0)
    inside = jnp.where(both, q * f(jnp.where(both, p, 1) / jnp.where(both, q, 1)), 0)
    only_q = jnp.where((p == 0) & (q > 0), q, 0).sum(-1)
    only_p = jnp.where((q == 0) & (p > 0), p, 0).sum(-1)
    # the slope at infinity is the limit at 0 of t f(1/t), the function of the divergence the other way round
    ends = _limit_at_zero(f, p.dtype), _limit_at_zero(lambda t: t * f(1 / t), p.dtype)
    cost = (jnp.where(mass > 0, mass * end, 0) for mass, end in zip((only_q, only_p), ends, strict=True))
    return jnp.sum(inside, axis=-1) + sum(cost)


@implements("M15.04")
def jensen_shannon(p: Float[ArrayLike, "... J"], q: Float[ArrayLike, "... J"]) -> Float[Array, "..."]:
    r"""$\frac12\mathrm{KL}(p|m)+\frac12\mathrm{KL}(q|m)$ with $m=\frac{p+q}2$: symmetric, and at most $\ln2$.

    >>> round(float(jensen_shannon([1.0, 0.0], [0.0, 1.0])), 4)
    0.6931
    """
    p, q = distributions(p=p, q=q)
    return (kl(p, (p + q) / 2) + kl(q, (p + q) / 2)) / 2


@implements("B09.11", "T05.35", "M15.16", "M15.36")
def gaussian_kl(
    mean: Float[ArrayLike, "... p"],
    variance: Float[ArrayLike, "... p"],
    prior_mean: Float[ArrayLike, "... p"],
    prior_variance: Float[ArrayLike, "... p"],
) -> Float[Array, "..."]:
    r"""$\frac12\sum_i\big(\frac{s_i+(\mu_i-m_i)^2}{\lambda_i}-1-\ln\frac{s_i}{\lambda_i}\big)$, the KL of normal laws.

    $N(\mu,s)$ is the posterior and $N(m,\lambda)$ the prior, with independent coordinates; $s$ and $\lambda$ are
    variances, not standard deviations. A posterior of variance 0 is a point, which the prior does not charge: infinite.
    Correlated coordinates are for `Gaussian.kl`.

    >>> float(gaussian_kl([1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0]))
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


@implements("T16.03")
def mixed_moments(x: Float[ArrayLike, "n d"], order: int) -> Float[Array, "_"]:
    r"""The means of all $x_{i_1}\cdots x_{i_k}$ with $i_1\le\dots\le i_k$: $\binom{d+k-1}k$ numbers.

    >>> mixed_moments([[1.0, 2.0], [3.0, 4.0]], 2).tolist()
    [5.0, 7.0, 10.0]
    """
    x, order = real("x", x, "n d"), whole("order", order)
    index = np.array([*itertools.combinations_with_replacement(range(x.shape[1]), order)])
    return jnp.mean(jnp.prod(x[:, index], axis=-1), axis=0)


@implements("T16.04", "M15.04")
def integral_metric(x: Float[ArrayLike, "n ..."], y: Float[ArrayLike, "m ..."], features: Callable) -> Float[Array, ""]:
    r"""$\sup|\mathbb E_Pf-\mathbb E_Qf|$ over $f(x)=c\cdot\phi(x)$ with $\|c\|\le1$, of two samples.

    `x` is the sample of $P$, `y` that of $Q$, and `features` is $\phi$, of one example. The supremum is the distance of
    the mean features. Without a bound on $c$ it would be infinite. Of all functions between 0 and 1 it is
    `total_variation`, of those of slope 1 at most `wasserstein`.

    >>> float(integral_metric([[0.0], [2.0]], [[0.0], [0.0]], lambda x: x))
    1.0
    """
    if not callable(features):
        raise TypeError(f"features must be a function of one example, got {type(features).__name__}.")
    means = [jnp.mean(jax.vmap(lambda one: jnp.ravel(features(one)))(a), axis=0) for a in (real("x", x), real("y", y))]
    return jnp.linalg.norm(means[0] - means[1])


def _limit_at_zero(f, dtype):
    """The limit of `f` at 0 as two small numbers show it, infinite if they do not agree."""
    small = jnp.finfo(dtype).tiny ** jnp.array([1 / 3, 2 / 3], dtype)
    near, nearer = f(small)
    settled = jnp.abs(near - nearer) <= 1e-6 * jnp.maximum(1, jnp.abs(nearer))
    return jnp.where(settled, nearer, jnp.sign(nearer - near) * jnp.inf)
