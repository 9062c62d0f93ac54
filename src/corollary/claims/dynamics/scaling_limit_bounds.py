"""The steps of the proof of M's Theorem 19.3 as measurements: bounds, regularity, martingales, identification."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.dynamics._sgd_survey import BOXES, ETA, GAPS, WIDTHS, survey
from corollary.dynamics import (
    ScaledNetwork,
    cadlag_modulus,
    draw_shallow,
    limit_kernel,
    limit_parts,
    martingale_variance,
    outer_weight_bound,
    path_parts,
    shallow_sgd,
    shallow_step,
    start_covariance,
    tangent_parts,
)
from corollary.evidence import Count, at_most, claim, control, equal, estimate, monotone, printed, rate
from corollary.kernels import trained_law

# 300 runs give a root mean square or a mean to 5 %, hence a slope over these widths to 0.03, its interval (five degrees
# of freedom) to 0.12; the next order in 1/N, an eighth at the smallest width, counts for as much again. Where the slope
# is a half, such errors leave a tenth of the variance unexplained
FITS = {"tolerance": 0.3, "fit": 0.85, "along": "width"}
REPETITIONS = 300


def _rms(a):
    return jnp.sqrt(jnp.mean(a**2, axis=tuple(range(1, a.ndim))))


def _mean(a):
    return jnp.mean(a, axis=tuple(range(1, a.ndim)))


@claim(rows=("M19.26",))
def one_step_expansion(key, *, repetitions: Count = 1000):
    r"""One step of SGD moves the outputs by the kernel of the units, up to a term of order N to the power -5/2.

    $m_{k+1}(x)=m_k(x)+\frac\eta N(y_k-m_k(x_k))K(x,x_k;\nu_k)+R$, where $R=\frac{\eta^2}{N^{5/2}}(y_k-m_k(x_k))^2
    \langle c\,\sigma\sigma'(w\cdot x_k)\,\sigma'(w\cdot x)\,x\cdot x_k+\frac{c^3}2\sigma'(w\cdot x_k)^2\sigma''(w\cdot
    x)(x\cdot x_k)^2,\nu_k\rangle$ up to $N^{-4}$. M states $R=\mathcal O(N^{-3/2})$; it is of the order $N^{-3}$ where
    the pairing has mean zero, as at the start with odd $\sigma$ and independent $c$ of a symmetric law, since it is
    then itself of the order $N^{-1/2}$. With the rate $\eta$ in the place of $\eta/N$ it falls no faster than $N^{-1}$.
    """
    widths, eta = 2.0 ** np.arange(4, 10), 2.0

    @jax.jit
    def measure(key):
        data_key, run_key = jax.random.split(key)
        # two points at 45 degrees, a label that no start comes near: all runs are about equally hard
        frame = jax.random.orthogonal(data_key, 3)
        x, seen, y = 1.2 * (frame[0] + frame[1]) / jnp.sqrt(2), 1.2 * frame[0], 4.0

        def run(key, width):
            net = draw_shallow(512, 3, key=key, width=width)
            outer, inner = (p[0, 0] for p in tangent_parts(net, x[None], seen[None]))
            miss = y - net(seen)

            def second(c, w):
                u, v = w @ seen, w @ x
                slope = jax.vmap(lambda z: 2 / jnp.sqrt(jnp.pi) * jnp.exp(-(z**2)))(jnp.stack([u, v]))
                bend = c**3 / 2 * slope[0] ** 2 * (-2 * v * slope[1]) * (x @ seen) ** 2
                return c * jax.lax.erf(u) * slope[0] * slope[1] * (x @ seen) + bend

            def rest(eta):
                return shallow_step(net, seen, y, eta)(x) - net(x) - eta / width * miss * (outer + inner)

            return rest(width), rest(eta), rest(eta) - eta**2 * width**-2.5 * miss**2 * net.measure.pair(second)

        keys = jax.random.split(run_key, (len(widths), repetitions))
        return jax.lax.map(lambda a: jax.vmap(lambda k: run(k, a[1]))(a[0]), (keys, jnp.asarray(widths)))

    fast, first, second = (jnp.median(jnp.abs(a), axis=1) for a in measure(key))
    # the median of 1000 is known to 5 %, the slope over a factor 32 to 0.02, its interval to 0.1; the next order in 1/N
    # counts for as much again, and for more in the second order
    fits = {"tolerance": 0.25, "along": "width"}
    yield rate("remainder, as M bounds it", widths, first, -1.5, side="at most", **fits)
    yield rate("remainder", widths, first, -3.0, **fits)
    yield rate("remainder of the second order", widths, second, -4.0, tolerance=0.5, along="width")
    yield control("the rate η/N: here 1", rate("remainder", widths, fast, -1.5, side="at most", **fits))


@claim(rows=("M19.24", "M19.25", "M19.27"))
def preliminary_bounds(key):
    r"""Under SGD of rate eta/N the outer weights, the outputs and the measure of the units stay bounded, at all widths.

    $|\sigma|\le s$, $|y|\le B$, $a=\frac{\eta sBT}{\sqrt N}$ and $\gamma_0=\frac1N\sum_n|C_0^n|$: on every path, for
    all $k\le NT$ and all units, $|C_k^n|\le|C_0^n|+a+(\gamma_0+a)(e^{\eta s^2T}-1)$; nearly attained by the first step
    of a saturated network that starts at zero. The second moments of the outputs do not depend on the width, up to
    $\frac1N$. So the share of units outside $[-L,L]^{1+d}$ and the probability of outputs above $L$ are below
    $C_0/L$ and $C_0/L^2$ for all $N$ and $t\le T$: the processes stay in a compact set. A label of
    twice the size leaves the bound.
    """
    _, _, runs = survey(key, REPETITIONS, 0.5)
    yield at_most("largest outer weight over its bound", jnp.max(runs.against_bound, 1), np.ones(7), x=WIDTHS)

    @jax.jit
    def first_step(labels):
        # all units saturated: σ = 1 to rounding
        net = ScaledNetwork(jnp.zeros(16), jnp.full((16, 1), 20.0))
        bound = outer_weight_bound(net.outer, 16.0, 0.1, 1 / 16)
        return jax.vmap(lambda y: shallow_step(net, jnp.ones(1), y, 0.1).outer)(labels), bound

    (right, wrong), bound = first_step(jnp.array([1.0, 2.0]))
    yield at_most("first step from zero: outer weight", right, bound)
    yield control(
        "labels within the bound: here twice as large", at_most("first step from zero: outer weight", wrong, bound)
    )
    moments = jnp.max(jnp.mean(runs.outputs**2, (1, 3)), 1)
    yield rate("largest second moment of the outputs", WIDTHS, moments, 0.0, **FITS)
    largest = float(jnp.max(jnp.mean(runs.size, 1)))
    yield at_most("share of units outside a box", jnp.mean(runs.beyond, 1), largest / BOXES, x=BOXES, along="box")
    square = jnp.sum(runs.outputs**2, -1)
    levels = np.array([1.0, 2.0, 3.0])
    above = jnp.mean(jnp.max(jnp.abs(runs.outputs), -1)[..., None] > levels, 1)
    constant = float(jnp.max(jnp.mean(square, 1)))
    yield at_most("probability of large outputs", above, constant / levels**2, x=levels, along="level")


@claim(rows=("M19.28", "M19.29"))
def regularity(key):
    r"""In a time t the units move by the order t/sqrt(N) and the outputs by the order t, at all widths.

    Rate $\eta/N$, $\gamma=\frac12$: on every path $|C_t^n-C_s^n|\le\frac{\eta s}{\sqrt N}\sup|y-h|\,(t-s)$ at whole
    steps, and $|h_t-h_s|\le\eta\sup(|y-h||K|)\,(t-s)$ up to $N^{-2}$, with suprema of bounded mean, so that
    $\mathbb E|C_t-C_s|=\mathcal O(N^{-1/2}(t-s))$, $\mathbb E|h_t-h_s|=\mathcal O(t-s)$; the product of neighbouring
    increments of $\langle f,\mu\rangle$ falls with $N$. Hence the modulus $w'$ of the paths vanishes
    with the gap, uniformly in $N$: relative compactness in the space of right-continuous paths with left limits. In the
    scaling $\gamma=1$ the units move by order one. Two jumps of size 1 at distance $\frac1N$ keep $w'=1$ at every gap.
    """
    _, _, runs = survey(key, REPETITIONS, 0.5)
    units = _mean(jnp.abs(runs.outer[:, :, -1] - runs.outer[:, :, 0]))
    yield rate("movement of an outer weight", WIDTHS, units, -0.5, **FITS)
    lags = np.array([1, 2, 4, 8])
    moved, outputs = (
        jnp.stack([_mean(jnp.max(jnp.abs(a[:, :, lag:] - a[:, :, :-lag]), 2)) for lag in lags], 1)
        for a in (runs.outer, runs.outputs)
    )
    # per run and unit or point, the largest over all pairs of times at this distance; then the mean
    slowest = ETA * jnp.outer(jnp.mean(runs.miss, 1) / np.sqrt(WIDTHS), lags / 8)
    yield at_most("movement of an outer weight, by lag", moved, slowest, x=lags / 8, along="time between")
    rest = float(jnp.max(jnp.abs(runs.parts.remainder)))
    allowed = ETA * jnp.outer(jnp.mean(runs.speed, 1), lags / 8)
    yield at_most("movement of an output, by lag", outputs, allowed, atol=2 * rest, x=lags / 8, along="time between")
    yield rate("movement of an output in an eighth of the time", WIDTHS, outputs[:, 0], 0.0, side="at most", **FITS)
    before, after = (runs.pairing[:, :, a] - runs.pairing[:, :, b] for a, b in ((4, 2), (6, 4)))
    product = _mean(jnp.minimum(jnp.abs(before), 1) * jnp.minimum(jnp.abs(after), 1))
    yield rate("product of neighbouring increments", WIDTHS, product, -0.5, side="at most", **FITS)
    modulus = jnp.mean(runs.modulus, 1)
    gaps = np.array(GAPS) / 32
    yield monotone("modulus of the outputs", modulus, x=gaps, along="gap")
    yield rate("modulus at the largest gap", WIDTHS, modulus[:, -1], 0.0, side="at most", **FITS)
    yield at_most("modulus at the smallest gap", modulus[:, 0], modulus[:, -1] / 2, x=WIDTHS, along="width")
    _, _, mean_field = survey(key, REPETITIONS, 1.0)
    units = _mean(jnp.abs(mean_field.outer[:, :, -1] - mean_field.outer[:, :, 0]))
    yield control("γ = 1/2: here 1", rate("movement of an outer weight", WIDTHS, units, -0.5, **FITS))
    near = jnp.where(jnp.arange(32) < 16, 0.0, 2.0).at[15].set(1.0)
    jumps = jax.jit(lambda path: jnp.stack([cadlag_modulus(path, g) for g in (GAPS[0], GAPS[-1])]))(near)
    yield equal("two close jumps: modulus", jumps, 1.0)
    yield control(
        "jumps lie apart: here two are close", at_most("modulus at the smallest gap", jumps[0], jumps[-1] / 2)
    )


@claim(rows=("M19.30",))
def drift_and_martingale(key):
    r"""A path of SGD is a drift, two martingales of variance of order 1/N, and a remainder that is smaller.

    $h_t=h_0+\int_0^t\frac\eta MK(\mu_s)(\hat Y-h_s)ds+M^1_t+M^2_t+R$ with the martingales of the outer and the inner
    weights, sums of $\frac\eta N[(y_k-m_k(x_k))K^i(\cdot,x_k;\nu_k)-\frac1M\sum_m\dots]$. They have mean zero,
    uncorrelated increments and the mean square of their predictable variation, and
    $N\,\mathbb E[(M^i_t)^2]\to\eta^2\int_0^t\mathbb E\operatorname{Var}_\pi[(y-h_s(x'))
    K^i(\cdot,x')]ds$ along the limit. M bounds the remainder by $N^{-1/2}$; here it is of the order $N^{-2}$. If the
    examples are not drawn alike, the sums have a mean.
    """
    x, y, runs = survey(key, REPETITIONS, 0.5)
    parts = runs.parts

    @jax.jit
    def predict(x, y, starts):
        k, covariance = limit_kernel(x), start_covariance(x)

        def layer(part):
            def realised(start):
                return martingale_variance(k, jnp.zeros_like(k), y - start, ETA, 1.0, part=part)

            full, half = (martingale_variance(k, covariance, y, ETA, t, part=part) for t in (1.0, 0.5))
            return full, half, jax.vmap(jax.vmap(realised))(starts)

        return jax.vmap(layer)(jnp.stack(limit_parts(x)))

    wide = slice(4, 7)  # the widths 40 to 64 together
    scale = jnp.asarray(WIDTHS, float)[wide, None]
    noises = parts.outer_martingale, parts.inner_martingale
    predicted = predict(x, y, runs.outputs[:, :, 0])
    for i, (name, noise) in enumerate(zip(("outer", "inner"), noises, strict=True)):
        full, half, given = (p[i] for p in predicted)
        variation = runs.variations[:, :, i]
        yield estimate(f"{name} martingale: mean", noise[-1, :, -1], 0.0, wrong=jnp.sqrt(full / WIDTHS[-1]))
        # its square and its predictable variation have one mean, at every width
        rest = jnp.sum(noise[wide, :, -1] ** 2 - variation[wide], -1) * scale
        yield estimate(f"{name} martingale: square less variation", rest.ravel(), 0.0, wrong=jnp.sum(full))
        pairs = jnp.sum(noise[wide, :, 4] * (noise[wide, :, -1] - noise[wide, :, 4]), -1) * scale
        yield estimate(f"{name} martingale: increments", pairs.ravel(), 0.0, wrong=jnp.sum(half))
        # what the widths 32 and 64 say together has no error of order 1/N
        varied, limit = jnp.sum(variation, -1) * WIDTHS[:, None], jnp.sum(full)
        yield estimate(f"{name} martingale: N times its variation", 2 * varied[6] - varied[3], limit, wrong=2 * limit)
        # in units of what the limit has from the realised starts, which takes most of the chance out of it
        size = _mean(variation) / _mean(given)
        yield rate(f"{name} martingale: variation", WIDTHS, size, -1.0, side="at most", **FITS)
    yield rate("remainder, as M bounds it", WIDTHS, _rms(parts.remainder[:, :, -1]), -0.5, side="at most", **FITS)
    # quadratic in what is missing, hence with twice the spread
    yield rate("remainder", WIDTHS, _rms(parts.remainder[:, :, -1]), -2.0, tolerance=0.5, along="width")

    @jax.jit
    def first_most_often(key, x, y):
        def run(key):
            net_key, order_key = jax.random.split(key)
            net = draw_shallow(64, x.shape[1], key=net_key)
            order = jax.random.choice(order_key, y.shape[0], (64,), p=jnp.array([0.8, 0.1, 0.1]))
            (outputs, kernels), _ = shallow_sgd(
                net, x, y, ETA, order, observe=lambda net: (net(x), tangent_parts(net, x))
            )
            return path_parts(outputs, *kernels, y, order, ETA / 64).outer_martingale[-1]

        return jax.vmap(run)(jax.random.split(key, REPETITIONS))

    sums = first_most_often(key, x, y)
    yield control(
        "examples drawn uniformly: here the first most often",
        estimate("outer martingale: mean", sums, 0.0, wrong=10.0),
    )


@claim(rows=("M19.31", "M19.32"))
def identification(key):
    r"""Every limit of the paths has a frozen measure and obeys the limit equation.

    For $f\in C_b^2$, $\langle f,\mu_t\rangle-\langle f,\mu_0\rangle=N^{-3/2}\sum_{k<Nt}\eta(y_k-m_k(x_k))\langle
    \partial_cf\,\sigma(w\cdot x_k)+c\,\sigma'(w\cdot x_k)\nabla_wf\cdot x_k,\nu_k\rangle+R$, itself of the order
    $N^{-1/2}$; M bounds $R$ by $N^{-1}$, here it is of the order $N^{-2}$ or less. With bounded continuous $g,q$ and
    $s<t$, $F=|(\langle f,\mu_t\rangle-\langle f,\mu_0\rangle)\langle g,\mu_s\rangle|+\sum_m|(h_t-h_0-\int_0^t\frac\eta
    MK(\mu_u)(\hat Y-h_u)du)(x_m)\,q(h_s)|$ has mean $\mathcal O(N^{-1/2})$: in the limit $\mu$ is constant and $h$
    obeys the equation. In the scaling $\gamma=1$ the measure moves.
    """
    _, _, runs = survey(key, REPETITIONS, 0.5)
    change = runs.pairing[:, :, -1] - runs.pairing[:, :, 0]
    yield rate("change of a pairing", WIDTHS, _rms(change), -0.5, side="at most", **FITS)
    rest = _rms(change - jnp.sum(runs.first_order, -1))
    yield rate("remainder of the pairing, as M bounds it", WIDTHS, rest, -1.0, side="at most", **FITS)
    yield rate("remainder of the pairing", WIDTHS, rest, -2.0, side="at most", **FITS)
    frozen = jnp.abs(change * runs.steady[:, :, 4])
    test = 1 / (1 + runs.outputs[:, :, 4, :1] ** 2)
    moved = runs.outputs[:, :, -1] - runs.outputs[:, :, 0]
    obeyed = jnp.sum(jnp.abs((moved - runs.parts.drift[:, :, -1]) * test), -1)
    yield rate("first term of the functional", WIDTHS, _mean(frozen), -0.5, side="at most", **FITS)
    yield rate("second term of the functional", WIDTHS, _mean(obeyed), -0.5, side="at most", **FITS)
    yield rate("the functional", WIDTHS, _mean(frozen + obeyed), -0.5, side="at most", **FITS)
    _, _, mean_field = survey(key, REPETITIONS, 1.0)
    even = [_rms(a.steady[:, :, -1] - a.steady[:, :, 0]) for a in (runs, mean_field)]
    yield rate("change of a pairing that is even in the units", WIDTHS, even[0], -0.5, side="at most", **FITS)
    yield control(
        "γ = 1/2: here 1",
        rate("change of a pairing that is even in the units", WIDTHS, even[1], -0.5, side="at most", **FITS),
    )


@jax.jit
def _start_variances(key, x):
    """The variance of the outputs at time 0, summed over the points, for each width."""
    top = int(WIDTHS[-1])

    def outputs(key, width):
        return jax.vmap(lambda k: draw_shallow(top, x.shape[1], key=k, width=width)(x))(key)

    keys = jax.random.split(key, (len(WIDTHS), 4000))
    return jnp.sum(jnp.var(jax.vmap(outputs)(keys, jnp.asarray(WIDTHS, float)), 1), -1)


@claim(
    rows=("M19.32",),
    erratum="Only the measure has a deterministic limit; the outputs keep the randomness of the start.",
)
def printed_dirac(key):
    r"""The limit law is concentrated on one path of measure and outputs.

    As printed: a limit point of the laws of $(\mu^N,h^N)$ "is a Dirac measure concentrated on $(\mu,h)$" (M, Lemma
    19.15). Then the variance of the outputs over initialisations would vanish as $N$ grows, at all times. Only that of
    the measure does, as $1/N$; the outputs keep the randomness of their start, and their variance tends to the trace
    of $e^{-At}\Sigma e^{-At}$. (The proof shows that $(\mu,h)$ obeys the equation, for which it need not be one path.)
    """
    x, y, runs = survey(key, REPETITIONS, 0.5)
    law = trained_law(limit_kernel(x), start_covariance(x), y, ETA / 2, reduction="mean")
    apart = jnp.sum((runs.outputs - jnp.mean(runs.outputs, 1, keepdims=True)) ** 2, -1)
    # At time 0 it is the same at every width, later it has errors of order 1/N. A start needs no training: 4000 of them
    # give the variance to 2 %, the slope to 0.01, its interval to ±0.05
    start = _start_variances(jax.random.fold_in(key, 1), x)
    yield printed(rate("variance of the outputs at time 0", WIDTHS, start, -0.5, side="at most", **FITS))
    # what the widths 32 and 64 say together has no error of order 1/N
    limit = float(jnp.trace(law.covariance))
    yield estimate("variance of the outputs at time 1/2", 2 * apart[6, :, 4] - apart[3, :, 4], limit, wrong=0.0)
    # 300 runs give a variance to 8 %, the slope to 0.05, its interval to 0.3; half of the power is asked for
    still = jnp.var(runs.pairing[:, :, 4], 1)
    yield rate("variance of a pairing", WIDTHS, still, -1.0, side="at most", **FITS | {"tolerance": 0.5})
