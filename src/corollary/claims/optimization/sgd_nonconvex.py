"""Stochastic gradient descent without convexity: small gradients on average, and in the limit."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims.optimization._regression import regression
from corollary.evidence import (
    Count,
    Positive,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    monotone,
    rate,
)
from corollary.optimization import (
    Problem,
    circle_grid,
    coin,
    inverse_power,
    inverse_time,
    minimize,
    noisy,
    rates,
    sigmoid_sum,
    step_sizes,
    transition,
    walk,
)


def _circle(start=0.0):
    """1 - cos: L = 1, not convex, its gradient vanishes at a maximum too."""
    return Problem(lambda theta: jnp.sum(1 - jnp.cos(theta)), (), jnp.asarray(start, float), L=1.0, minimum=0.0)


def _bells(dim, start):
    """The sum of 1 - exp(-theta^2 / 2): L = 1, bounded, not convex."""
    return Problem(
        lambda theta: jnp.sum(-jnp.expm1(-(theta**2) / 2)),
        (),
        jnp.full(dim, start),
        L=jnp.ones(()),
        minimum=jnp.zeros(()),
    )


@claim(rows=("B05.29", "B05.30", "T02.26", "T02.27"))
def average_gradient(key, *, steps: Count = 2500, runs: Count = 512, n: Size = 30, dim: Size = 5):
    r"""Without convexity the average squared gradient falls like one over the root of the number of steps.

    Let $f$ be $L$-smooth and bounded below, the gradients unbiased with $\mathbb E\|g\|^2\le\sigma^2$, the step
    constant. Then
    $$\min_{s<K}\mathbb E\|\nabla f(\theta_s)\|^2\le\frac1K\sum_{s<K}\mathbb E\|\nabla
    f(\theta_s)\|^2\le\frac{f(\theta_0)-f^*}{\eta K}+\frac{L\eta\sigma^2}2.$$ With
    $\eta=\sqrt{\frac{2(f(\theta_0)-f^*)}{L\sigma^2K}}$ the right side is $\sigma\sqrt{2L(f(\theta_0)-f^*)/K}$ (B, Theorem
    41), the least over all $\eta$; with $\eta=\sqrt{\frac{f(\theta_0)-f^*}{L\sigma^2K}}$ it is
    $\frac32\sigma\sqrt{L(f(\theta_0)-f^*)/K}$, printed with 2 (T, Theorem 2.5.2). The constant of B cannot be improved:
    on $\frac L2\theta^2$ from $\sigma/L$ with gradients $\pm\sigma$ it is attained up to $\frac1{4\sqrt K}$. The average
    is also what an iterate drawn at random has; the last one need not.
    """
    L, sigma = 2.0, 1.5

    @jax.jit
    def measure(key):
        data_key, run_key = jax.random.split(key)
        line = walk(L, sigma)
        gap = line(line.start)
        best = rates.sgd.nonconvex_step(L, sigma, gap, steps)

        def square(problem, eta, steps):
            def one(key):
                return minimize(problem, optax.sgd(eta), steps=steps, key=key).gradient_norm[:-1] ** 2

            return jax.vmap(one)(jax.random.split(run_key, runs))

        tight = square(line, best, steps)
        x, y, _ = regression(data_key, n, dim)
        x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
        sums = sigmoid_sum(x, jnp.sign(y))
        horizon = 400
        start = sums(sums.start)
        eta = rates.sgd.nonconvex_step(sums.L, 0.25, start, horizon)
        found = square(sums, jnp.stack([eta, eta / 2**0.5])[0], horizon).mean(0)
        shorter = square(sums, eta / 2**0.5, horizon).mean(0)
        fixed = square(line, 0.5 / L, steps)
        return tight, found, shorter, sums.L, start, gap, fixed

    tight, found, shorter, top, start, gap, fixed = measure(key)
    bound = rates.sgd.nonconvex(L, sigma, gap, steps)
    # exactly: the second moment m of the walk follows m <- (1 - 2 eta L) m + (eta sigma)^2
    eta = float(rates.sgd.nonconvex_step(L, sigma, gap, steps))
    m, total = (sigma / L) ** 2, 0.0
    rest = eta * sigma**2 / (2 * L)
    fade = (1 - 2 * eta * L) ** np.arange(steps)
    total = L**2 * np.mean(rest + (m - rest) * fade)
    yield at_most("the walk: exact average", total, bound)
    yield at_least("the walk: exact average, within 1 % of the bound", total, 0.99 * bound)
    yield estimate("the walk: average over runs", tight.mean(1), total, wrong=0.9 * total)
    yield at_most(
        "sigmoid loss: average, step of B", found.mean(), rates.sgd.nonconvex(top, 0.25, start, found.shape[0])
    )
    yield at_most("sigmoid loss: least, step of B", found.min(), rates.sgd.nonconvex(top, 0.25, start, found.shape[0]))
    root = jnp.sqrt(start * top * 0.25**2 / found.shape[0])
    yield at_most("sigmoid loss: average, step of T, constant 3/2", shorter.mean(), 1.5 * root)
    yield equal(
        "bound at the step of T",
        rates.sgd.nonconvex(top, 0.25, start, 400, step=jnp.sqrt(start / (top * 0.25**2 * 400))),
        1.5 * root,
    )
    many = eta * np.geomspace(0.2, 5, 41)
    least = rates.sgd.nonconvex(L, sigma, gap, steps, step=many)
    yield at_least("bound over all steps", least, bound)
    drawn = np.asarray(tight)[np.arange(runs), np.random.default_rng(0).integers(steps, size=runs)]
    yield estimate("the walk: iterate drawn at random", drawn, total, wrong=3 * total)
    rises = np.diff(np.asarray(tight)[:, steps // 2 :], axis=1) > 0
    yield at_least("the walk: share of rising steps, second half", rises.mean(), 0.3)
    yield control("a step that does not fall with K", at_most("the walk: average", fixed.mean(), bound))


@claim(rows=("M18.15", "T02.28"))
def constant_step(key, *, grid: Size = 128, steps: Count = 2000, spread: Positive = 0.7, runs: Count = 512):
    r"""With a constant step the average squared gradient falls to a floor proportional to the step and to 1/batch.

    Let $f$ be $L$-smooth and bounded below, the gradients unbiased with $\mathbb E\|g\|^2\le\kappa_1+\kappa_2\|\nabla
    f\|^2$ and $\eta\le\frac1{L\kappa_2}$. Then $\frac1K\sum_{s<K}\mathbb E\|\nabla f(\theta_s)\|^2\le\eta
    L\kappa_1+\frac{2(f(\theta_0)-f^*)}{\eta K}$ (M, Lemma 18.8). With variance $\gamma_1^2$ and batches of $B$,
    $\kappa_1=\gamma_1^2/B$, $\kappa_2=1$ (T, Problem 2.5.3): $\epsilon^2$ is reached with
    $K=O(\frac1{\epsilon^2}+\frac{\gamma_1^2}{B\epsilon^4})$. At $\eta=\frac1L$ it is attained on a quadratic line up to
    $\frac1K$. Measured on a circle with $f=-\cos$ from all starts at once, without sampling.
    """
    etas = (0.1, 0.5, 1.0)
    angles = circle_grid(grid)
    n = jnp.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        def averages(eta, spread):
            matrix = transition(jnp.sin, lambda t: spread + 0 * t, eta, grid)

            def advance(values, _):
                return matrix @ values, values

            return jnp.cumsum(jax.lax.scan(advance, jnp.sin(angles) ** 2, length=steps)[1], axis=0) / n[:, None]

        exact = jax.vmap(averages)(jnp.array(etas), jnp.full(3, spread))
        far = averages(2.5, 0.1)
        problem = coin(_circle(angles[grid // 3]), spread)
        sampled = jax.vmap(lambda k: minimize(problem, optax.sgd(0.5), steps=60, key=k).gradient_norm[:-1] ** 2)(
            jax.random.split(key, runs)
        )
        return exact, far, sampled.mean(1), exact[1, 59, grid // 3]

    exact, far, sampled, predicted = measure(key)
    gap = 1 - jnp.cos(angles)
    bounds = jnp.stack([rates.sgd.nonconvex_variance(1.0, gap, n[:, None], kappa1=spread**2, step=eta) for eta in etas])
    # the grid resolves a step of 0.1 to eight digits, one of 1 to five
    worst = jnp.argmax((exact - bounds).max(1), axis=1)
    rows = jnp.arange(3)
    yield at_most("circle, all starts", exact.max(1), 1 + 0 * exact.max(1))
    yield at_most("circle, the start that comes closest", exact[rows, :, worst], bounds[rows, :, worst], along="step")
    yield at_most("circle, largest excess over all starts", (exact - bounds).max(), 0.0)
    yield estimate("circle, runs", sampled, predicted, wrong=0.7 * float(predicted))
    floor = exact[:, -1].max(1)
    yield monotone("circle, floor against the step", floor, "increasing", strict=True, x=np.array(etas))
    # a line with curvature 1, noise variance 1, step 1: the squared gradient is 1 from the second iterate on
    line = (1 + (n - 1)) / n
    yield at_least(
        "line at the step 1/L: within 1 % of the bound",
        line[200:],
        0.99 * rates.sgd.nonconvex_variance(1.0, 0.5, n[200:], kappa1=1.0),
    )
    yield at_most("line at the step 1/L", line, rates.sgd.nonconvex_variance(1.0, 0.5, n, kappa1=1.0))
    accuracies = np.geomspace(1e-3, 1e-2, 8)
    noisy_regime, _ = rates.sgd.batch_iterations(1.0, 1.0, 1.0, accuracies, 1.0)
    large, _ = rates.sgd.batch_iterations(1.0, 1.0, 1.0, accuracies, 1e8)
    yield rate("steps to an accuracy, batch of one", accuracies, noisy_regime, -4.0, tolerance=0.05)
    yield rate("steps to an accuracy, huge batch", accuracies, large, -2.0, tolerance=0.05)
    over = rates.sgd.nonconvex_variance(1.0, gap, n[:, None], kappa1=0.01, step=1.0)
    yield control("a step of 2.5/L", at_most("circle, all starts at the end", far[-1], over[-1]))


@claim(rows=("T02.28",))
def batch_speedup(key, *, runs: Count = 512, variance: Positive = 1.0):
    r"""A batch of B reaches the same accuracy in one Bth of the steps, until noise no longer matters.

    $f=\frac12\|\theta\|^2$ with noise variance $\gamma_1^2/B$, $L=1$, and the step of T, Problem 2.5.3,
    $\eta=\min\{\frac1L,\frac{B\epsilon^2}{2L\gamma_1^2}\}$: after $K=\frac{4(f(\theta_0)-f^*)}{\eta\epsilon^2}$ steps the
    average squared gradient is at most $\epsilon^2$. Where noise prevails $KB$ does not depend on $B$.
    """
    batches = np.array([1, 2, 4, 8])
    accuracy, gap = 0.5, 0.5
    counts, etas = rates.sgd.batch_iterations(1.0, variance, gap, accuracy, batches)

    @jax.jit
    def measure(key):
        def average(eta, count, batch):
            def one(key):
                problem = coin(Problem(lambda t: 0.5 * jnp.sum(t**2), (), jnp.ones(1)), 0.0)
                spread = jnp.sqrt(variance / batch)

                def advance(state, inputs):
                    k, key = inputs
                    theta, total = state
                    g = problem.gradient(theta)
                    total = total + jnp.where(k < count, jnp.sum(g**2), 0.0)
                    return (theta - eta * (g + spread * jax.random.rademacher(key, (1,), float)), total), None

                longest = int(np.ceil(float(counts.max())))
                inputs = jnp.arange(longest), jax.random.split(key, longest)
                return jax.lax.scan(advance, (problem.start, 0.0), inputs)[0][1] / count

            return jax.vmap(one)(jax.random.split(key, runs))

        return jax.vmap(average)(etas, jnp.ceil(counts), jnp.asarray(batches, float))

    found = np.asarray(measure(key))
    high = found.mean(1) + 5 * found.std(1) / runs**0.5
    yield at_most("average squared gradient, all batches", high, accuracy**2, x=batches, along="batch")
    yield equal("steps times batch", counts * batches, float(counts[0]), rtol=1e-9, x=batches, along="batch")


@claim(rows=("M18.16", "M18.17"))
def decreasing_steps(key, *, starts: Count = 5, runs: Count = 512, steps: Count = 3000, spread: Positive = 0.7):
    r"""With steps that sum to infinity and whose squares do not, the gradient vanishes in the mean.

    In the setting of the constant step let all $\eta_m\le\frac1{L\kappa_2}$. Then $\sum_{m\le k}\eta_m\mathbb E\|\nabla
    f(\theta_m)\|^2\le2(f(\theta_1)-f^*)+L\kappa_1\sum_{m\le k}\eta_m^2$ (Lemma 18.9). If $\sum\eta_m=\infty$ and
    $\sum\eta_m^2<\infty$, the average weighted by the steps tends to 0, and so does $\liminf\mathbb E\|\nabla
    f(\theta_k)\|^2$ (Theorem 18.10). Measured for $f=1-\cos$ with noise $\pm0.7$ from several starts, the maximum among
    them.
    """
    schedules = {
        "2/(5+k)": inverse_time(2.0, 5.0),
        "constant": lambda count: 0.5 + 0.0 * count,
        "1/k^2": inverse_power(1.0, 2.0),
        "k^(-1/4)": inverse_power(1.0, 0.25),
    }
    at = np.array([99, steps // 5, steps - 1])

    @jax.jit
    def measure(key):
        angles = jnp.linspace(0.3, jnp.pi, starts)

        def run(etas, start, key):
            def advance(theta, inputs):
                eta, key = inputs
                slope = jnp.sin(theta)
                return theta - eta * (slope + spread * jax.random.rademacher(key, (runs,), float)), jnp.mean(slope**2)

            return jax.lax.scan(advance, jnp.full(runs, start), (etas, jax.random.split(key, steps)))[1]

        etas = jnp.stack([step_sizes(s, steps) for s in schedules.values()])
        return jax.vmap(lambda e: jax.vmap(run, (None, 0, None))(e, angles, key))(etas), etas, 1 - jnp.cos(angles)

    square, etas, gap = measure(key)
    falling, fixed, short, _ = square
    sums = jnp.cumsum(etas[0] * falling, axis=1)
    bounds = jnp.stack([rates.sgd.weighted_sum(1.0, g, etas[0], kappa1=spread**2) for g in gap])
    # each mean of 512 values in [0, 1] is off by at most 5 / (2 sqrt(512)), and the sum of independent ones by less;
    # the runs share their coins over the starts only
    error = 5 * 0.5 / runs**0.5 * jnp.sqrt(jnp.cumsum(etas[0] ** 2))
    yield at_most("weighted sum of squared gradients", sums[:, 1:] + error[1:], bounds[:, 1:], along="step")
    weighted = (sums / jnp.cumsum(etas[0]))[:, at]
    yield monotone("weighted average, steps 2/(5+k)", weighted, "decreasing", x=at + 1, along="step")
    yield monotone("mean squared gradient, worst start", falling[:, at].max(0), "decreasing", x=at + 1, along="step")
    yield at_most("mean squared gradient at the end, steps 2/(5+k)", falling[:, -1], 2e-3)
    yield at_least("constant step: mean squared gradient at the end", fixed[:, -1], 0.1)
    yield control("steps 1/k^2: sum is finite", at_most("squared gradient, some start", short[:, -1].max(), 2e-3))
    yield control("constant step: squares are not summable", at_most("squared gradient", fixed[:, -1], 2e-3))


@claim(rows=("M18.19",))
def almost_sure(key, *, dim: Size = 5, runs: Count = 512, steps: Count = 8000):
    r"""With such steps the gradient vanishes along almost every path.

    $\nabla f$ Lipschitz and bounded, $f$ bounded, $\sum\eta_k=\infty$, $\sum\eta_k^2<\infty$, and (missing in M) unbiased
    noise with $\mathbb E\|R_k\|^2\le A(1+\|\nabla f\|^2)$: $\|\nabla f(\theta_k)\|\to0$ almost surely (Theorem 18.11). For
    $f=\sum(1-\cos\theta_i)$ and noise $\pm1$: the largest gradient in the last part of the path falls with the length,
    in 99 of 100 paths. A constant step keeps it up; $\eta_k=k^{-2}$ freezes it.
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


@claim(rows=("T02.27",))
def noise_ball(key, *, dim: Size = 5, runs: Count = 256, sigma: Positive = 0.5):
    r"""On a bounded function the average squared gradient at the best step falls with the root of the steps.

    $f=\sum(1-e^{-\theta_i^2/2})$ ($L=1$) with normal noise of variance $\gamma^2$ (of the norm), started near the minimum:
    with $\eta=\sqrt{\frac{f(\theta_0)-f^*}{LS^2K}}$, $S^2\ge\gamma^2+\sup\|\nabla f\|^2$, the average over $K$ steps stays
    below $\frac32S\sqrt{L(f(\theta_0)-f^*)/K}$ for every $K$ and falls like $K^{-1/2}$.
    """
    horizons = np.array([100, 400, 1600])
    # a coordinate's gradient t exp(-t^2 / 2) is at most exp(-1/2)
    second = sigma**2 + dim * np.exp(-1.0)

    @jax.jit
    def measure(key):
        problem = noisy(_bells(dim, 1.0), sigma)
        gap = problem(problem.start)

        def average(count):
            eta = jnp.sqrt(gap / (second * count))

            def one(key):
                path = minimize(problem, optax.sgd(eta), steps=int(horizons[-1]), key=key).gradient_norm[:-1] ** 2
                return jnp.sum(jnp.where(jnp.arange(path.shape[0]) < count, path, 0.0)) / count

            return jax.vmap(one)(jax.random.split(key, runs))

        return jax.lax.map(average, jnp.asarray(horizons, float)), gap

    found, gap = measure(key)
    high = found.mean(1) + 5 * found.std(1) / runs**0.5
    bound = 1.5 * jnp.sqrt(gap * second / horizons)
    yield at_most("average squared gradient, constant 3/2", high, bound, x=horizons, along="steps")
    yield at_most("average squared gradient, constant 2 as printed", high, 2 * bound / 1.5, x=horizons, along="steps")
    yield control(
        "a bound that falls like 1/K", at_most("average", found.mean(1), bound[0] * horizons[0] / horizons / 4)
    )
