"""Averages that forget: exponential moving averages, Abel and Cesàro means, decaying maxima."""

import jax
import jax.numpy as jnp

from corollary.evidence import Probability, Size, at_least, at_most, claim, control, equal, estimate, rate
from corollary.optimization import (
    abel_mean,
    cesaro_means,
    decaying_maximum,
    exponential_moving_average,
    laplace_mean,
    laplace_mean_of_averages,
    moving_average_weights,
    power_average,
)


@claim(rows=("M18.31",))
def moving_average(key, *, delta: Probability = 0.9, n: Size = 200, runs: Size = 4000):
    r"""An exponential moving average weighs the past geometrically.

    $\Xi_0=0$ and $\Xi_{n+1}=\delta\,\Xi_n+(1-\delta)\,\xi_{n+1}$ give
    $\Xi_n=(1-\delta)\sum_{j=1}^n\delta^{n-j}\xi_j$. The weights sum to $1-\delta^n$, so a constant input is
    underestimated by that factor; their mean age is $\frac\delta{1-\delta}$, an effective window of
    $\frac1{1-\delta}$ terms. For $\delta\to0$ nothing is remembered, for $\delta\to1$ nothing is learned. Independent
    inputs of variance $v$ leave the stationary variance $\frac{1-\delta}{1+\delta}v$.
    """

    @jax.jit
    def measure(key):
        xi_key, noise_key = jax.random.split(key)
        xi = jax.random.normal(xi_key, (n,))
        averages = exponential_moving_average(xi, delta)
        age = jnp.arange(1, n + 1)[:, None] - jnp.arange(1, n + 1)
        unrolled = (1 - delta) * jnp.where(age >= 0, delta ** jnp.maximum(age, 0), 0) @ xi
        constant = exponential_moving_average(jnp.full(n, 3.0), delta)
        extremes = exponential_moving_average(xi, 1e-9), exponential_moving_average(xi, 1 - 1e-9)
        noise = jax.random.normal(noise_key, (n, runs))
        return xi, averages, unrolled, constant, extremes, exponential_moving_average(noise, delta)[-1]

    xi, averages, unrolled, constant, (forgetful, stubborn), last = measure(key)
    k = jnp.arange(1, n + 1)
    yield equal("recursion and weighted sum", averages, unrolled, x=k, along="n")
    yield equal("average of a constant 3", constant, 3 * (1 - delta**k), x=k, along="n")
    weights = moving_average_weights(20 * n, delta)
    yield equal("mean age of the weights", weights @ jnp.arange(20 * n - 1, -1, -1.0), delta / (1 - delta))
    yield equal("delta near 0: the last term", forgetful, xi, atol=1e-7, x=k, along="n")
    yield equal("delta near 1: the start", stubborn, 0.0, atol=1e-6, x=k, along="n")
    # after n steps the start has the weight delta^n, which squared is far below the noise of the estimate
    predicted = (1 - delta) / (1 + delta)
    yield estimate("stationary variance", last**2, predicted, wrong=1 - delta)


@claim(rows=("M18.32",))
def abel_from_cesaro(key):
    r"""A bounded function with a long-run mean has the same mean under slow exponential forgetting.

    Let $f$ be bounded on $\mathbb R_+$ with $\frac1T\int_0^Tf\to\bar f$. Then
    $\lambda\int_0^\infty e^{-\lambda t}f(t)\,dt\to\bar f$ as $\lambda\downarrow0$, since with $F(T)=\int_0^Tf$
    $$\lambda\int_0^\infty e^{-\lambda t}f(t)\,dt=\int_0^\infty\frac{F(t/\lambda)}{t/\lambda}\,te^{-t}\,dt$$
    exactly (Lemma 18.16, an Abelian theorem; the text says Tauberian). For $\sin^2$ the error is
    $\frac{\lambda^2}{2(\lambda^2+4)}$, for $\sin^2(t+p)$ at most $\frac\lambda4$, nearly attained for $p=\frac\pi4$. A
    function without a Cesàro mean, $\cos\ln(1+t)$, has none under forgetting either.
    """
    phase = jax.random.uniform(key, (), maxval=2 * jnp.pi)
    lam = 2.0 ** -jnp.arange(0, 6)
    # far smaller rates for the slow function, which has one period in every factor of exp(2 pi)
    slow = jnp.exp(-jnp.linspace(6.0, 6.0 + 2 * jnp.pi, 33))

    @jax.jit
    def measure(phase, lam):
        def wave(t):
            return jnp.sin(t + phase) ** 2

        def integral(t):
            return t / 2 - (jnp.sin(2 * (t + phase)) - jnp.sin(2 * phase)) / 4

        direct = jax.vmap(lambda r: laplace_mean(wave, r))(lam)
        proof = jax.vmap(lambda r: laplace_mean_of_averages(lambda t: integral(t) / t, r))(lam)
        pure = jax.vmap(lambda r: laplace_mean(lambda t: jnp.sin(t) ** 2, r))(lam)
        drifting = jax.vmap(lambda r: laplace_mean(lambda t: jnp.cos(jnp.log1p(t)), r))(slow)
        return direct, proof, pure, drifting

    direct, proof, pure, drifting = measure(phase, lam)
    # eight Gauss points on pieces of at most 0.64 of the wave's argument leave far less than this
    yield equal("Abel mean and mean of Cesaro means", direct, proof, atol=1e-10, x=lam, along="λ")
    yield equal("sine squared, closed form", pure, 0.5 - lam**2 / (2 * (lam**2 + 4)), atol=1e-12, x=lam, along="λ")
    # what the wave adds to its mean is -Re(exp(2ip) lambda/(lambda - 2i))/2, at most lambda/4 for every phase p
    yield at_most("distance from the long-run mean", jnp.abs(direct - 0.5), lam / 4, x=lam, along="λ")
    worst = jnp.abs(measure(jnp.asarray(jnp.pi / 4), lam)[0] - 0.5) / (lam / 4)
    yield at_least("the same with a phase of π/4, λ up to 1/8: share of the bound", worst[3:], 0.99, x=lam[3:])
    yield rate("error for sine squared", lam[2:], 0.5 - pure[2:], 2.0, tolerance=0.1, along="λ")
    # the amplitude of the oscillation is |Gamma(1 + i)| = sqrt(pi / sinh pi), for ever
    amplitude = (drifting.max() - drifting.min()) / 2
    yield equal("no Cesaro mean: amplitude", amplitude, jnp.sqrt(jnp.pi / jnp.sinh(jnp.pi)), rtol=0.01)
    yield control("a function without a long-run mean", at_most("spread of the Abel means", amplitude, slow.max() / 4))


@claim(rows=("M18.33",))
def abel_from_cesaro_discrete(key, *, period: Size = 7):
    r"""A bounded sequence with a mean has the same mean under slow exponential forgetting.

    Let $\xi_n$ be bounded with $\frac1N\sum_{n\le N}\xi_n\to\bar\xi$. Then
    $(1-\delta)\sum_{n\ge0}\delta^n\xi_n\to\bar\xi$ as $\delta\uparrow1$ (Lemma 18.17); for a periodic sequence with an
    error of $O(1-\delta)$: 0, 1, 0, 1, ... gives $\frac\delta{1+\delta}$. Blocks of zeros and ones, each eight times as
    long as the one before, have no mean, and their Abel means oscillate for ever (with doubling lengths too, but by
    0.003 only). The converse needs boundedness: $(-1)^nn$ has the Abel limit
    0 while its Cesàro means tend to $\pm\frac12$. An exponential moving average weighs the *latest* terms most: for
    fixed $\delta$ it goes on fluctuating, and only its own long-run mean is $\bar\xi$.
    """
    gaps = 2.0 ** -jnp.arange(2, 11)
    length = 40 * 2**10
    n = jnp.arange(length)

    @jax.jit
    def measure(key):
        pattern = jax.random.uniform(key, (period,))
        periodic = pattern[n % period]
        alternating = (n % 2).astype(float)
        blocks = (jnp.floor(jnp.log2(n + 1.0) / 3) % 2 == 0).astype(float)
        growing = jnp.where(n % 2 == 0, 1.0, -1.0) * n
        columns = jnp.stack([periodic, alternating, blocks, growing], axis=1)
        abel = jax.vmap(lambda gap: abel_mean(columns, 1 - gap))(gaps)
        moving = exponential_moving_average(periodic, 0.9)
        return pattern, abel, cesaro_means(columns)[-2:], moving

    pattern, abel, cesaro, moving = measure(key)
    mean = pattern.mean()
    periodic, alternating, blocks, growing = abel.T
    # the series of a period, summed over all of them
    power = (1 - gaps[:, None]) ** jnp.arange(period)
    exact = gaps * (power @ pattern) / (1 - (1 - gaps) ** period)
    yield equal("periodic: one period, weighted", periodic, exact, x=gaps, along="1 - δ")
    # the weights within a period differ by at most the factor delta^period: what is lost is of that order
    yield at_most("periodic: distance from the mean", jnp.abs(periodic - mean), period * gaps, x=gaps, along="1 - δ")
    yield equal("alternating 0 and 1", alternating, (1 - gaps) / (2 - gaps), x=gaps, along="1 - δ")
    yield rate("alternating: error", gaps, 0.5 - alternating, 1.0, tolerance=0.1, along="1 - δ")
    yield equal("unbounded: Abel means vanish", growing, -gaps * (1 - gaps) / (2 - gaps) ** 2, x=gaps, along="1 - δ")
    yield equal("unbounded: Cesaro means do not", jnp.sort(cesaro[:, 3]), jnp.array([-0.5, 0.5]), atol=1e-3)
    latest = moving[-10 * period :]
    yield at_least("moving average: still fluctuates", latest.max() - latest.min(), 1e-4)
    yield equal("moving average: its own mean", latest.mean(), mean)
    yield control(
        "blocks of zeros and ones, each eight times as long",
        at_most("distance from one half", jnp.abs(blocks[4:] - 0.5), 2 * gaps[4:], x=gaps[4:], along="1 - δ"),
    )


@claim(rows=("M18.37", "M18.36"))
def power_means_to_maximum(key, *, dim: Size = 8, steps: Size = 20, delta: Probability = 0.9):
    r"""The p-th power averages of gradients tend to a decaying maximum.

    With $u^p_k=(1-\delta^p)\sum_{i\le k}\delta^{p(k-i)}\|g_i\|_p^p$ and $u_k=\max_{i\le k}\delta^{k-i}\|g_i\|_\infty$,
    $$(1-\delta^p)^{1/p}\,u_k\le(u^p_k)^{1/p}\le(dk)^{1/p}\,u_k,$$
    so $(u^p_k)^{1/p}\to u_k$ with an error of $O(1/p)$, and $u_k=\max\{\delta u_{k-1},\|g_k\|_\infty\}$. The lower
    bound is attained by a single entry, the upper, up to the factor of the lower one, by entries that have all decayed
    to the same size, $g_i=\delta^{-(k-i)}$.
    """
    p = 2.0 ** jnp.arange(1, 13)

    @jax.jit
    def measure(key):
        g = jax.random.normal(key, (steps, dim))
        roots = jax.vmap(lambda p: power_average(g, delta, p))(p)
        age = jnp.arange(steps)[:, None] - jnp.arange(steps)
        formula = jnp.where(age >= 0, delta ** jnp.maximum(age, 0), 0) * jnp.abs(g).max(1)
        # entries that have decayed to one, and a single entry
        level = jnp.broadcast_to(delta ** -jnp.arange(steps - 1, -1, -1.0)[:, None], (steps, dim))
        single = jnp.zeros((1, dim)).at[0, 0].set(1.0)
        even, alone = (jax.vmap(lambda p, a=a: power_average(a, delta, p)[-1])(p) for a in (level, single))
        return roots, decaying_maximum(g, delta), formula.max(1), even, alone

    roots, largest, formula, even, alone = measure(key)
    k = jnp.arange(1, steps + 1)
    yield equal("recursion and maximum", largest, formula, x=k, along="step")
    yield at_most("roots of the power averages", roots, (dim * k) ** (1 / p)[:, None] * largest, x=k, along="step")
    yield at_least(
        "roots of the power averages, from below", roots, (1 - delta**p)[:, None] ** (1 / p)[:, None] * largest, x=k
    )
    yield equal("roots at p = 4096", roots[-1], largest, rtol=0.003, x=k, along="step")
    lower = (1 - delta**p) ** (1 / p)
    yield equal("a single entry: attained from below", alone, lower, x=p, along="p")
    yield equal("entries decayed to one size", even, lower * (dim * steps) ** (1 / p), x=p, along="p")
    share = even / (dim * steps) ** (1 / p)
    yield at_least("the same: share of the upper bound, p from 512 on", share[8:], 0.99, x=p[8:], along="p")
    yield rate("logarithm of that, p from 512 on", p[8:], jnp.log(even[8:]), -1.0, tolerance=0.01, along="p")
    yield control(
        "a small power, p = 2", equal("root of the power average", roots[0], largest, rtol=0.003, x=k, along="step")
    )
