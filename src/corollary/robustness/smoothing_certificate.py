r"""What normal noise certifies: bounds on the probability of a class elsewhere, radii, and what votes can show.

$g$ is any classifier and $\delta\sim N(0,\beta^2I)$; $\beta$ is the `scale`, in the units of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import concrete, labels, positive, real, whole, within
from corollary.catalog import implements


@implements("T18.15")
def smoothing_bound(
    p: Float[ArrayLike, "..."], distance: Float[ArrayLike, "..."], scale: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$\Phi(\Phi^{-1}(p)-\|x-x'\|/\beta)$: $P\{g(x'+\delta)=y\}$ is no less where $P\{g(x+\delta)=y\}=p$.

    Attained by half-spaces whose boundary is normal to $x'-x$ (Neyman and Pearson).

    >>> print(round(float(smoothing_bound(0.975, 0.5, 0.25)), 3))
    0.484
    """
    p, distance = within("p", real("p", p), 0.0, 1.0), within("distance", real("distance", distance), 0.0)
    return ndtr(ndtri(p) - distance / positive("scale", real("scale", scale)))


@implements("T18.16")
def certified_radius(
    p: Float[ArrayLike, "..."], other: Float[ArrayLike, "..."], scale: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$\frac\beta2(\Phi^{-1}(p)-\Phi^{-1}(p_0))$: nearer than that a class of probability `p` stays the likeliest.

    `other` is $p_0$, which no other class exceeds. Exactly at this distance there may be a tie. Zero where
    $p\le p_0$. With $p_0=1-p$ it is $\beta\Phi^{-1}(p)$.
    """
    p, other = within("p", real("p", p), 0.0, 1.0), within("other", real("other", other), 0.0, 1.0)
    return jnp.maximum(positive("scale", real("scale", scale)) / 2 * (ndtri(p) - ndtri(other)), 0)


@implements("T18.13")
def vote_lower_bound(votes: Int[ArrayLike, "..."], samples: int, alpha: float) -> Float[Array, "..."]:
    r"""Clopper and Pearson's lower end for a probability: below it with probability at least $1-\alpha$.

    `votes` of `samples` independent trials were for the class, which was chosen before they were counted.

    >>> print(round(float(vote_lower_bound(100, 100, 0.001)), 4))
    0.9333
    """
    samples, alpha = whole("samples", samples), confidence(alpha)
    return jnp.asarray(_lower_ends(samples, alpha))[labels("votes", votes, samples + 1, "...")]


def vote_quantile(votes, samples: int, alpha: float):
    r"""$\Phi^{-1}$ of `vote_lower_bound`: the certified radius in units of the scale; below 0 it certifies nothing."""
    from scipy.special import ndtri

    # in double precision whatever the network has: near 1 single precision would round by a part in 10⁴
    return jnp.asarray(np.maximum(ndtri(_lower_ends(samples, alpha)), -1e30))[votes]


@implements("T18.13")
def reachable_radius(samples: int, alpha: float, scale: Scalar) -> Float[Array, ""]:
    r"""$\beta\,\Phi^{-1}(\alpha^{1/n})$: what $n$ votes certify if all are for one class; no count certifies more.

    Negative if they are too few to certify anything, as 9 are for $\alpha=0.001$.

    >>> print(round(float(reachable_radius(10_000, 0.001, 1.0)), 3))
    3.199
    """
    samples, alpha = whole("samples", samples), confidence(alpha)
    # 1 - α^{1/n} without cancellation
    return -positive("scale", real("scale", scale, "")) * ndtri(-jnp.expm1(jnp.log(alpha) / samples))


@implements("T18.19")
def smoothed_gradient(
    g: Callable, x: Float[ArrayLike, "d"], scale: Scalar, *, samples: int = 10_000, key: PRNGKeyArray
) -> Float[Array, "d"]:
    r"""$\frac1{\beta^2}E[g(x+\delta)\,\delta]=\nabla_xE\,g(x+\delta)$, estimated: no derivative of `g` is needed.

    `g` is a function of a point with a number as its value. If $|g|\le1$ the length of the gradient itself is at most
    $\sqrt{2/\pi}/\beta$, in every dimension; the sign of a linear function attains it. Each of `samples` draws is taken
    with both signs, so that the even part of `g` about $x$ adds nothing but its rounding.
    """
    if not callable(g):
        raise TypeError(f"g must be a function of a point, got {type(g).__name__}.")
    x, scale = real("x", x, "d"), positive("scale", real("scale", scale, ""))
    noise = scale * jax.random.normal(key, (whole("samples", samples), x.size), x.dtype)
    values = jax.vmap(g)(x + noise)
    if values.ndim != 1:
        raise ValueError(f"g must return a number, got shape {values.shape[1:]}.")
    return (values - jax.vmap(g)(x - noise)) / 2 @ noise / (samples * scale**2)


def confidence(alpha) -> float:
    """`alpha` as a Python number in (0, 1): tables are made for it."""
    if not concrete(alpha):
        raise TypeError("alpha must be a Python number, not a value traced by jit.")
    within("alpha", real("alpha", alpha, ""), 0.0, 1.0, open="both")
    return float(alpha)


def enough(samples: int, alpha: float) -> None:
    """One sentence unless unanimous votes could certify something."""
    least = int(np.floor(np.log(alpha) / np.log(0.5))) + 1
    if samples < least:
        raise ValueError(
            f"samples must be at least {least} to certify anything at alpha = {alpha:g}: even if all agree, the "
            f"probability may be one half or less, got {samples}."
        )


@lru_cache(maxsize=16)
def _lower_ends(samples: int, alpha: float) -> np.ndarray:
    """The lower ends for 0 to `samples` votes, in double precision."""
    from scipy.stats import beta

    votes = np.arange(samples + 1)
    return np.concatenate([[0.0], beta.ppf(alpha, votes[1:], samples - votes[1:] + 1)])
