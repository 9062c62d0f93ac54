"""The normal law: how near a sum comes to it, and how much of it lies near its mean."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import positive, real, within
from corollary.catalog import implements
from corollary.foundations._laws import probabilities, together

#: Constants of the Berry-Esseen inequality: for independent variables, and for identically distributed ones
#: (Shevtsova 2010, 2011); and (3 + √10) / (6 √(2π)), below which none can be (Esseen 1956).
BERRY_ESSEEN, BERRY_ESSEEN_IDENTICAL, ESSEEN = 0.56, 0.4748, 0.4097321837023964


@implements("T01.08")
def normal_gap(values: Float[ArrayLike, "k"], probability: Float[ArrayLike, "..."]) -> Float[Array, ""]:
    r"""$\sup_x|P\{X\le x\}-\Phi((x-\mu)/\sigma)|$ for a law on finitely many `values`, with its own $\mu$ and $\sigma$.

    The Kolmogorov distance of the standardised law from the normal one. The supremum is reached at an atom, before or
    after its jump.
    """
    dims = {}
    values, probability = real("values", values, "k", dims), probabilities("probability", probability, "k", dims)
    order = jnp.argsort(values)
    values, probability = values[order], probability[order]
    mean = values @ probability
    variance = (values - mean) ** 2 @ probability
    positive("the variance of the law", variance)
    normal = jax.scipy.stats.norm.cdf((values - mean) / jnp.sqrt(variance))
    after = jnp.cumsum(probability)
    # equal values are one atom: before its jump stands what was there before the first of them
    first, last = jnp.searchsorted(values, values), jnp.searchsorted(values, values, side="right") - 1
    below = (after - probability)[first]
    return jnp.maximum(jnp.abs(after[last] - normal), jnp.abs(below - normal)).max()


@implements("T01.08")
def berry_esseen(
    third: Float[ArrayLike, "..."], variance: Float[ArrayLike, "..."], *, identical: bool = False
) -> Float[Array, "..."]:
    r"""$C\sum E|X_i-\mu_i|^3\,/\,(\sum\sigma_i^2)^{3/2}$: no sum of independent variables is further from normal.

    `third` is the sum of the absolute third central moments, `variance` that of the variances; $C$ is 0.56, or 0.4748
    for `identical` laws, and no constant below 0.4097 would do.
    """
    third, variance = within("third", real("third", third), 0.0), positive("variance", real("variance", variance))
    together(third=third, variance=variance)
    return (BERRY_ESSEEN_IDENTICAL if identical else BERRY_ESSEEN) * third / variance**1.5


@implements("T01.12")
def normal_small_ball(t: Float[ArrayLike, "..."], sigma: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$P\{|X|\le t\}=\mathrm{erf}\big(t/(\sigma\sqrt2)\big)$ for $X\sim N(0,\sigma^2)$ and $t\ge0$."""
    t, sigma = within("t", real("t", t), 0.0), positive("sigma", real("sigma", sigma))
    together(t=t, sigma=sigma)
    return jax.scipy.special.erf(t / (sigma * jnp.sqrt(2.0)))


@implements("T01.12")
def small_ball_bounds(
    t: Float[ArrayLike, "..."], sigma: Float[ArrayLike, "..."]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    r"""$\frac23\frac t\sigma<P\{|X|\le t\}<\frac45\frac t\sigma$ for $X\sim N(0,\sigma^2)$, $0<t\le\sigma$: a pair."""
    t, sigma = positive("t", real("t", t)), positive("sigma", real("sigma", sigma))
    together(t=t, sigma=sigma)
    within("t / sigma", t / sigma, 0.0, 1.0)
    return 2 / 3 * t / sigma, 4 / 5 * t / sigma
