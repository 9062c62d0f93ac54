"""Stochastic gradient descent on strongly convex functions: constant and decreasing steps, batches, averages."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims.optimization._regression import regression
from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, equal, estimate, printed, rate
from corollary.optimization import (
    averaged,
    averaged_error,
    batch_constants,
    coin,
    expected_value,
    inverse_time,
    least_growth,
    least_squares_moments,
    least_squares_sum,
    minimize,
    noise_constants,
    quadratic,
    quadratic_moments,
    rates,
    sgd,
    stationary_value,
    step_sizes,
)


@claim(rows=("M18.12",))
def constant_step(key, *, dim: Size = 8, instances: Count = 30, steps: Count = 400, runs: Count = 400):
    r"""With a constant step the expected value falls geometrically to a floor that is proportional to the step.

    Let $f$ be $L$-smooth and $\gamma$-strongly convex, gradients unbiased with $\mathbb
    E\|g\|^2\le\kappa_1+\kappa_2\|\nabla f\|^2$, $\kappa_2\ge1$, and $0<\eta\le\frac1{L\kappa_2}$. Then $\mathbb
    Ef(\theta_k)-f^*\le F+(1-\eta\gamma)^k(f(\theta_0)-f^*-F)$ with $F=\frac{\eta L\kappa_1}{2\gamma}$ (Lemma 18.6, the
    exponent put right). On the line at $\eta=\frac1L$ it is attained. Measured on quadratics, where the expectation is
    known exactly, and compared with runs.
    """
    ratios = jnp.array([0.05, 0.3, 1.0])
    k = jnp.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        spectrum_key, noise_key, start_key, run_key = jax.random.split(key, 4)
        spectra = 10.0 ** jax.random.uniform(spectrum_key, (instances, dim), minval=-1.5, maxval=0.5)
        noise = jax.random.exponential(noise_key, (instances, dim))
        starts = 3 * jax.random.normal(start_key, (instances, dim))

        def gap(spectrum, noise, start, ratio):
            etas = jnp.full(steps, ratio / spectrum.max())
            return expected_value(spectrum, quadratic_moments(spectrum, noise, start, etas))

        gaps = jax.vmap(jax.vmap(gap, (None, None, None, 0)), (0, 0, 0, None))(spectra, noise, starts, ratios)
        line = gap(jnp.ones(1) * 2, jnp.ones(1), jnp.ones(1), 1.0)
        far = gap(jnp.ones(1) * 2, jnp.ones(1), jnp.ones(1), 2.2)
        floors = jax.vmap(lambda e: stationary_value(jnp.array([0.5, 2.0]), jnp.ones(2), e))(2.0 ** -jnp.arange(2, 9))
        # the expectation itself, from runs: two coordinates, noise of variance 0.49 in each
        problem = coin(quadratic(jnp.array([0.5, 2.0]), jnp.array([2.0, -1.0])), 0.7)
        values = jax.vmap(lambda key: minimize(problem, optax.sgd(0.25), steps=40, key=key).value)(
            jax.random.split(run_key, runs)
        )
        moments = quadratic_moments(jnp.array([0.5, 2.0]), jnp.full(2, 0.49), problem.start, jnp.full(40, 0.25))
        exact = expected_value(jnp.array([0.5, 2.0]), moments)
        return spectra, noise, gaps, line, far, floors, values, exact

    spectra, noise, gaps, line, far, floors, values, exact = measure(key)
    L, mu, kappa1 = (a[:, None, None] for a in (spectra.max(1), spectra.min(1), noise.sum(1)))
    step = ratios[:, None] / L
    bounds = rates.sgd.strongly_convex(L, mu, gaps[..., :1], k, kappa1=kappa1, step=step)
    yield at_most("expected excess value, random quadratics", gaps[..., 1:], bounds, x=k, along="iteration")
    tight = rates.sgd.strongly_convex(2.0, 2.0, 1.0, k, kappa1=1.0)
    yield equal("on the line with the step 1/L: attained", line[1:], tight, rtol=1e-12, along="iteration")
    yield rate("floor against the step", 2.0 ** -jnp.arange(2, 9), floors, 1.0, tolerance=0.1, along="step")
    at = np.array([1, 5, 40])
    yield estimate("runs against the exact expectation", values[:, at], exact[at], wrong=0.7 * np.asarray(exact)[at])
    yield control("a step of 2.2/L", at_most("excess value on the line", far[1:], tight, along="iteration"))


@claim(
    rows=("M18.12",),
    erratum="Lemma 18.6 puts the value after k + 1 steps under the bound for k; a start below the floor refutes it.",
)
def constant_step_printed(key, *, dim: Size = 4):
    r"""As printed: with a constant step the value after k + 1 steps obeys the bound of step k.

    Lemma 18.6: $\mathbb E\Lambda(\theta_{k+1})-\Lambda^*\le F+(1-\eta\gamma)^k(\Lambda(\theta_0)-\Lambda^*-F)$ with
    $F=\frac{\eta L\kappa_1}{2\gamma}$. From $\theta_0=\theta^*$ with $k=0$ the right side is 0: the first step would
    not be allowed to raise the value, which noise always does. Corrected: the exponent is $k+1$.
    """
    spectrum = jnp.sort(jax.random.uniform(key, (dim,), minval=0.5, maxval=2.0))
    step = 0.5 / spectrum[-1]
    moments = quadratic_moments(spectrum, jnp.ones(dim), jnp.zeros(dim), jnp.full(5, step))
    k, values = jnp.arange(5), expected_value(spectrum, moments)[1:]

    def bound(exponent):
        return rates.sgd.strongly_convex(spectrum[-1], spectrum[0], 0.0, exponent, kappa1=float(dim), step=step)

    yield at_most("expected excess value after step k + 1, exponent k + 1", values, bound(k + 1), x=k, along="k")
    yield printed(at_most("expected excess value after step k + 1, exponent k", values, bound(k), x=k, along="k"))


@claim(rows=("M18.13",))
def decreasing_step(key, *, dim: Size = 6, instances: Count = 20, steps: Count = 3000):
    r"""With steps falling like 1/k the expected value falls like 1/k.

    In the setting of the constant step let $\eta_k=\frac{C_0}{C_1+k}$ with $\gamma C_0>1$, $C_1>0$,
    $\eta_1\le\frac1{L\kappa_2}$. For $k\ge1$, $\mathbb Ef(\theta_k)-f^*\le\frac\tau{C_1+k}$ with
    $\tau=\max\{\frac{C_0^2L\kappa_1}{2(\gamma C_0-1)},(C_1+1)(f(\theta_1)-f^*)\}$ (Lemma 18.7, start $\theta_1$). On
    the line with $C_0L=C_1+1$, where only noise is left after the first step, it is attained at $k=2$ up to
    $(C_0L)^{-2}$. The condition on $C_0$ matters: on a quadratic with $\gamma C_0<\frac12$ the slope is only
    $-2\gamma C_0$.
    """
    k = jnp.arange(1, steps + 2)

    @jax.jit
    def measure(key):
        spectrum_key, noise_key, start_key = jax.random.split(key, 3)
        spectra = 10.0 ** jax.random.uniform(spectrum_key, (instances, dim), minval=-1.0, maxval=0.0)
        noise = jax.random.exponential(noise_key, (instances, dim))
        starts = 2 * jax.random.normal(start_key, (instances, dim))

        def gap(spectrum, noise, start, c0, c1):
            etas = step_sizes(inverse_time(c0, c1), steps)
            return expected_value(spectrum, quadratic_moments(spectrum, noise, start, etas))

        c0 = 2 / spectra.min(1)
        c1 = c0 * spectra.max(1)
        slow = jnp.array([0.2, 0.3, 0.4])
        return (
            (spectra, noise, c0, c1),
            jax.vmap(gap)(spectra, noise, starts, c0, c1),
            jax.vmap(lambda c: gap(jnp.ones(1), jnp.ones(1), jnp.ones(1), c, 1.0))(slow),
            gap(jnp.ones(1), jnp.ones(1), jnp.zeros(1), 20.0, 19.0),
        )

    (spectra, noise, c0, c1), gaps, slow, line = measure(key)
    L, mu, kappa1 = (a[:, None] for a in (spectra.max(1), spectra.min(1), noise.sum(1)))
    bounds = rates.sgd.strongly_convex_decreasing(L, mu, gaps[:, :1], k, kappa1=kappa1, c0=c0[:, None], c1=c1[:, None])
    yield at_most("expected excess value, random quadratics", gaps[:, 1:], bounds[:, 1:], x=k[1:], along="iteration")
    tight = rates.sgd.strongly_convex_decreasing(1.0, 1.0, 0.0, k, kappa1=1.0, c0=20.0, c1=19.0)
    yield at_most("on the line", line[1:], tight[1:], x=k[1:], along="iteration")
    yield at_least("on the line after the first step: share of the bound", line[1] / tight[1], 0.99)
    late = slice(steps // 3, None, 50)
    # k + C1 is what the bound falls with; C1 is a few tens
    yield rate("slope of one of them", k[late] + c1[0], gaps[0, late], -1.0, tolerance=0.1, along="iteration")
    for value, curve in zip((0.2, 0.3, 0.4), slow, strict=True):
        yield rate(
            f"too small a constant, {value} over the curvature", k[late] + 1.0, curve[late], -2 * value, tolerance=0.05
        )
    yield control(
        "a constant below one over the curvature",
        rate("slope", k[late] + 1.0, slow[0, late], -1.0, tolerance=0.1, side="at most"),
    )


@claim(rows=("M18.14",))
def batches(key, *, dim: Size = 3, n: Size = 60, steps: Count = 1500):
    r"""A batch divides the floor by its size, and allows a larger step only up to 1/L.

    For batches of $B$ drawn with replacement $\mathbb E\|G\|^2\le\frac{\kappa_1}B+(1+\frac{\kappa_2-1}B)\|\nabla
    f\|^2$, so that the theorem on constant steps holds with these constants: for $\eta\le\frac1{L(1+(\kappa_2-1)/B)}$
    the floor is $\frac{\eta L\kappa_1}{2\gamma B}$. Measured on least squares, where the expectation is known exactly.
    """
    sizes = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    k = jnp.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        x, y, start = regression(key, n, dim)
        constants = noise_constants(x, y, 1.5 * least_growth(x))
        problem = least_squares_sum(x, y, start)
        small, growth = batch_constants(constants.kappa1, constants.kappa2, sizes)

        def gap(eta, batch, start):
            second = least_squares_moments(x, y, start, eta, steps, batch_size=batch).variance
            return 0.5 * jnp.einsum("kij,ij->k", second, x.T @ x / n)

        longest = 1 / (problem.L * growth)
        # one step for all that is small enough for the noise that does not depend on the place to prevail
        short = jnp.full(sizes.shape, 0.1 / (problem.L * constants.kappa2))
        etas = jnp.concatenate([longest, short, 8 / problem.L[None]])
        starts = jnp.stack([start] * 6 + [problem.minimiser] * 6 + [start])
        values = jax.vmap(gap)(etas, jnp.concatenate([sizes, sizes, jnp.array([8.0])]), starts)
        return problem.L, problem.mu, small, growth, longest, values

    L, mu, small, growth, longest, values = measure(key)
    long, short, over = values[:6], values[6:12], values[12, :40]
    bounds = rates.sgd.strongly_convex(
        L, mu, long[:, :1], k, kappa1=small[:, None], kappa2=growth[:, None], step=longest[:, None]
    )
    yield at_most("expected excess value, longest allowed steps", long[:, 1:], bounds, x=k, along="iteration")
    yield rate("floor against the batch", sizes, short[:, -1], -1.0, tolerance=0.1, along="batch")
    yield at_most("longest allowed step times L", longest * L, 1.0)
    yield control("eight times 1/L for a batch of eight", at_most("excess value", over[1:], bounds[3, :39]))


@claim(
    rows=("M18.14",),
    erratum="The second moment of a batch is bounded by (kappa1 + kappa2 |gradient|^2) / batch, so that the step may "
    "grow with the batch; but it is never below |gradient|^2, and steps beyond 2/L diverge.",
)
def batches_printed(key, *, dim: Size = 3, batch: Size = 8, steps: Count = 30, draws: Count = 4000):
    r"""As printed: a batch of B allows a step that is B times as long.

    M, after Lemma 18.7: $\mathbb E\|G\|^2\le\frac{\kappa_1}{B}+\frac{\kappa_2}{B}\|\nabla\Lambda\|^2$, hence Lemma 18.6
    with the floor $F=\frac{\eta L\kappa_1}{2\gamma B}$ under the condition $\eta\le\frac{B}{L\kappa_2}$. A quadratic
    with noise $\pm1$ in every coordinate has $\kappa_1=d$, $\kappa_2=1$: with $B=8$ the step $8/L$ is allowed, and the
    iterates grow sevenfold in every step. Corrected: $\mathbb
    E\|G\|^2\le\frac{\kappa_1}B+(1+\frac{\kappa_2-1}B)\|\nabla \Lambda\|^2$, so that the lemma holds for the same
    function up to the step $\frac1L$.
    """

    @jax.jit
    def measure(key):
        spectrum_key, draw_key = jax.random.split(key)
        spectrum = jnp.sort(jax.random.uniform(spectrum_key, (dim,), minval=0.5, maxval=2.0))
        slope = 3 * spectrum  # at the start, three in every coordinate
        noise = jax.random.rademacher(draw_key, (draws, batch, dim), float).mean(1)

        def values(step):
            law = quadratic_moments(spectrum, jnp.full(dim, 1 / batch), jnp.full(dim, 3.0), jnp.full(steps, step))
            return expected_value(spectrum, law)

        top = spectrum[-1]
        return spectrum, slope @ slope, jnp.sum((slope + noise) ** 2, 1), values(batch / top), values(1 / top)

    spectrum, square, sample, long, short = measure(key)
    L, mu, k = spectrum[-1], spectrum[0], jnp.arange(1, steps + 1)
    right, wrong = dim / batch + square, (dim + square) / batch
    yield estimate("second moment of a batch gradient, corrected", sample, right, wrong=wrong)
    lower = sample.mean() - 5 * sample.std() / draws**0.5
    yield printed(at_most("second moment of a batch gradient, mean less 5 errors, as printed", lower, wrong))
    bound = rates.sgd.strongly_convex(L, mu, short[0], k, kappa1=dim / batch)
    yield at_most("expected excess value, step 1/L", short[1:], bound, x=k, along="iteration")
    floor = batch / L * L * dim / (2 * mu * batch)
    allowed = floor + (1 - batch / L * mu) ** (k - 1) * (long[0] - floor)
    yield printed(
        at_most(f"expected excess value, step {batch}/L, as printed", long[1:], allowed, x=k, along="iteration")
    )


@claim(rows=("B05.27",))
def one_step(key, *, dim: Size = 4, n: Size = 30, points: Count = 200, runs: Count = 4000, steps: Count = 60):
    r"""The squared distance changes by a progress term and a variance term.

    $\mathbb E\|\theta_{k+1}-\theta^*\|^2=\|\theta_k-\theta^*\|^2-2\eta(\theta_k-\theta^*)\cdot\nabla
    f(\theta_k)+\eta^2\mathbb E\|\nabla f_i(\theta_k)\|^2$; for a $\mu$-strongly convex $f$ twice the inner product is
    at least $\mu\|\theta_k-\theta^*\|^2+2(f(\theta_k)-f^*)$, with equality along an eigenvector to $\mu$ of a
    quadratic. The draws are uniform; others are biased. With a constant step a floor remains: on a line with
    curvature $h$ and noise variance $s^2$ the variance $\frac{\eta s^2}{h(2-\eta h)}$.
    """
    eta, h, s = 0.3, 1.5, 0.8

    @jax.jit
    def measure(key):
        data_key, point_key, run_key = jax.random.split(key, 3)
        x, y, _ = regression(data_key, n, dim)
        problem = least_squares_sum(x, y)
        flattest = jnp.linalg.eigh(x.T @ x)[1][:, 0]
        at = problem.minimiser + jnp.concatenate([jax.random.normal(point_key, (points, dim)), flattest[None]])
        uneven = jnp.arange(1.0, n + 1) / (n * (n + 1) / 2)

        def sides(theta):
            each, away = problem.gradients(theta), theta - problem.minimiser
            progress = 2 * away @ problem.gradient(theta)

            def drawn(weights):
                after = weights @ jax.vmap(lambda g: jnp.sum((away - 0.1 * g) ** 2))(each)
                return after, away @ away - 0.1 * progress + 0.01 * weights @ jnp.sum(each**2, 1)

            least = problem.mu * away @ away + 2 * (problem(theta) - problem.minimum)
            return drawn(jnp.full(n, 1 / n)), drawn(uneven), progress, least

        line = coin(quadratic(h * jnp.ones(1), jnp.zeros(1)), s)
        ends = jax.vmap(lambda k: minimize(line, optax.sgd(eta), steps=steps, key=k).theta[-1, 0])(
            jax.random.split(run_key, runs)
        )
        return *jax.vmap(sides)(at), ends

    (after, predicted), uneven, progress, least, ends = measure(key)
    yield equal("squared distance after a step, all draws", after, predicted, rtol=1e-11)
    yield at_least("progress", progress, least)
    yield equal("progress along the flattest eigenvector: attained", progress[-1], least[-1])
    # after 60 steps the memory of the start is (1 - eta h)^120, below 1e-30
    floor = eta * s**2 / (h * (2 - eta * h))
    yield estimate("variance that remains on the line", ends**2, floor, wrong=eta * s**2 / (2 * h))
    yield control("uneven draws", equal("squared distance after a step", *uneven, rtol=1e-11))


@claim(rows=("B05.28", "E03.16"))
def ways_to_converge(key, *, n: Size = 50, dim: Size = 3, runs: Count = 256, steps: Count = 1000, step: Positive = 0.2):
    r"""A constant step leaves a floor; averages, decreasing steps and consistent data do not.

    Least squares, one example per step. With a constant step $\eta$ the mean squared distance stops at a floor, that is
    proportional to the step; the average $\bar\theta_k=\frac1k\sum_{i\le k}\theta_i$ of the same iterates (Polyak and
    Ruppert) goes on like $1/k$, as do the iterates with $\eta_k\propto1/k$. Where the data are consistent the constant
    step converges linearly. Runs are compared with the exact expectations; slopes are those of the expectations.
    """
    at = np.array([steps // 10, steps // 3, steps])
    late = np.unique(np.geomspace(steps, 10 * steps, 20).astype(int)) - 1

    @jax.jit
    def measure(key):
        data_key, run_key = jax.random.split(key)
        x, y, start = regression(data_key, n, dim)
        x = x / jnp.sqrt(dim)
        problem, consistent = least_squares_sum(x, y), least_squares_sum(x, x @ start)

        # with and without consistent data the same program; the last iterate and the average from the same path
        def paths(data):
            def one(key):
                path = minimize(least_squares_sum(*data), sgd(step), steps=steps, key=key).theta[1:]
                mean = minimize(least_squares_sum(*data), averaged(sgd(step)), steps=steps, key=key).theta[1:]
                return jnp.stack([path, mean])

            return jax.vmap(one)(jax.random.split(run_key, runs))

        noisy, exact = jax.lax.map(paths, (jnp.stack([x, x]), jnp.stack([y, x @ start])))
        falling = inverse_time(2 / problem.mu, 20 / problem.mu)
        ends = jax.vmap(lambda k: minimize(problem, sgd(falling), steps=steps, key=k).theta[-1])
        second = least_squares_moments(x, y, problem.start, step_sizes(falling, 10 * steps), 10 * steps).variance
        etas = 0.1 * 2.0 ** -jnp.arange(5)
        floors = jax.vmap(
            lambda e: jnp.trace(least_squares_moments(x, y, problem.minimiser, e, 2 * steps).variance[-1])
        )(etas)
        return (
            jnp.sum((noisy - problem.minimiser) ** 2, -1)[:, :, at - 1],
            jnp.sum((exact[:, 0] - consistent.minimiser) ** 2, -1).mean(0),
            jnp.sum((ends(jax.random.split(run_key, runs)) - problem.minimiser) ** 2, -1),
            jnp.trace(second, axis1=1, axis2=2),
            20 / problem.mu,
            jnp.trace(least_squares_moments(x, y, problem.start, step, steps).variance, axis1=1, axis2=2)[at],
            averaged_error(x, y, problem.start, step, steps)[at - 1],
            averaged_error(x, y, problem.minimiser, step, 10 * steps)[late],
            (etas, floors),
        )

    runs_of, consistent, ends, falling, c1, last, mean, curve, (etas, floors) = measure(key)
    yield estimate("last iterate, constant step", runs_of[:, 0], last, wrong=0.5 * np.asarray(last))
    yield estimate("average of the iterates", runs_of[:, 1], mean, wrong=0.5 * np.asarray(mean))
    yield rate("average of the iterates, exact", late + 1, curve, -1.0, tolerance=0.15, along="iteration")
    yield estimate("steps like 1/k, last of them", ends, falling[steps], wrong=0.5 * float(falling[steps]))
    yield rate("steps like 1/k, exact", late + 1 + c1, falling[late + 1], -1.0, tolerance=0.15, along="iteration")
    yield rate("floor against the step", etas, floors, 1.0, tolerance=0.15, along="step")
    yield at_most("consistent data: end over first", consistent[-1] / consistent[0], 1e-6)
    yield control("the last iterate with a constant step", at_most("squared distance", last[-1], 2 * mean[-1]))
