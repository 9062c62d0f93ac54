"""Stochastic gradient descent without convexity: small gradients on average, and in the limit."""

from functools import partial

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
    average is also what an iterate drawn at random has; the last one need not. (B: "the only way to exactly converge
    would be to ensure that the variance decreases to zero"; so it is for the constant step of the theorem, and steps
    that decrease, which B names before, are another way.)
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
                drawn = random_iterate(path, key=jax.random.fold_in(key, steps))
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
    $\kappa_1=\gamma_1^2/B$, $\kappa_2=1$ (T, Problem 2.5.3). At $\eta=\frac1L$ it is attained on a quadratic line up to
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
    over = rates.sgd.nonconvex_variance(1.0, gap, n[:, None], kappa1=0.01, step=1.0)
    yield control("a step of 2.5/L", at_most("circle, all starts at the end", far[-1], over[-1]))


@claim(rows=("T02.28",))
def batch_speedup(key, *, runs: Count = 512, variance: Positive = 1.0):
    r"""A batch of B reaches the same accuracy in one Bth of the steps, until noise no longer matters.

    $f=\frac12\theta^2$ on the line with noise variance $\gamma_1^2/B$, $L=1$, and the step of T, Problem 2.5.3,
    $\eta=\min\{\frac1L,\frac{B\epsilon^2}{2L\gamma_1^2}\}$: after $K=\frac{4(f(\theta_0)-f^*)}{\eta\epsilon^2}$ steps,
    which is $O(\frac1{\epsilon^2}+\frac{\gamma_1^2}{B\epsilon^4})$, the average squared gradient is at most
    $\epsilon^2$. The number of steps that it takes goes like $\epsilon^{-4}$ where noise prevails, and times $B$ does
    not depend on $B$; for a huge batch like $\epsilon^{-2}$. (These from the exact moments, the first from runs.)
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
    fine = np.concatenate([np.geomspace(0.15, 0.5, 8), [0.15, 0.15], np.geomspace(0.02, 0.1, 8)])
    sizes = np.repeat([1.0, 2.0, 4.0, 1e6], [8, 1, 1, 8])
    needed = np.asarray(_steps_needed(sizes, fine, variance, gap))
    allowed = rates.sgd.batch_iterations(1.0, variance, gap, fine, sizes)[0]
    yield at_most("steps that it takes", needed, np.ceil(allowed))
    # corrections of the order of the step, which is 0.045 for a batch of four
    yield equal("steps times batch over those of one", needed[8:10] * np.array([2, 4]) / needed[0], 1.0, rtol=0.1)
    yield rate("steps, batch of one", fine[:8], needed[:8], -4.0, tolerance=0.1, along="accuracy")
    yield rate("steps, huge batch", fine[10:], needed[10:], -2.0, tolerance=0.1, along="accuracy")
    yield control("a batch of one taken for eight", at_most("average squared gradient", found[4].mean(), accuracy**2))


@partial(jax.jit, static_argnames=("gap", "horizon"))
def _steps_needed(batches, accuracies, variance, gap, horizon=12_000):
    """For each batch and its accuracy: after how many steps the exact average squared gradient is small enough."""

    def one(batch, accuracy):
        eta = rates.sgd.batch_iterations(1.0, variance, gap, accuracy, batch)[1]
        start = jnp.full(1, (2 * gap) ** 0.5)
        law = quadratic_moments(jnp.ones(1), jnp.full(1, variance / batch), start, jnp.full(horizon, eta))
        average = jnp.cumsum((law.mean**2 + law.variance)[:, 0]) / jnp.arange(1, horizon + 2)
        return jnp.argmax(average <= accuracy**2) + 1

    return jax.vmap(one)(jnp.asarray(batches), jnp.asarray(accuracies))


@claim(rows=("T02.27",), full={"longest": 100_000})
def bounded_function(key, *, dim: Size = 5, runs: Count = 256, sigma: Positive = 1.5, longest: Count = 2_000):
    r"""On a bounded function that is not convex the average squared gradient falls with the root of the steps.

    $f=\sum(1-e^{-\theta_i^2/2})$ and $f=\sum(1-\cos\theta_i)$ ($L=1$) with normal noise of variance $\gamma^2$: with
    $\eta=\sqrt{\frac{f(\theta_0)-f^*}{LS^2T}}$, $S^2\ge\gamma^2+\sup\|\nabla f\|^2$, the average over $T$ steps is at
    most $\frac32S\sqrt{L(f(\theta_0)-f^*)/T}$ for every $T$ (T, Theorem 2.5.2, which prints 2). Near a minimum with
    curvature $L$ little is lost in the proof: the average is
    $\frac{f(\theta_0)-f^*}{\eta T}+\frac{\eta L\gamma^2}2$ up to a relative error of the order of $\eta$, so that the
    slope is $-\frac12$ and the constant is known. With noise of infinite variance (Student, 1.5 degrees of freedom) the
    slope is about $-\frac14$, since the stationary spread goes with $\eta^{1/2}$; with one step for all $T$ there is a
    floor.
    """
    horizons = np.unique(np.geomspace(100, longest, 5).astype(int))
    # a coordinate's gradient is at most exp(-1/2) for the bells and 1 for the cosine
    peaks = np.array([np.exp(-1.0), 1.0])
    second = sigma**2 + dim * peaks
    # bells, bells with one step for all horizons, cosines, cosines with heavy tails
    kinds, tails = np.array([0, 0, 1, 1]), np.array([False, False, False, True])

    @jax.jit
    def measure(key):
        def slope(theta):
            bells, cosines = theta[:, :, :2], theta[:, :, 2:]
            return jnp.concatenate([bells * jnp.exp(-(bells**2) / 2), jnp.sin(cosines)], axis=2)

        gaps = dim * jnp.stack([-jnp.expm1(-0.5), 1 - jnp.cos(1.0)])
        etas = jnp.sqrt(gaps[kinds] / second[kinds] / horizons[:, None]).at[:, 1].set(0.2)

        def draw(key, shape):
            """Normal noise, and by Bailey's polar method that of Student, from the same two numbers."""
            u, v = jax.random.uniform(key, (2, *shape), minval=1e-12)
            turn = jnp.cos(2 * jnp.pi * v)
            student = jnp.sqrt(1.5 * (u ** (-2 / 1.5) - 1)) * turn
            return jnp.sqrt(-2 * jnp.log(u)) * turn, student

        def advance(state, inputs):
            theta, total = state
            k, key = inputs
            gradient = slope(theta)
            total = total + jnp.where(k < horizons[:, None], jnp.sum(gradient**2, axis=-1), 0.0)
            normal, student = draw(key, (runs, 1, 1, dim))
            noise = sigma / dim**0.5 * jnp.where(tails[:, None], student, normal)
            return (theta - etas[..., None] * (gradient + noise), total), None

        shape = (runs, len(horizons), len(kinds))
        steps = jnp.arange(horizons[-1]), jax.random.split(key, horizons[-1])
        (_, total), _ = jax.lax.scan(advance, (jnp.ones((*shape, dim)), jnp.zeros(shape)), steps)
        return total / horizons[:, None], gaps, etas

    found, gaps, etas = (np.asarray(a) for a in measure(key))
    mean, error = found.mean(0), found.std(0) / runs**0.5
    for i, name in ((0, "bells"), (2, "cosines")):
        gap = gaps[kinds[i]]
        root = np.sqrt(gap * second[kinds[i]] / horizons)
        high = mean[:, i] + 5 * error[:, i]
        yield at_most(f"{name}: average squared gradient, constant 3/2", high, 1.5 * root, x=horizons, along="steps")
        yield at_most(f"{name}: average squared gradient, constant 2", high, 2 * root, x=horizons, along="steps")
        predicted = gap / (etas[:, i] * horizons) + etas[:, i] * sigma**2 / 2
        yield equal(f"{name}: average over the constant predicted", mean[:, i] / predicted, 1.0, rtol=0.1, x=horizons)
        yield rate(f"{name}: average squared gradient", horizons, mean[:, i], -0.5, tolerance=0.07, along="steps")
    slope = {"tolerance": 0.07, "along": "steps"}
    yield control("noise of infinite variance", rate("cosines: average", horizons, mean[:, 3], -0.5, **slope))
    yield control("one step for all horizons", rate("bells: average", horizons, mean[:, 1], -0.5, **slope))
    bound = 1.5 * np.sqrt(gaps[0] * second[0] / horizons)
    yield control("one step for all horizons", at_most("bells: average", mean[:, 1], bound, x=horizons, along="steps"))
