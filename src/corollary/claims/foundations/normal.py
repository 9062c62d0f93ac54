"""The normal law: how fast sums come near it, and how much of it lies near its mean."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.evidence import Positive, Range, Size, at_least, at_most, claim, control, equal, printed, rate
from corollary.foundations import (
    BERRY_ESSEEN_IDENTICAL,
    ESSEEN,
    berry_esseen,
    normal_gap,
    normal_small_ball,
    poisson_binomial,
    small_ball_bounds,
)


def _moments(p, n):
    """Sums over n variables of the absolute third central moments and of the variances of 0-1 variables."""
    variance = n * p * (1 - p)
    return variance * (p**2 + (1 - p) ** 2), variance


@claim(rows=("T01.08",), full={"doublings": 16})
def central_limit(key, *, doublings: Annotated[int, Range(8, 18)] = 13, laws: Size = 20):
    r"""The sum of many independent variables is nearly normal, with an error of the order one over the root of n.

    Let $X_1,\dots,X_n$ be independent with means $\mu_i$, variances $\sigma_i^2$ and third moments, and let no few of
    them dominate. The Kolmogorov distance of $\sum X_i$ from $N(\sum\mu_i,\sum\sigma_i^2)$ is at most
    $0.56\sum E|X_i-\mu_i|^3/(\sum\sigma_i^2)^{3/2}$ (Berry and Esseen; 0.4748 for identical laws). For 0-1 variables
    with $p=(4-\sqrt{10})/2$ that ratio tends to $0.4097$, the largest possible: the order $n^{-1/2}$ is attained.
    Without the premise on the summands the limit need not be normal: with $p=1/n$ it is Poisson.
    """
    n = 2 ** np.arange(4, doublings + 1)
    worst = (4 - np.sqrt(10)) / 2
    p = np.stack([np.full(n.size, 0.3), np.full(n.size, worst), 1 / n])
    values = np.arange(n[-1] + 1)
    masses = scipy.stats.binom.pmf(values, n[:, None], p[..., None])  # beyond n there is no mass
    poisson = scipy.stats.poisson.pmf(values, 1.0)

    @jax.jit
    def measure(key, masses):
        scale_key, p_key = jax.random.split(key)
        mixed = 10 ** jax.random.uniform(scale_key, (laws, 1), minval=-2.0, maxval=0.0)
        mixed = mixed * jax.random.uniform(p_key, (laws, 200))
        mixed_law = jnp.pad(jax.vmap(poisson_binomial)(mixed), ((0, 0), (0, values.size - 201)))
        everything = jnp.concatenate([masses.reshape(-1, values.size), mixed_law, poisson[None]])
        gaps = jax.lax.map(lambda m: normal_gap(values.astype(float), m), everything)
        bounds = [
            berry_esseen(*_moments(p, n), identical=True),
            berry_esseen(*(m.sum(1) for m in _moments(mixed, 1))),
        ]
        return gaps, *bounds

    gaps, bound, mixed_bound = (np.asarray(a) for a in measure(key, masses))
    gaps, mixed, limit = gaps[: p.size].reshape(p.shape), gaps[p.size : -1], gaps[-1]
    # the gap is c / √n up to terms of the order 1 / n, which bend the line over ten doublings by a few percent
    yield rate("distance from the normal law, p = 0.3", n, gaps[0], -0.5, tolerance=0.05, along="n")
    yield at_most("distance, p = 0.3 and the worst p", gaps[:2], bound[:2], x=np.log2(n), along="log2 of n")
    yield at_most("distance of 200 variables with various p", mixed, mixed_bound)
    yield equal(
        "distance over moments at the largest n, worst p",
        gaps[1, -1] / bound[1, -1] * BERRY_ESSEEN_IDENTICAL,
        ESSEEN,
        rtol=0,
        atol=float(n[-1]) ** -0.5,  # the expansion of the distance goes in powers of n^(-1/2)
    )
    yield control(
        "p = 1/n: one summand decides",
        rate("distance from the normal law", n, gaps[2], -0.5, tolerance=0.05, along="n"),
    )
    # Le Cam: the two laws differ by at most the sum of the p², which is 1/n; mean and variance by as much at most
    yield equal("p = 1/n: distance of the Poisson law", gaps[2, -1], limit, rtol=0, atol=2 / float(n[-1]))


@claim(rows=("T01.12",))
def gaussian_anticoncentration(key, *, points: Size = 1000, sigma: Positive = 1.7):
    r"""A normal variable is near its mean with a probability proportional to the width.

    For $X\sim N(0,\sigma^2)$ and $0<t\le\sigma$, $\frac23\frac t\sigma<P\{|X|\le t\}<\frac45\frac t\sigma$. The slope
    at 0 is $\sqrt{2/\pi}=0.798$. The upper bound holds for all $t$; the lower one until $t=1.07936\,\sigma$.
    """
    ratio = np.arange(1, points + 1) / points
    t = ratio * sigma
    # the probability by summing the density: Simpson's rule, whose error is below 1e-12 on 2001 points
    grid = np.linspace(0, t, 2001)
    density = scipy.stats.norm.pdf(grid, scale=sigma)
    simpson = np.full(2001, 2.0) + 2 * (np.arange(2001) % 2)
    simpson[[0, -1]] = 1
    mass = 2 * (simpson @ density) * t / 2000 / 3
    low, high = small_ball_bounds(t, sigma)
    yield equal("probability within t, against the error function", mass, normal_small_ball(t, sigma))
    yield at_least("probability within t, lower bound", mass, low, rtol=0, x=ratio, along="t over σ")
    yield at_most("probability within t, upper bound", mass, high, rtol=0, x=ratio, along="t over σ")
    tiny = 1e-6
    yield equal("slope at 0", normal_small_ball(tiny * sigma, sigma) / tiny, np.sqrt(2 / np.pi), rtol=1e-11)
    last = 1.07936
    edge = normal_small_ball(sigma * np.array([last - 1e-5, last + 1e-5]), sigma)
    yield equal("side of the lower bound around 1.07936 σ", edge > 2 / 3 * np.array([last - 1e-5, last + 1e-5]), [1, 0])
    far = np.linspace(1.1, 3.0, 40)
    yield at_most("upper bound beyond σ", normal_small_ball(far * sigma, sigma), 4 / 5 * far, x=far, along="t over σ")
    yield control(
        "t above 1.08 σ",
        at_least("probability within t", normal_small_ball(far * sigma, sigma), 2 / 3 * far, x=far, along="t over σ"),
    )


@claim(
    rows=("T01.12",),
    erratum="The range of t is missing: twice t is not twice the probability, and beyond 1.08 σ the lower bound fails.",
)
def anticoncentration_for_every_width(key, *, sigma: Positive = 1.7):
    r"""A normal variable is within t of its mean with probability between 2t/3σ and 4t/5σ, for every t.

    As printed, without a range: $P\{|X|\le t\}\in(\frac23\frac t\sigma,\frac45\frac t\sigma)$. At $t=2\sigma$ the
    lower bound is $\frac43$. For $t\le\sigma$ both bounds hold; the upper one holds for all $t$.
    """
    ratio = np.linspace(0.05, 3.0, 60)
    mass = scipy.stats.norm.cdf(ratio * sigma, scale=sigma) - scipy.stats.norm.cdf(-ratio * sigma, scale=sigma)
    near = ratio <= 1
    yield at_least("lower bound, t up to σ", mass[near], 2 / 3 * ratio[near], x=ratio[near], along="t over σ")
    yield at_most("upper bound", mass, 4 / 5 * ratio, x=ratio, along="t over σ")
    yield printed(at_least("lower bound for every t", mass, 2 / 3 * ratio, x=ratio, along="t over σ"))
