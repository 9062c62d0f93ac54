"""Steps that decrease: the gradient vanishes in the mean and along almost every path."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, monotone, rate
from corollary.optimization import inverse_power, inverse_time, quadratic_moments, rates, step_sizes


@claim(rows=("M18.16", "M18.17"))
def decreasing_steps(key, *, starts: Count = 5, runs: Count = 400, steps: Count = 2000, spread: Positive = 0.7):
    r"""With steps that sum to infinity and whose squares do not, the gradient vanishes in the mean.

    In the setting of the constant step let all $\eta_m\le\frac1{L\kappa_2}$. Then $\sum_{m\le k}\eta_m\mathbb E\|\nabla
    f(\theta_m)\|^2\le2(f(\theta_1)-f^*)+L\kappa_1\sum_{m\le k}\eta_m^2$ (Lemma 18.9), attained up to $\frac1k$ on the
    line with all $\eta_m=\frac1L$. If $\sum\eta_m=\infty$ and
    $\sum\eta_m^2<\infty$, the average weighted by the steps tends to 0, and so does $\liminf\mathbb E\|\nabla
    f(\theta_k)\|^2$ (Theorem 18.10). Measured for $f=1-\cos$ with noise $\pm0.7$ from several starts, the maximum among
    them.
    """
    schedules = {
        "4/(10+k)": inverse_time(4.0, 10.0),
        "constant": lambda count: 0.5 + 0.0 * count,
        "1/k^2": inverse_power(1.0, 2.0),
    }
    at = np.array([99, steps // 5, steps - 1])

    @jax.jit
    def measure(key):
        angles = jnp.linspace(0.3, jnp.pi, starts)

        def run(etas, start, key):
            def advance(state, inputs):
                eta, key = inputs
                theta, total = state
                slope = jnp.sin(theta)
                theta = theta - eta * (slope + spread * jax.random.rademacher(key, (runs,), float))
                total = total + eta * slope**2
                # the sums of different runs are independent of each other
                return (theta, total), (jnp.mean(slope**2), total.mean(), total.std() / runs**0.5)

            first = jnp.full(runs, start), jnp.zeros(runs)
            return jax.lax.scan(advance, first, (etas, jax.random.split(key, steps)))[1]

        etas = jnp.stack([step_sizes(s, steps) for s in schedules.values()])
        return jax.vmap(lambda e: jax.vmap(run, (None, 0, None))(e, angles, key))(etas), etas, 1 - jnp.cos(angles)

    (square, sums, error), etas, gap = measure(key)
    falling, fixed, short = square
    sums, error = sums[0], error[0]
    bounds = jnp.stack([rates.sgd.weighted_sum(1.0, g, etas[0], kappa1=spread**2) for g in gap])
    yield at_most("weighted sum of squared gradients", sums[:, 1:] + 5 * error[:, 1:], bounds[:, 1:], along="step")
    # the line with curvature and noise 1: from the second iterate on the squared gradient is that of the noise
    ones = jnp.ones(200)
    line = quadratic_moments(jnp.ones(1), jnp.ones(1), jnp.ones(1), ones[:-1])
    square = jnp.cumsum((line.mean**2 + line.variance)[:, 0])
    bound = rates.sgd.weighted_sum(1.0, 0.5, ones, kappa1=1.0)
    yield at_most("the line: weighted sum", square, bound, along="step")
    yield at_least("the line: share of the bound after 200 steps", square[-1] / bound[-1], 0.99)
    weighted = (sums / jnp.cumsum(etas[0]))[:, at]
    yield monotone("weighted average, steps 4/(10+k)", weighted, "decreasing", x=at + 1, along="step")
    yield monotone("mean squared gradient, worst start", falling[:, at].max(0), "decreasing", x=at + 1, along="step")
    # Near the minimum θ has the variance c²·0.7²/((2c - 1)k) after k steps c/k: with c = 4 and k = 2000 it is 0.0006.
    # From π, where the gradient vanishes too, paths part as k^c: the share that is still near it has fallen as k^-4, to
    # one in a million, where with c = 2 it would be one in two thousands, each of which adds up to 1/400.
    yield at_most("mean squared gradient at the end, steps 4/(10+k)", falling[:, -1], 2e-3)
    yield at_least("constant step: mean squared gradient at the end", fixed[:, -1], 0.1)
    yield control("steps 1/k^2: sum is finite", at_most("squared gradient, some start", short[:, -1].max(), 2e-3))
    yield control("constant step: squares are not summable", at_most("squared gradient", fixed[:, -1], 2e-3))


@claim(rows=("M18.19",))
def almost_sure(key, *, dim: Size = 3, runs: Count = 400, steps: Count = 4000):
    r"""With such steps the gradient vanishes along almost every path.

    $\nabla f$ Lipschitz and bounded, $f$ bounded, $\sum\eta_k=\infty$, $\sum\eta_k^2<\infty$, and (missing in M)
    unbiased noise with $\mathbb E\|R_k\|^2\le A(1+\|\nabla f\|^2)$: $\|\nabla f(\theta_k)\|\to0$ almost surely (Theorem
    18.11). For $f=\sum(1-\cos\theta_i)$ and noise $\pm1$: the largest gradient in the last half of
    the path falls with its length, in 99 of 100 paths. A constant step keeps it up; $\eta_k=k^{-2}$ freezes it.
    """
    schedules = (inverse_time(2.0, 5.0), lambda count: 0.2 + 0.0 * count, inverse_power(0.5, 2.0))
    cuts = np.array([steps // 16, steps // 8, steps // 4, steps // 2, steps])

    @jax.jit
    def measure(key):
        start_key, run_key = jax.random.split(key)
        start = jax.random.uniform(start_key, (runs, dim), minval=-2.5, maxval=2.5)

        def run(etas):
            def advance(theta, inputs):
                eta, key = inputs
                slope = jnp.sin(theta)
                noise = jax.random.rademacher(key, theta.shape, float)
                return theta - eta * (slope + noise), jnp.sqrt(jnp.sum(slope**2, axis=1))

            return jax.lax.scan(advance, start, (etas, jax.random.split(run_key, steps)))[1]

        sizes = jax.vmap(run)(jnp.stack([step_sizes(s, steps) for s in schedules]))
        # the largest gradient in the second half of each part: no path escapes later in it
        tops = jnp.stack([sizes[:, c // 2 : c].max(1) for c in cuts], 1)
        return jnp.quantile(tops, jnp.array([0.5, 0.99]), axis=-1)

    quantiles = np.asarray(measure(key))
    half, most = quantiles[:, 0]
    yield rate("median of the largest gradient in the last half", cuts, half, -0.5, tolerance=0.15, along="steps")
    yield monotone("99 % quantile", most, "decreasing", x=cuts, along="steps")
    yield at_most("99 % quantile at the end over the first", most[-1] / most[0], 0.6)
    for name, row in (("a constant step", 1), ("steps 1/k^2", 2)):
        last = quantiles[1, row]
        yield control(name, at_most("99 % quantile at the end over the first", last[-1] / last[0], 0.6))
