"""What other memories do to a memory: cross-talk in Hopfield networks, and how many patterns it leaves stable."""

import math
from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from scipy import integrate, special
from scipy.linalg import hadamard

from corollary.evidence import (
    Count,
    Range,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    frequency_at_most,
    monotone,
    printed,
    rate,
    same_law,
)
from corollary.memory import (
    crosstalk,
    crosstalk_variance,
    flip_probability,
    flip_probability_limit,
    hebbian,
    pattern_capacity,
    random_signs,
    stability,
    unstable_units,
)


@claim(rows=("E01.28", "E01.29"))
def crosstalk_condition(key, *, draws: Count = 100, log_n: Annotated[int, Range(4, 9)] = 6):
    r"""Patterns are meta-stable when the cross-talk between them stays below one.

    With the printed Hebbian weights $\sum_jw_{ij}x_{t,j}=x_{t,i}+C_{t,i}$, with zero diagonal
    $\frac{n-1}nx_{t,i}+C^0_{t,i}$ where $C^0_{t,i}=C_{t,i}-\frac{s-1}nx_{t,i}$. Unit $i$ of pattern $t$ is unstable
    exactly if $x_{t,i}C_{t,i}<-1$ (or $=-1$ and $x_{t,i}=-1$, by the tie). Hence $|C_{t,i}|<1$ for all $i$ makes a
    pattern meta-stable; it is not necessary, since cross-talk with the right sign does no harm. Orthogonal patterns
    have none.
    """
    n = 2**log_n  # division by a power of two is exact, so that ties are ties
    sizes = (n // 8, n // 4)

    @partial(jax.jit, static_argnums=1)
    def measure(key, s):
        def one(key):
            x = random_signs((s, n), key=key)
            full, zeroed = hebbian(x, zero_diagonal=False), hebbian(x)
            unstable = jax.vmap(lambda x: unstable_units(full, 0.0, x))(x)
            return x, x @ full, x @ zeroed, crosstalk(x, zero_diagonal=False), crosstalk(x), unstable

        return jax.vmap(one)(jax.random.split(key, draws))

    counts = {"calm": [], "loud": []}
    for s in sizes:
        x, field, field0, c, c0, unstable = measure(jax.random.fold_in(key, s), s)
        yield equal(f"field with the printed weights, s = {s}", field, x + c)
        yield equal(f"field with zero diagonal, s = {s}", field0, (n - 1) / n * x + c0)
        yield equal(f"unstable units, s = {s}", unstable, (x * c < -1) | ((x * c == -1) & (x < 0)), rtol=0, atol=0)
        calm = (jnp.abs(c) < 1).all(-1)
        counts["calm"].append(unstable.any(-1)[calm])
        counts["loud"].append(unstable.any(-1)[~calm])
    calm, loud = (np.concatenate(counts[k]) for k in ("calm", "loud"))
    yield equal("patterns with |C| < 1 that are unstable", calm, 0, rtol=0, atol=0)
    yield at_least("stable patterns with |C| ≥ 1 somewhere: it is not necessary", (~loud).sum(), 1)
    yield control("|C| ≥ 1 somewhere", equal("patterns that are unstable", loud, 0, rtol=0, atol=0))
    yield equal("cross-talk of Hadamard's rows", crosstalk(1.0 * hadamard(n), zero_diagonal=False), 0.0, atol=0)


@claim(rows=("E01.30",), full={"sets": 20_480, "n": 1000, "s": 200})
def gaussian_crosstalk(key, *, sets: Count = 2048, n: Size = 256, s: Size = 51):
    r"""The cross-talk of random patterns is normal, with the load as variance.

    For independent uniform signs, $n\to\infty$ and $s/n\to\alpha$, $x_{t,i}C^0_{t,i}\Rightarrow\mathcal N(0,\alpha)$.
    At every size its mean is 0 and its variance is $(s-1)(n-1)/n^2$. This is the cross-talk with zero diagonal: with
    the printed weights the mean of $x_{t,i}C_{t,i}$ is $(s-1)/n$.
    """
    alpha = s / n

    @jax.jit
    def measure(key):
        def one(key):
            x = random_signs((s, n), jnp.float32, key=key)
            # of the first unit of the first pattern: sets are independent, units of one set are not
            other, own = x[1:], x[0]
            aligned = other[:, 0] * own[0]
            return jnp.sum(aligned * (other @ own - aligned)) / n

        return jax.lax.map(one, jax.random.split(key, sets), batch_size=64)

    @jax.jit
    def spread(key):
        def one(key):
            x = random_signs((s, n), jnp.float32, key=key)
            c, c0 = crosstalk(x, zero_diagonal=False), crosstalk(x)
            return (x * c0).mean(), (c0**2).mean(), (x * c).mean()

        return jax.lax.map(one, jax.random.split(key, 64), batch_size=8)

    law_key, spread_key = jax.random.split(key)
    samples = measure(law_key)
    mean, square, full = spread(spread_key)

    def normal(centre, variance):
        return lambda t: special.ndtr((t - centre) / np.sqrt(variance))

    yield same_law("law of x C", samples, normal(0, alpha), wrong=normal(alpha, alpha))
    yield estimate("mean of x C", mean, 0.0, wrong=(s - 1) / n)
    yield estimate("variance", square, crosstalk_variance(n, s), wrong=alpha + alpha**2)
    yield control(
        "the diagonal is not zero: the patterns support themselves", estimate("mean of x C", full, 0.0, wrong=1.0)
    )
    yield estimate("mean of x C with the printed weights", full, (s - 1) / n, wrong=0.0)


@claim(
    rows=("E01.30",),
    erratum="The variance s/n belongs to weights with zero diagonal; the printed C has s/n + (s/n)², about.",
)
def printed_crosstalk_variance(key, *, sets: Count = 128, largest: Size = 512):
    r"""As the number of units grows, the cross-talk of the printed weights has the variance s/n.

    As printed, for $n\to\infty$: $C_{t,i}=\frac1n\sum_j\sum_{r\ne t}x_{r,i}x_{r,j}x_{t,j}\sim\mathcal N(0,s/n)$. The
    terms $j=i$ are not random: they add $\frac{s-1}nx_{t,i}$, so that $C$ is a mixture of two normals about
    $\pm\alpha$, of variance $\frac{(s-1)(n-1)}{n^2}+\frac{(s-1)^2}{n^2}\to\alpha+\alpha^2$. Without them the variance
    is the first of the two terms, which does tend to $s/n$. Measured at four sizes with the load $\alpha=\frac14$.
    """
    sizes = [max(largest // 2**k, 16) for k in (3, 2, 1, 0)]

    def spread(key, n, zero):
        def square(key):
            return (crosstalk(random_signs((n // 4, n), key=key), zero_diagonal=zero) ** 2).mean()

        return jax.jit(lambda key: jax.lax.map(square, jax.random.split(key, sets), batch_size=8))(key)

    for n in sizes:
        s = n // 4
        full, zeroed = (spread(jax.random.fold_in(key, n), n, zero) for zero in (False, True))
        own = crosstalk_variance(n, s)
        both = own + ((s - 1) / n) ** 2
        yield estimate(f"n = {n}: variance with zero diagonal", zeroed, own, wrong=both)
        yield estimate(f"n = {n}: variance with the printed weights, both terms", full, both, wrong=s / n)
        yield printed(estimate(f"n = {n}: variance with the printed weights, s/n", full, s / n, wrong=2 * s / n))


@claim(rows=("E01.31",), full={"n": 2000, "sets": 256}, large={"n": 10_000, "sets": 512})
def flip_rate(key, *, n: Size = 500, sets: Count = 96, states: Size = 32):
    r"""How often a unit of a stored pattern is unstable.

    For random patterns and Hebbian weights with zero diagonal
    $$P[-x_{t,i}C_{t,i}\ge1]\to\tfrac12\big(1-\operatorname{erf}\sqrt{n/2s}\big),$$
    and with the diagonal kept $\frac12\operatorname{erfc}\frac{1+\alpha}{\sqrt{2\alpha}}$, $\alpha=s/n$. At finite size
    the probability is that of a sum of $(s-1)(n-1)$ independent signs to fall below $-(n-1)$, ties counted half; it
    differs from the limit by a relative $O(1/n)$.
    """
    loads = (0.12, 0.138, 0.2, 0.3)
    sizes = [round(a * n) for a in loads]
    states = min(states, min(sizes))

    @jax.jit
    def measure(key):
        def one(key):
            patterns = random_signs((max(sizes), n), jnp.float32, key=key)

            def rates(s, zero):
                field = stability(patterns[:s], patterns[:states], zero_diagonal=zero)
                return jnp.mean((field < 0) | ((field == 0) & (patterns[:states] < 0)))

            return jnp.array([[rates(s, zero) for s in sizes] for zero in (True, False)])

        return jax.lax.map(one, jax.random.split(key, sets))

    rates = measure(key)
    s = jnp.array(sizes, float)
    zeroed, kept = flip_probability(n, s), flip_probability(n, s, zero_diagonal=False)
    yield estimate("share of unstable units, loads 0.12 to 0.3", rates[:, 0], zeroed, wrong=kept)
    yield estimate("with the diagonal kept", rates[:, 1], kept, wrong=zeroed)
    yield control(
        "the diagonal is kept",
        estimate("share of unstable units", rates[:, 1], zeroed, wrong=2 * zeroed),
    )
    grow = 2.0 ** jnp.arange(7, 15)
    limit = flip_probability_limit(0.125)
    yield rate(
        "relative distance to the limit at load 1/8",
        grow,
        jnp.abs(flip_probability(grow, grow / 8) / limit - 1),
        -1.0,
        tolerance=0.1,
        along="number of units",
    )


@claim(
    rows=("E01.31",),
    erratum="The integral lacks the factor √(n / 2πs) of the normal density; the right-hand side is right.",
)
def printed_flip_integral(key, *, s: Size = 138, n: Size = 1000):
    r"""The flip probability is the integral of exp(-n z² / 2s) beyond 1.

    As printed: $\int_1^\infty\exp(-\frac{nz^2}{2s})\,dz=\frac12(1-\operatorname{erf}\sqrt{n/2s})$. The integral is
    $\sqrt{2\pi s/n}$ times that.
    """
    integral = integrate.quad(lambda z: np.exp(-n * z**2 / (2 * s)), 1, np.inf, epsabs=0, epsrel=1e-12)[0]
    value = flip_probability_limit(s / n)
    yield equal("with the factor of the density", np.sqrt(n / (2 * np.pi * s)) * integral, value)
    yield printed(equal("without it", integral, value))


@claim(
    rows=("E01.31",),
    erratum="The formula is for weights with zero diagonal; with the printed ones units flip three to four times less.",
)
def printed_flip_rate(key, *, largest: Size = 640, sets: Count = 96):
    r"""As the number of units grows, a unit of the printed weights is unstable with probability (1 - erf √(n/2s)) / 2.

    As printed, for $W=\frac1n\sum_tx_tx_t^\top$ and $n\to\infty$. The diagonal $w_{ii}=s/n$ holds every unit where it
    is: the probability is $\frac12\operatorname{erfc}\frac{1+\alpha}{\sqrt{2\alpha}}$ in the limit, at every load
    $\alpha=s/n$. Measured at four sizes with $\alpha=\frac14$, against the probability at that size.
    """
    sizes = [max(largest // 2**k, 16) for k in (3, 2, 1, 0)]

    def measure(key, n):
        def one(key):
            x = random_signs((n // 4, n), jnp.float32, key=key)
            field = stability(x, zero_diagonal=False)
            return jnp.mean((field < 0) | ((field == 0) & (x < 0)))

        return jax.jit(lambda key: jax.lax.map(one, jax.random.split(key, sets)))(key)

    limit = flip_probability_limit(1 / 4)
    for n in sizes:
        rates, kept = measure(jax.random.fold_in(key, n), n), flip_probability(n, n // 4, zero_diagonal=False)
        yield estimate(f"n = {n}: the diagonal kept", rates, kept, wrong=limit)
        yield printed(estimate(f"n = {n}: (1 - erf √(n/2s)) / 2", rates, limit, wrong=2 * limit))


@claim(rows=("E01.33",), full={"log_n": 10}, large={"log_n": 13})
def sublinear_capacity(key, *, log_n: Annotated[int, Range(6, 14)] = 8):
    r"""Up to n / (2 log n) random patterns, a given one is perfectly stable with probability tending to one.

    At $s\le n/(2\ln n)$ patterns, zero diagonal, the expected number of unstable units of a pattern is
    $n\cdot\frac12\operatorname{erfc}\sqrt{n/2s}\to0$, like $(4\pi\ln n)^{-1/2}$ at equality, and bounds the probability
    that the pattern is not meta-stable. With $\log_2$ instead, as the notes print it, there are fewer patterns, and
    fewer errors. At $s=0.138\,n$ hardly any pattern is stable.
    """
    n = 2**log_n

    def unstable(key, s, trials):
        """Whether one pattern of each of many independent sets is unstable."""

        def one(key):
            x = random_signs((s, n), jnp.float32, key=key)
            field = stability(x, x[:1])
            return ((field < 0) | ((field == 0) & (x[:1] < 0))).any()

        return jax.jit(lambda key: jax.lax.map(one, jax.random.split(key, trials), batch_size=256))(key)

    for name, base in (("2", 2.0), ("e", np.e)):
        s = int(pattern_capacity(n, base=base))
        bound = float(n * flip_probability(n, s))
        # twice the bound must be noticed: some 120 events at the bound are enough for that
        events = unstable(jax.random.fold_in(key, s), s, 256 * math.ceil(120 / bound / 256))
        yield frequency_at_most(f"unstable patterns at n / (2 log n) to base {name}", events, bound)
        if base == 2.0:
            crowded = unstable(key, round(0.138 * n), 1024)
            yield control("there are 0.138 n patterns", frequency_at_most("unstable patterns", crowded, bound))
    grow = 2.0 ** np.arange(7, 60, 4)
    load = flip_probability_limit(1 / (2 * np.log(grow)))
    yield monotone("expected unstable units at base e", grow * load, "decreasing", x=np.log2(grow), along="log n")
    # erfc(x) = exp(-x²) / (x √π) (1 - O(1/2x²)) at x² = ln n
    ratio = grow * load * np.sqrt(4 * np.pi * np.log(grow))
    yield at_most("over its asymptote", ratio, 1.0, x=np.log2(grow), along="log n")
    yield at_least("over its asymptote, from below", ratio, 1 - 0.5 / np.log(grow), x=np.log2(grow), along="log n")
