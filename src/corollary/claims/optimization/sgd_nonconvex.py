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
    minimize,
    noisy,
    quadratic_moments,
    random_iterate,
    rates,
    sigmoid_sum,
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
    $\eta=\sqrt{\frac{2(f(\theta_0)-f^*)}{L\sigma^2K}}$ the right side is $\sigma\sqrt{2L(f(\theta_0)-f^*)/K}$ (B,
    Theorem 41), the least over all $\eta$; with $\eta=\sqrt{\frac{f(\theta_0)-f^*}{L\sigma^2K}}$ it is
    $\frac32\sigma\sqrt{L(f(\theta_0)-f^*)/K}$, printed with 2 (T, Theorem 2.5.2). The constant of B cannot be improved:
    on $\frac L2\theta^2$ from $\sigma/L$ with gradients $\pm\sigma$ it is attained up to $\frac1{4\sqrt K}$. The
    average is also what an iterate drawn at random has; the last one need not.
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
                path = minimize(problem, optax.sgd(eta), steps=steps, key=key)
                drawn = random_iterate(path, jax.random.fold_in(key, steps))
                return path.gradient_norm[:-1] ** 2, jnp.sum(problem.gradient(drawn) ** 2)

            return jax.vmap(one)(jax.random.split(run_key, runs))

        x, y, _ = regression(data_key, n, dim)
        sums = sigmoid_sum(x / jnp.linalg.norm(x, axis=1, keepdims=True), jnp.sign(y))
        horizon, start = 400, sums(sums.start)
        eta = rates.sgd.nonconvex_step(sums.L, 0.25, start, horizon)
        walks, drawn = jax.vmap(lambda eta: square(line, eta, steps))(jnp.stack([best, 0.5 / line.L]))
        found, shorter = jax.vmap(lambda eta: square(sums, eta, horizon)[0])(jnp.stack([eta, eta / 2**0.5]))
        return walks[0], drawn[0], found, shorter, sums.L, start, gap, walks[1].mean()

    tight, drawn, found, shorter, top, start, gap, fixed = measure(key)
    bound = rates.sgd.nonconvex(L, sigma, gap, steps)
    # exactly: the second moment m of the walk follows m <- (1 - 2 eta L) m + (eta sigma)^2
    eta = float(rates.sgd.nonconvex_step(L, sigma, gap, steps))
    m, rest = (sigma / L) ** 2, eta * sigma**2 / (2 * L)
    fade = (1 - 2 * eta * L) ** np.arange(steps)
    total = L**2 * np.mean(rest + (m - rest) * fade)
    yield at_most("the walk: exact average", total, bound)
    yield at_least("the walk: exact average, within 1 % of the bound", total, 0.99 * bound)
    yield estimate("the walk: average over runs", tight.mean(1), total, wrong=0.9 * total)
    # of independent runs: mean plus five standard errors
    high, other = (a.mean() + 5 * a.mean(1).std() / runs**0.5 for a in (found, shorter))
    horizon = found.shape[1]
    yield at_most("sigmoid loss: average, step of B", high, rates.sgd.nonconvex(top, 0.25, start, horizon))
    least = found.mean(0) + 5 * found.std(0) / runs**0.5
    yield at_most("sigmoid loss: least, step of B", least.min(), rates.sgd.nonconvex(top, 0.25, start, horizon))
    root = jnp.sqrt(start * top * 0.25**2 / horizon)
    yield at_most("sigmoid loss: average, step of T, constant 3/2", other, 1.5 * root)
    yield equal(
        "bound at the step of T",
        rates.sgd.nonconvex(top, 0.25, start, horizon, step=jnp.sqrt(start / (top * 0.25**2 * horizon))),
        1.5 * root,
    )
    many = eta * np.geomspace(0.2, 5, 41)
    least = rates.sgd.nonconvex(L, sigma, gap, steps, step=many)
    yield at_least("bound over all steps", least, bound)
    yield estimate("the walk: iterate drawn at random", drawn, total, wrong=3 * total)
    rises = np.diff(np.asarray(tight)[:, steps // 2 :], axis=1) > 0
    yield at_least("the walk: share of rising steps, second half", rises.mean(), 0.3)
    yield control("a step that does not fall with K", at_most("the walk: average", fixed, bound))


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
    yield at_most("circle, no average above the largest value", exact.max(1), 1.0)
    yield at_most("circle, the start that comes closest", exact[rows, :, worst], bounds[rows, :, worst], along="step")
    yield at_most("circle, largest excess over all starts", (exact - bounds).max(), 0.0)
    yield estimate("circle, runs", sampled, predicted, wrong=0.7 * float(predicted))
    floor = exact[:, -1].max(1)
    yield monotone("circle, floor against the step", floor, "increasing", strict=True, x=np.array(etas))
    # a line with curvature 1, noise variance 1, step 1: the squared gradient is 1 from the second iterate on
    still = quadratic_moments(jnp.ones(1), jnp.ones(1), jnp.ones(1), jnp.ones(steps - 1))
    line = jnp.cumsum((still.mean**2 + still.variance)[:, 0]) / n
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

    $f=\frac12\theta^2$ on the line with noise variance $\gamma_1^2/B$, $L=1$, and the step of T, Problem 2.5.3,
    $\eta=\min\{\frac1L,\frac{B\epsilon^2}{2L\gamma_1^2}\}$: after $K=\frac{4(f(\theta_0)-f^*)}{\eta\epsilon^2}$ steps
    the average squared gradient is at most $\epsilon^2$. Where noise prevails $KB$ does not depend on $B$.
    """
    batches = np.array([1, 2, 4, 8])
    accuracy, gap = 0.5, 0.5
    counts, etas = rates.sgd.batch_iterations(1.0, variance, gap, accuracy, batches)

    longest = int(np.ceil(np.asarray(counts).max()))

    @jax.jit
    def measure(key, etas, counts, variances):
        def average(eta, count, variance):
            def one(key):
                def advance(state, inputs):
                    k, key = inputs
                    theta, total = state
                    noise = jnp.sqrt(variance) * jax.random.rademacher(key, (), float)
                    total = total + jnp.where(k < count, theta**2, 0.0)
                    return (theta - eta * (theta + noise), total), None

                inputs = jnp.arange(longest), jax.random.split(key, longest)
                return jax.lax.scan(advance, (1.0, 0.0), inputs)[0][1] / count

            return jax.vmap(one)(jax.random.split(key, runs))

        return jax.vmap(average)(etas, counts, variances)

    # the last row has the step for a batch of eight and the noise of one
    rows = np.array([0, 1, 2, 3, 3])
    used = variance / np.array([1.0, 2.0, 4.0, 8.0, 1.0])
    found = np.asarray(measure(key, etas[rows], jnp.ceil(counts)[rows], used))
    high = found.mean(1) + 5 * found.std(1) / runs**0.5
    yield at_most("average squared gradient, all batches", high[:4], accuracy**2, x=batches, along="batch")
    yield equal("steps times batch", counts * batches, float(counts[0]), rtol=1e-9, x=batches, along="batch")
    yield control("a batch of one taken for eight", at_most("average squared gradient", found[4].mean(), accuracy**2))


@claim(rows=("T02.27",))
def bounded_function(key, *, dim: Size = 5, runs: Count = 256, sigma: Positive = 1.5):
    r"""On a bounded function that is not convex the average squared gradient falls with the root of the steps.

    $f=\sum(1-e^{-\theta_i^2/2})$ ($L=1$) with normal noise of variance $\gamma^2$: with
    $\eta=\sqrt{\frac{f(\theta_0)-f^*}{LS^2K}}$, $S^2\ge\gamma^2+\sup\|\nabla f\|^2$, the average over $K$ steps is at
    most $\frac32S\sqrt{L(f(\theta_0)-f^*)/K}$ for every $K$ (T, Theorem 2.5.2, which prints 2).
    """
    horizons = np.array([100, 300, 900])
    # a coordinate's gradient t exp(-t^2 / 2) is at most exp(-1/2)
    second = sigma**2 + dim * np.exp(-1.0)

    @jax.jit
    def measure(key):
        problem = noisy(_bells(dim, 1.0), sigma)
        gap = problem(problem.start)

        def average(pair):
            count, eta = pair

            def one(key):
                path = minimize(problem, optax.sgd(eta), steps=int(horizons[-1]), key=key).gradient_norm[:-1] ** 2
                return jnp.sum(jnp.where(jnp.arange(path.shape[0]) < count, path, 0.0)) / count

            return jax.vmap(one)(jax.random.split(key, runs))

        counts = jnp.asarray([*horizons, horizons[-1]], float)
        etas = jnp.sqrt(gap / (second * counts)).at[-1].set(1.0)
        return jax.lax.map(average, (counts, etas)), gap

    found, gap = measure(key)
    high = found.mean(1) + 5 * found.std(1) / runs**0.5
    bound = 1.5 * jnp.sqrt(gap * second / horizons)
    yield at_most("average squared gradient, constant 3/2", high[:-1], bound, x=horizons, along="steps")
    yield at_most("average squared gradient, constant 2", high[:-1], 2 / 1.5 * bound, x=horizons, along="steps")
    yield control("a step of 1/L for all horizons", at_most("average squared gradient", found[-1].mean(), bound[-1]))
