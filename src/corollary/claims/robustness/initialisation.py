"""Output and gradient of two-layer networks as they are drawn: laws that hold at every width and dimension."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.evidence import (
    Count,
    Probability,
    Range,
    Size,
    at_most,
    claim,
    control,
    equal,
    estimate,
    frequency_at_most,
    printed,
    rate,
    same_law,
)
from corollary.foundations import BERRY_ESSEEN_IDENTICAL, berry_esseen
from corollary.robustness import (
    gradient_floor,
    gradient_mean_square,
    output_law,
    random_two_layer,
    slope_mean_deviation,
    slope_moments,
    sphere_points,
)

Draws = Annotated[int, Range(1000, 1_000_000)]


def _outputs(key, draws, units, dim, activation, length=1.0):
    """f(x) for so many networks, at a fixed x of the length √d times `length`."""
    x = length * sphere_points(1, dim, key=jax.random.fold_in(key, 0))[0]
    return jax.vmap(lambda k: random_two_layer(units, dim, activation, key=k)(x))(jax.random.split(key, draws))


@claim(rows=("B12.13", "B12.14"))
def output_at_initialisation(key, *, draws: Draws = 20_000, wide: Annotated[int, Range(100, 2000)] = 200):
    r"""At initialisation the output has one variance at every width and dimension, and becomes normal with the width.

    $f(x)=\frac1{\sqrt k}\sum_ja_j\sigma(w_j\cdot x)$ with $w_j\sim N(0,\frac1dI)$, $a_j=\pm1$ and $\|x\|=\sqrt d$ has
    mean 0 and variance $E\sigma(X)^2$ for every $k$ and $d$ ($\frac12$ for ReLU), its excess kurtosis is
    $\frac1k\big(\frac{E\sigma^4}{(E\sigma^2)^2}-3\big)$, and its distance from the normal law is at most
    $0.4748\,E|\sigma|^3/((E\sigma^2)^{3/2}\sqrt k)$. At another length of $x$ the variance is another.
    """
    relu = jax.nn.relu
    sizes = ((1, 2), (3, 5), (10, 20))

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, len(sizes) + 2)
        several = jnp.stack([_outputs(k, draws, *s, relu) for k, s in zip(keys[:-2], sizes, strict=True)], 1)
        return several, _outputs(keys[-2], 4000, wide, 3, jnp.tanh), _outputs(keys[-1], draws, 3, 5, relu, 1.3)

    several, large, longer = map(np.asarray, measure(key))
    laws = [output_law(relu, k) for k, _ in sizes]
    variance = np.array([float(law.variance) for law in laws])
    fourth = variance**2 * (3 + np.array([float(law.excess) for law in laws]))
    yield estimate("mean", several, np.zeros(3), wrong=np.full(3, 0.1))
    yield estimate("variance, widths 1, 3, 10 in dimensions 2, 5, 20", several**2, variance, wrong=variance + 0.1)
    # what a normal law would have; at width 10 the excess is a tenth of that of one unit
    yield estimate("fourth moment", several[:, :2] ** 4, fourth[:2], wrong=3 * variance[:2] ** 2)
    tanh = output_law(jnp.tanh, wide)
    deviation = float(tanh.variance) ** 0.5
    yield same_law(
        "output of a wide network against the normal law",
        large,
        scipy.stats.norm(0, deviation).cdf,
        wrong=scipy.stats.norm(0, 1.2 * deviation).cdf,
    )
    # the law of a unit's output, by quadrature over the normal one, is all that the bound needs
    z = np.linspace(-10, 10, 20_001)
    third = np.trapezoid(np.abs(np.tanh(z)) ** 3 * scipy.stats.norm.pdf(z), z)
    allowed = berry_esseen(third * wide, float(tanh.variance) * wide, identical=True)
    distance = scipy.stats.kstest(large, scipy.stats.norm(0, deviation).cdf).statistic
    noise = scipy.stats.kstwo.isf(1e-6, large.size)  # of the empirical law of so many draws
    yield at_most(f"distance from the normal law (constant {BERRY_ESSEEN_IDENTICAL})", distance, allowed + noise)
    yield control(
        "x of the length √d: here 1.3 times as long",
        estimate("variance", longer**2, variance[1], wrong=variance[1] + 0.1),
    )


def _gradients(key, draws, units, dim, activation):
    """Gradients at a fixed x of the length √d, their parts at a right angle to x, and the slopes of the units."""
    x = sphere_points(1, dim, key=jax.random.fold_in(key, 0))[0]

    def one(k):
        network = random_two_layer(units, dim, activation, key=k)
        slope = jax.grad(network)(x)
        return slope, slope - (slope @ x) / dim * x, jax.vmap(jax.grad(activation))(network.units(x))

    return jax.vmap(one)(jax.random.split(key, draws))


def _lengths(key, draws, units, dim, activation):
    """Squared lengths of the gradient and of its part across x, both times kd over the sum of squared slopes."""
    slope, across, slopes = _gradients(key, draws, units, dim, activation)
    factor = units * dim / jnp.sum(slopes**2, 1)
    return jnp.sum(slope**2, 1) * factor, jnp.sum(across**2, 1) * factor


@claim(rows=("B12.20",))
def gradient_at_initialisation(
    key, *, draws: Draws = 5000, units: Size = 20, dim: Annotated[int, Range(3, 50)] = 5, delta: Probability = 0.1
):
    r"""At initialisation the gradient at a point has a length of order one, in every dimension.

    $f(x)=\frac1{\sqrt k}\sum_ja_j\sigma(w_j\cdot x)$, $\|x\|=\sqrt d$, $P=I-\frac{xx^\top}d$. Given the $w_j\cdot x$,
    $P\nabla f(x)$ is normal, and $\|P\nabla f(x)\|^2\,kd/\sum_j\sigma'(w_j\cdot x)^2$ has the chi-square law with $d-1$
    degrees of freedom at every $k$ and $d$. In the mean
    $E\|\nabla f(x)\|^2=\frac1d[(d-1)E\sigma'(X)^2+E X^2\sigma'(X)^2]$, which is $\frac12$ for ReLU and 0.286, 0.429,
    0.461, 0.464 for $\tanh$ and $d=2,10,100,1000$. For $\gamma<2/e$ and each fixed $x$, with probability $1-\gamma$,
    $\|\nabla f(x)\|\ge(1-5\sqrt{\ln(2/\gamma)/d})\big(\frac1k\sum_j\sigma'(w_j\cdot x)^2\big)^{1/2}$. Along $x$ the
    gradient is not normal: without $P$ the law is another.
    """
    law, more = scipy.stats.chi2(dim - 1), scipy.stats.chi2(dim)

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 6)
        _, across = _lengths(keys[0], draws, units, dim, jnp.tanh)
        whole, _ = _lengths(keys[1], draws, units, 2, jnp.tanh)
        pairs = [(jax.nn.relu, 10), (jnp.tanh, 2), (jnp.tanh, 10)]
        squares = [jnp.sum(_gradients(k, draws, 5, d, f)[0] ** 2, 1) for (f, d), k in zip(pairs, keys[3:], strict=True)]
        high, _, slopes = _gradients(keys[2], 1000, 10, 200, jnp.tanh)
        below = jnp.linalg.norm(high, axis=1) < gradient_floor(slopes, 200, delta)
        return across, whole, jnp.stack(squares, 1), below

    across, whole, squares, below = map(np.asarray, measure(key))
    yield same_law("squared length across x, times kd over the sum", across, law.cdf, wrong=more.cdf)
    printed_values = np.array([0.286, 0.429, 0.461, 0.464])
    means = np.array([float(gradient_mean_square(jnp.tanh, d)) for d in (2, 10, 100, 1000)])
    yield equal("mean squared length, tanh", means, printed_values, rtol=0, atol=5e-4)
    relu = np.array([float(gradient_mean_square(jax.nn.relu, d)) for d in (2, 10)])
    yield estimate("squared length, ReLU and tanh", squares, [relu[1], *means[:2]], wrong=[0.6, 0.5, 0.5])
    yield equal("mean squared length, ReLU", relu, 0.5)
    yield frequency_at_most("gradient shorter than its floor", below, delta)
    # in dimension 2 the part along x is half of the gradient
    yield control(
        "the part across x: here the whole gradient, d = 2",
        same_law("squared length", whole, scipy.stats.chi2(2).cdf, wrong=scipy.stats.chi2(4).cdf),
    )


@claim(
    rows=("B12.20",),
    erratum="The vector y is normal in d - 1 dimensions: its squared length is a sum of d - 1 squares, not of d.",
)
def squares_up_to_d(key, *, draws: Draws = 5000, dim: Annotated[int, Range(2, 20)] = 5):
    r"""The squared length of the projected gradient is a sum of d squared normal variables.

    As printed in the proof of Proposition 79: $\|y\|^2=\sum_{i=1}^dy_i^2$ for $y\sim N(0,I_{d-1})$, where
    $\|P\nabla f(x)\|^2=\frac1{kd}\sum_j\sigma'(w_j\cdot x)^2\,\|y\|^2$. The sum stops at $d-1$; the bound that follows
    subtracts 1 and is right.
    """
    across = jax.jit(lambda key: _lengths(key, draws, 20, dim, jnp.tanh)[1])(key)
    less, as_printed = scipy.stats.chi2(dim - 1), scipy.stats.chi2(dim)
    yield printed(same_law("squared length, d degrees of freedom", across, as_printed.cdf, wrong=less.cdf))
    yield same_law("squared length, d - 1 degrees of freedom", across, less.cdf, wrong=as_printed.cdf)


@claim(rows=("B12.18", "B12.21"))
def mean_squared_slope(key, *, draws: Count = 4000, delta: Probability = 0.1):
    r"""The mean squared slope of the units is near its expectation, by Bernstein's inequality.

    If $|\sigma'|\le B$, then $E|\sigma'(X)|^{2q}\le\frac{q!}2vc^{q-2}$ for all whole $q\ge2$ with $v=E\sigma'(X)^4$ and
    $c=B^2$, with equality at $q=2$ (Assumption 5). Then $\frac1k\sum_j\sigma'(w_j\cdot x)^2$ exceeds $E\sigma'(X)^2$ by
    more than $\sqrt{8v\ln(1/\gamma)/k}+2c\ln(1/\gamma)/k$ with probability at most $\gamma$, and falls short of it by
    more as seldom; its standard deviation falls as $k^{-1/2}$. For $\sigma=\exp$ no such constants exist:
    $E|\sigma'|^{2q}=e^{2q^2}$ outgrows every $q!\,c^q$.
    """
    q = np.arange(2, 11)
    factorial = scipy.special.factorial(q)
    z = np.linspace(-12, 12, 48_001)
    weights = scipy.stats.norm.pdf(z) * (z[1] - z[0])
    moments = slope_moments(jnp.tanh, 1.0)
    v, c = float(moments.variance), float(moments.growth)
    measured = weights @ ((1 - np.tanh(z) ** 2) ** 2)[:, None] ** q
    yield at_most("moments of the squared slope, tanh", measured, factorial / 2 * v * c ** (q - 2.0), x=q, along="q")
    yield equal("second of them", measured[0], v)
    units = (10, 30, 100, 300)

    @jax.jit
    def means(key):
        x = sphere_points(1, 4, key=key)[0]

        def one(k, size):
            inputs = random_two_layer(size, 4, key=k).units(x)
            return jnp.mean(jax.vmap(jax.grad(jnp.tanh))(inputs) ** 2)

        return jnp.stack([jax.vmap(lambda k, n=n: one(k, n))(jax.random.split(key, draws)) for n in units])

    off = np.asarray(means(key)) - weights @ ((1 - np.tanh(z) ** 2) ** 2)
    for row, n in zip(off, units, strict=True):
        bound = float(slope_mean_deviation(delta, n, moments))
        yield frequency_at_most(f"mean squared slope too large, {n} units", row > bound, delta)
        yield frequency_at_most(f"mean squared slope too small, {n} units", row < -bound, delta)
    # the variance is that of one unit, over their number
    squares = (1 - np.tanh(z) ** 2) ** 2
    spread = weights @ squares**2 - (weights @ squares) ** 2
    yield estimate("k times the squared deviation", off.T**2 * units, np.full(4, spread), wrong=np.full(4, 2 * spread))
    # each deviation is known to 1 %, a slope over 1.5 decades to 0.005: ten times that with two degrees of freedom, and
    # seldom three times as much
    yield rate("standard deviation", units, off.std(1), -0.5, tolerance=0.15, along="units k")
    far = np.linspace(-10, 32, 84_001)  # the mass of e^{2qX} lies about 2q
    growing = scipy.stats.norm.pdf(far) @ np.exp(2 * far[:, None] * q) * (far[1] - far[0])
    yield equal("moments for the exponential function", np.log(growing), 2.0 * q**2, x=q, along="q")
    yield control(
        "a bounded slope: here of the exponential, with c a hundred times as large",
        at_most("moments of the squared slope", growing, factorial / 2 * growing[0] * 100 ** (q - 2.0), x=q, along="q"),
    )
