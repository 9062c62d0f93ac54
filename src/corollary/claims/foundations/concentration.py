"""Tails from one or two moments, and Chernoff's bound for sums of 0-1 variables, against exact laws."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.evidence import Positive, Probability, Range, Size, at_most, claim, control, equal, printed
from corollary.foundations import (
    CHERNOFF_RANGE,
    chebyshev,
    chernoff_lower,
    chernoff_upper,
    markov,
    poisson_binomial,
    upper_tail,
)


def _masses(key, laws, atoms):
    """Probabilities of very different sizes, summing to one in each law."""
    raw = jax.random.exponential(key, (laws, atoms)) ** 3
    return raw / raw.sum(1, keepdims=True)


# a tail and a bound are sums of a few dozen rounded numbers each; nothing else is lost
ROUNDING = 1e-13


@claim(rows=("T01.06",))
def markov_inequality(key, *, laws: Size = 1000, atoms: Size = 20, mean: Positive = 1.0):
    r"""A non-negative variable is seldom far above its mean.

    If $X\ge0$ and $t>0$, then $P\{X\ge t\}\le E[X]/t$. The law on $\{0,t\}$ attains it for every mean below $t$, so no
    better bound knows only the mean. The sign is needed: for $X=\pm1$ with $P\{X=1\}=0.6$ the mean is $0.2$.
    """
    value_key, mass_key = jax.random.split(key)
    values = jax.random.exponential(value_key, (laws, atoms))
    masses = _masses(mass_key, laws, atoms)

    @jax.jit
    def tails(values, masses):
        tail = jnp.sum(masses[:, None, :] * (values[:, None, :] >= values[:, :, None]), -1)
        return tail, markov(jnp.sum(masses * values, -1, keepdims=True), values)

    tail, bound = tails(values, masses)
    yield at_most("tail at every atom of random laws", tail.ravel(), bound.ravel(), rtol=ROUNDING)
    t = mean * np.linspace(1.0, 20.0, 60)
    two_point = tails(np.stack([0 * t, t], 1), np.stack([1 - mean / t, mean / t], 1))[0][:, 1]
    yield equal("law on 0 and t: the tail attains the bound", two_point, markov(mean, t), x=t, along="t")
    yield at_most("tail of the exponential law", scipy.stats.expon.sf(t, scale=mean), markov(mean, t), x=t, along="t")
    signed, signed_bound = tails(np.array([[-1.0, 1.0]]), np.array([[0.4, 0.6]]))
    yield control("the variable takes the value -1", at_most("tail at 1", signed[0, 1], signed_bound[0, 1]))


@claim(rows=("T01.07",))
def chebyshev_inequality(key, *, laws: Size = 1000, atoms: Size = 20, p: Probability = 0.3):
    r"""A variable is seldom further from its mean than a few standard deviations.

    If $X$ has a finite variance and $t>0$, then $P\{|X-E[X]|\ge t\}\le\mathrm{Var}[X]/t^2$; the sign of $X$ is free.
    The law on $\{-t,0,t\}$ with masses $p/2,1-p,p/2$ attains it. Without a variance the tail may fall more slowly
    than any multiple of $t^{-2}$: that of the Cauchy law is about $2/(\pi t)$.
    """
    value_key, mass_key = jax.random.split(key)
    values = jax.random.normal(value_key, (laws, atoms))
    masses = _masses(mass_key, laws, atoms)

    @jax.jit
    def tails(values, masses):
        distance = jnp.abs(values - jnp.sum(masses * values, -1, keepdims=True))
        tail = jnp.sum(masses[:, None, :] * (distance[:, None, :] >= distance[:, :, None]), -1)
        return tail, chebyshev(jnp.sum(masses * distance**2, -1, keepdims=True), distance)

    tail, bound = tails(values, masses)
    yield at_most("tail at every atom of random laws", tail.ravel(), bound.ravel(), rtol=ROUNDING)
    t = jnp.linspace(1.0, 5.0, 60)
    masses = jnp.stack([0 * t + p / 2, 0 * t + 1 - p, 0 * t + p / 2], 1)
    # the computed mean is 0 to rounding, and so are the distances t of the outer atoms from it equal to rounding only
    three_point = tails(jnp.stack([-t, 0 * t, t], 1), masses)
    attained = jnp.max(three_point[0][:, ::2], axis=1)
    yield equal("three-point law: the tail attains the bound", attained, three_point[1][:, 0], x=t, along="t")
    yield at_most("tail of the normal law", 2 * scipy.stats.norm.sf(t), chebyshev(1.0, t), x=t, along="t")
    uniform = scipy.stats.uniform(-np.sqrt(3), 2 * np.sqrt(3))  # of variance 1
    yield at_most("tail of the uniform law", 2 * uniform.sf(t), chebyshev(1.0, t), x=t, along="t")
    far, cut = np.geomspace(200.0, 20_000.0, 40), 100.0
    within_cut = (cut - np.arctan(cut)) / np.arctan(cut)
    yield control(
        "a Cauchy variable has no variance; that of its values within 100 stands in",
        at_most("tail of the Cauchy law", 2 * scipy.stats.cauchy.sf(far), chebyshev(within_cut, far), x=far, along="t"),
    )


@claim(rows=("T01.09",), full={"laws": 200, "n": 2000})
def chernoff_bound(key, *, laws: Size = 30, n: Annotated[int, Range(10, 10_000)] = 400):
    r"""A sum of independent 0-1 variables strays from its mean μ by a factor with exponentially small probability.

    $X=\sum X_i$ with independent $X_i\in\{0,1\}$, $P\{X_i=1\}=p_i$, $\mu=\sum p_i$. Then
    $$P\{X\ge(1+\delta)\mu\}\le e^{-\mu\{(1+\delta)\ln(1+\delta)-\delta\}}\le e^{-\mu\delta^2/(2+\delta)}$$
    for $\delta>0$, which is at most $e^{-\mu\delta^2/3}$ for $\delta\le1$; that form holds up to
    $\delta=1.8169\ldots$, where the exponents cross. $P\{X\le(1-\delta)\mu\}\le e^{-\mu\delta^2/2}$ for
    $0<\delta<1$. The first exponent is the true rate for many rare events.
    """
    scale_key, p_key = jax.random.split(key)
    # from rare events to fair coins
    scale = 10 ** jax.random.uniform(scale_key, (laws, 1), minval=-2.5, maxval=0.0)
    p = scale * jax.random.uniform(p_key, (laws, n))
    law = jax.jit(jax.vmap(poisson_binomial))(p)
    mu, k = p.sum(1, keepdims=True), jnp.arange(n + 1)

    @jax.jit
    def bounds(law, mu, delta):
        forms = [chernoff_upper(mu, delta, form) for form in ("exact", "universal", "third")]
        return upper_tail(law), jnp.cumsum(law, 1), *forms, chernoff_lower(mu, -delta, "half")

    # every bound at every k; those outside the range of their δ are left out below
    delta = k / mu - 1
    upper, lower, exact, universal, third, half, delta = (np.asarray(b) for b in (*bounds(law, mu, delta), delta))
    above = (delta > 0) & (upper > 1e-290)  # below that the law itself underflows
    below = (delta < 0) & (delta > -1) & (lower > 1e-290)
    near = above & (delta <= CHERNOFF_RANGE)
    # n roundings in the law and in its sums
    rounding = 1e-15 * n
    yield at_most("upper tail, exact exponent", upper[above], exact[above], rtol=rounding)
    yield at_most("exact exponent against the universal one", exact[above], universal[above], rtol=rounding)
    yield at_most("upper tail, exponent δ²μ/3, δ up to 1.817", upper[near], third[near], rtol=rounding)
    yield at_most("lower tail, exponent δ²μ/2", lower[below], half[below], rtol=rounding)
    k = np.arange(31, 120)
    moderate = scipy.stats.binom.sf(k - 1, 1000, 0.03)
    yield at_most(
        "upper tail of 1000 events, μ = 30", moderate, chernoff_upper(30.0, k / 30 - 1), x=k / 30 - 1, along="δ"
    )
    # many rare events: the exact tail is the exponent with the prefactor of Bahadur and Rao, up to the order 1/μ
    means = np.array([50.0, 100, 200, 400, 800])
    rare = 10**9
    points = scipy.stats.binom.sf(1.5 * means - 1, rare, means / rare)
    rate = (1.5 * np.log(1.5) - 0.5) * means + 0.5 * np.log(2 * np.pi * 1.5 * means) + np.log(1 - 1 / 1.5)
    # the next term of that expansion is a(δ)/μ with a of the order 1/(1.5 ln² 1.5) < 5
    yield equal("minus the logarithm of the tail, δ = 1/2", -np.log(points), rate, atol=5 / 50, x=means, along="mean μ")
    # n times one coin is n exactly if the coin shows 1
    one_coin = scipy.stats.binom.sf(0, 1, 0.5)
    yield control(
        "all variables are one and the same fair coin",
        at_most("upper tail, δ = 1", one_coin, chernoff_upper(n / 2, 1.0)),
    )


@claim(rows=("T01.09",), erratum="The exponent δ²μ/3 is printed for every δ > 0; beyond δ = 1.8169... it is too large.")
def chernoff_for_every_delta(key, *, n: Annotated[int, Range(100, 1_000_000)] = 1000):
    r"""Chernoff's upper tail with the exponent δ²μ/3 for every δ > 0.

    As printed: $P\{X\ge(1+\delta)\mu\}\le e^{-\delta^2\mu/3}$ for all $\delta>0$. A thousand events of probability
    1/1000 ($\mu=1$) give ten or more with probability $1.07\cdot10^{-7}$; for $\delta=9$ the printed bound is
    $1.9\cdot10^{-12}$. Above the crossing of the exponents at $\delta=1.8169\ldots$ it always fails for large $\mu$.
    """
    delta = np.arange(1, 15)
    tail = scipy.stats.binom.sf(delta, n, 1 / n)
    third, universal = np.exp(-(delta**2) / 3), chernoff_upper(1.0, delta.astype(float), "universal")
    yield printed(at_most(f"upper tail of {n} rare events, exponent δ²μ/3", tail, third, x=delta, along="δ"))
    yield at_most(f"upper tail of {n} rare events, exponent δ²μ/(2 + δ)", tail, universal, x=delta, along="δ")
    # just above the crossing: one value already has more probability than the bound allows all of them
    mu, rare = 10_000.0, 10**9
    just = np.array([1.82, 1.85, 1.9, 2.0])
    log_mass = scipy.stats.binom.logpmf(np.round((1 + just) * mu), rare, mu / rare)
    name = "logarithm of the probability of one value, μ = 10000"
    along = {"x": just, "along": "δ"}
    yield printed(at_most(f"{name}, exponent δ²μ/3", log_mass, -(just**2) * mu / 3, **along))
    yield at_most(f"{name}, exponent δ²μ/(2 + δ)", log_mass, -(just**2) * mu / (2 + just), **along)
