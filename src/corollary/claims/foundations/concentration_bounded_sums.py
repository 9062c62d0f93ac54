"""Sums of bounded independent variables: Hoeffding, the average of m of them, Bernstein; against exact laws."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal, printed
from corollary.foundations import average_tail, bernstein, hoeffding, kl_bernoulli, signed_sums


def _two_sided(m, k):
    """The exact probability that the sum of m signs is at least k > 0 in absolute value."""
    return np.minimum(1, 2 * scipy.stats.binom.sf(np.ceil((m + k) / 2) - 1, m, 0.5))


@claim(rows=("T01.10",))
def hoeffding_bound(key, *, n: Annotated[int, Range(2, 20)] = 14, laws: Size = 16):
    r"""A sum of independent bounded variables has tails no heavier than a normal law.

    For independent $X_i\in[a_i,b_i]$ and $X=\sum X_i$,
    $$P\{|X-E[X]|\ge t\}\le2\exp\Big(-\frac{2t^2}{\sum_i(b_i-a_i)^2}\Big),\qquad t>0.$$
    One sign comes closest: at $t=1$ the tail is 1 and the bound $2e^{-1/2}=1.21$. The constant in the exponent is the
    best: for $n$ fair coins the true rate of $P\{\bar X\ge q\}$ is $H(q,\frac12)$, which is $2(q-\frac12)^2$ to leading
    order.
    """
    weights = jax.random.exponential(key, (laws, n))

    @jax.jit
    def tails(w):
        sums = jnp.sort(jnp.abs(signed_sums(w)))
        # from the mean to the greatest sum, the ends included: there the tail is 2 / 2^n
        t = jnp.linspace(0.02, 1.0, 50) * jnp.abs(w).sum() * (1 - 1e-12)
        return 1 - jnp.searchsorted(sums, t) / sums.size, hoeffding(t, 2 * jnp.abs(w))

    tail, bound = jax.vmap(tails)(weights)
    share = np.linspace(0.02, 1.0, 50)
    yield at_most("tail of weighted signs", tail, bound, x=share, along="t over its largest value")
    yield at_most("tail of one sign at t = 1", _two_sided(1, 1), hoeffding(1.0, [2.0]))
    n_coins = 2.0 ** np.arange(10, 15)
    q = 0.6
    k = np.ceil(q * n_coins)
    measured = scipy.stats.binom.sf(k - 1, n_coins, 0.5)
    at = k / n_coins
    tilt, spread = np.log(at / (1 - at)), at * (1 - at)
    prefactor = 1 / ((1 - np.exp(-tilt)) * np.sqrt(2 * np.pi * n_coins * spread))
    rate = n_coins * kl_bernoulli(at, 0.5) - np.log(prefactor)
    # Bahadur and Rao's prefactor is right up to a term of the order 1/(n θ² q(1-q))
    order = float(1 / (n_coins[0] * tilt[0] ** 2 * spread[0]))
    yield equal("minus the logarithm of the tail of coins, q = 0.6", -np.log(measured), rate, rtol=0, atol=order)
    near = 0.5 + 2.0 ** -np.arange(2, 9)
    exponents = kl_bernoulli(near, 0.5) / (2 * (near - 0.5) ** 2)
    # H(1/2 + e, 1/2) / 2e² = 1 + 2/3 e² + 16/15 e⁴ + ..., and what follows is below 16/7 e⁶ / (1 - 4e²)
    series = 1 + 2 / 3 * (near - 0.5) ** 2 + 16 / 15 * (near - 0.5) ** 4
    remainder = 16 / 7 * 0.25**6 / (1 - 4 * 0.25**2)
    yield equal("true rate over Hoeffding's", exponents, series, rtol=0, atol=remainder, x=near, along="q")
    # 20 times one sign is as far out as one sign at 1
    yield control(
        "the 20 signs are one and the same",
        at_most("tail at t = 20", _two_sided(1, 1), hoeffding(20.0, np.full(20, 2.0))),
    )


@claim(rows=("T01.14",))
def average_of_bounded(key, *, atoms: Size = 7):
    r"""The average of m variables in [-1, 1] has a variance of at most 1/m and normal tails.

    For independent $y_i\in[-1,1]$ of mean 0, $\mathrm{Var}\big[\frac1m\sum y_i\big]\le\frac1m$ and
    $P\{|\frac1m\sum y_i|\ge\epsilon\}\le2e^{-\epsilon^2m/2}$ (Hoeffding). Signs have the variance $1/m$ exactly, and
    one sign comes closest to the tail.
    """
    m = np.repeat([1, 10, 100], [1, 5, 50])
    k = np.concatenate([np.arange(2 - j % 2, j + 1, 2) for j in (1, 10, 100)])  # all that a sum of signs can be
    tail, bound = _two_sided(m, k), np.asarray(average_tail(k / m, m, 2.0))
    for j in (1, 10, 100):
        at = m == j
        name = f"tail of the average of {j} sign{'s' * (j > 1)}"
        yield at_most(name, tail[at], bound[at], x=k[at] / j, along="ε")
    # exact variances of averages of three variables with random centred laws on [-1, 1], and of three signs
    value_key, mass_key = jax.random.split(key)
    values = jax.random.uniform(value_key, (200, atoms), minval=-1.0, maxval=1.0)
    masses = jax.random.exponential(mass_key, (200, atoms))
    masses = masses / masses.sum(1, keepdims=True)
    values = values - jnp.sum(masses * values, 1, keepdims=True)
    values = values / jnp.maximum(jnp.abs(values).max(1, keepdims=True), 1)

    @jax.jit
    def variance(v, p):
        three = (v[:, None, None] + v[None, :, None] + v[None, None, :]) / 3
        weights = p[:, None, None] * p[None, :, None] * p[None, None, :]
        return jnp.sum(weights * three**2)

    yield at_most("variance of the average of three", jax.vmap(variance)(values, masses), 1 / 3)
    yield equal("variance of the average of three signs", variance(jnp.array([-1.0, 1.0]), jnp.full(2, 0.5)), 1 / 3)
    yield control(
        "the variables take values up to 2",
        at_most("tail at 2 of the average of ten", _two_sided(10, 10), average_tail(2.0, 10, 2.0)),
    )
    yield control(
        "the hundred variables are one and the same sign",
        at_most("tail at 1", _two_sided(1, 1), average_tail(1.0, 100, 2.0)),
    )


@claim(
    rows=("T01.14",),
    erratum="The tail is printed as exp(-ε²m): the exponent is twice too large and a factor 2 is missing.",
)
def average_as_printed(key, *, m: Size = 100):
    r"""The average of m variables in [-1, 1] exceeds ε with probability at most exp(-ε²m).

    As printed: $P\{|\frac1m\sum y_i|\ge\epsilon\}\le e^{-\epsilon^2m}$ for independent $y_i\in[-1,1]$ of mean 0.
    For one sign and $\epsilon=1$ the probability is 1. A normal variable of variance $1/m$ itself has
    the tail $e^{-\epsilon^2m/2}$, and $2e^{-\epsilon^2m/2}$ is what holds (Hoeffding).
    """
    k = np.arange(m, 0, -2)[::-1].astype(float)
    epsilon = k / m
    one, many = _two_sided(1, 1), _two_sided(m, k)
    yield at_most("tail of one sign at ε = 1, Hoeffding", one, average_tail(1.0, 1, 2.0))
    yield at_most(
        "tail of the average of m signs, Hoeffding", many, average_tail(epsilon, m, 2.0), x=epsilon, along="ε"
    )
    yield printed(at_most("tail of one sign at ε = 1", one, np.exp(-1.0)))
    yield printed(at_most("tail of the average of m signs", many, np.exp(-(epsilon**2) * m), x=epsilon, along="ε"))


@claim(rows=("T01.11",))
def bernstein_inequality(key, *, n: Annotated[int, Range(50, 100_000)] = 500):
    r"""Bernstein's inequality: a small variance makes small tails, whatever the range.

    For independent $X_i$ of mean 0 with $|X_i|\le M$, $V=\sum E[X_i^2]$ and all $t>0$,
    $$P\Big\{\sum X_i>t\Big\}\le\exp\Big(-\frac{t^2/2}{V+Mt/3}\Big).$$
    For 500 centred 0-1 variables with $p=0.01$ it is some twenty times smaller than Hoeffding's at three standard
    deviations; for $p=\frac12$ far out it is the larger of the two.
    """
    k, p = np.arange(n + 1), np.array([0.5, 0.1, 0.01])[:, None]
    # just below a jump of the tail, where it is closest to the bound
    t, tail = k - n * p, scipy.stats.binom.sf(k - 1, n, p)
    bound = np.asarray(jax.jit(lambda t: bernstein(t, n * p * (1 - p), np.maximum(p, 1 - p)))(t))
    for i, seen in enumerate((t > 0) & (tail > 1e-290)):
        name = f"tail of {n} centred 0-1 variables, p = {p[i, 0]:g}"
        yield at_most(name, tail[i, seen], bound[i, seen], x=t[i, seen], along="t")
    single = np.linspace(0.02, 0.98, 49)
    yield at_most(
        "tail of a single centred 0-1 variable",
        single,
        bernstein(1 - single, single * (1 - single), np.maximum(single, 1 - single)),
        x=single,
        along="p",
    )
    three, widths = 3 * np.sqrt(500 * 0.01 * 0.99), np.ones(500)
    gain = hoeffding(three, widths, sides=1) / bernstein(three, 500 * 0.01 * 0.99, 0.99)
    yield at_least("Hoeffding over Bernstein at three standard deviations, p = 0.01", gain, 10.0)
    loss = bernstein(125.0, 125.0, 0.5) / hoeffding(125.0, widths, sides=1)
    yield at_least("Bernstein over Hoeffding at t = 125, p = 0.5", loss, 1.0)
    jumps = np.arange(3, 12)
    yield control(
        "M does not bound the variables: jumps of size 1 where M is 1/10",
        at_most(
            "tail of rare large jumps",
            scipy.stats.binom.sf(jumps - 1, 500, 0.001),
            bernstein(jumps - 0.5, 500 * 0.001 * 0.999, 0.1),
            x=jumps,
            along="jumps",
        ),
    )
