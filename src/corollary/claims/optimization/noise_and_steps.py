"""Step sizes against the noise of stochastic gradients (M sections 7.3, 7.3.1 and 7.3.2)."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, estimate, printed, rate
from corollary.optimization import geman_mcclure, inverse_time, ridge_logistic, step_decay, step_sizes


def _quadratic_sgd(key, etas, s, chains, batch):
    r"""Ends of $\theta\leftarrow\theta-\eta_k(\theta-\bar\xi_k)$ from 0; $\bar\xi$ is a mean of `batch` draws."""

    def advance(theta, step):
        eta, k = step
        xi = s * jax.random.normal(jax.random.fold_in(key, k), (chains, batch)).mean(1)
        return theta - eta * (theta - xi), None

    return jax.lax.scan(advance, jnp.zeros(chains), (etas, jnp.arange(etas.size)))[0]


@claim(rows=("M07.10",), full={"chains": 100_000})
def noise_floor(key, *, chains: Size = 4096, steps: Count = 200):
    r"""With a constant step stochastic gradient descent ends in a cloud whose size the step and the noise set.

    $\lambda=\frac a2(\theta-\xi)^2$ with $\mathrm{Var}\,\xi=s^2$: for $\eta a<2$ the stationary variance of $\theta$ is
    $\frac{\eta as^2}{2-\eta a}$, divided by $M_o$ for batches of $M_o$; beyond $\eta a=2$ the variance grows without
    limit. So a larger step needs less noise. Measured over independent chains from 0, after which
    $1-(1-\eta a)^{2k}$ of it is reached.
    """
    s = 1.5
    steps_of = jnp.array([0.02, 0.1, 0.5, 1.0, 1.5, 1.9])
    batches = (1, 8)

    @jax.jit
    def measure(key):
        def ends(eta, batch):
            return _quadratic_sgd(key, jnp.full(steps, eta), s, chains, batch)

        grid = jnp.stack([jax.vmap(lambda eta, b=b: ends(eta, b))(steps_of) for b in batches])
        return grid, ends(2.05, 1)

    found, beyond = measure(key)
    reached = 1 - (1 - steps_of) ** (2 * steps)
    for batch, row in zip(batches, found, strict=True):
        predicted = steps_of * s**2 / (2 - steps_of) / batch * reached
        samples = jnp.moveaxis(row, 1, 0) ** 2
        yield estimate(f"variance at six steps, batches of {batch}", samples, predicted, wrong=1.3 * predicted)
    limit = 2.05 * s**2 / (2.05 - 2)
    yield control("a step beyond 2/a", at_most("variance, over a stationary size", jnp.mean(beyond**2), limit))


@claim(rows=("M07.09",), full={"chains": 100_000})
def staircase(key, *, chains: Size = 4096):
    r"""Dividing the step by ten divides the plateau of the loss by about ten.

    $\eta_k=C_0,0.1C_0,0.01C_0$ on three stretches. On $\frac12(\theta-\xi)^2$ the mean square $v=\mathbb E\theta^2$
    obeys $v_{k+1}=(1-\eta_k)^2v_k+\eta_k^2s^2$, and the excess loss $\frac12v$ ends each stretch near
    $\frac{\eta s^2}{2(2-\eta)}$: ratios of 0.1 up to the factor $\frac{2-\eta}{2-0.1\eta}$.
    """
    s, ends, first = 1.0, (50, 350, 2850), 0.4
    schedule = step_decay(first, ends)

    @jax.jit
    def measure(key):
        etas = step_sizes(schedule, ends[-1])

        def advance(theta, step):
            eta, k = step
            xi = s * jax.random.normal(jax.random.fold_in(key, k), (chains,))
            theta = theta - eta * (theta - xi)
            return theta, None

        out, theta, begin = [], jnp.full(chains, 3.0), 0
        for end in ends:
            theta, _ = jax.lax.scan(advance, theta, (etas[begin:end], jnp.arange(begin, end)))
            out.append(theta**2 / 2)
            begin = end
        return jnp.stack(out, 1), etas

    losses, etas = measure(key)
    v, marks = 9.0, []
    for eta in np.asarray(etas):
        v = (1 - eta) ** 2 * v + eta**2 * s**2
        marks.append(v / 2)
    predicted = np.array([marks[end - 1] for end in ends])
    yield equal("steps around the boundaries", etas[jnp.array([0, 49, 50, 349, 350])], [0.4, 0.4, 0.04, 0.04, 0.004])
    yield estimate("excess loss at the end of the stretches", losses, predicted, wrong=1.3 * predicted)
    plateaus = np.array([first * f / (2 * (2 - first * f)) for f in (1, 0.1, 0.01)])
    yield equal("that, against the plateau", predicted, plateaus, rtol=0.01)
    mean = losses.mean(0)
    yield at_most("a plateau over the one before", mean[1:] / mean[:-1], 0.2)
    yield at_least("a plateau over the one before, from below", mean[1:] / mean[:-1], 0.05)


@claim(rows=("M07.11",), full={"steps": 200_000})
def gradients_vanish(key, *, runs: Size = 256, steps: Count = 20_000):
    r"""With summable squared steps the gradients along stochastic gradient descent go to zero, also without convexity.

    If $\Lambda$ is bounded, $\nabla\Lambda$ bounded and Lipschitz, the gradient noise of bounded variance (which the
    text leaves out) and the steps satisfy $\sum\eta_k=\infty$, $\sum\eta_k^2<\infty$, then
    $\|\nabla\Lambda(\theta_k)\|\to0$ almost surely. Measured for robust regression with $\frac{r^2}{1+r^2}$ and a
    fifth of outliers: with $\eta_k=(1+k)^{-0.6}$ the median squared gradient over all runs falls like the step, with
    the power $-0.6$. A finite run cannot show a limit, but it shows the trend, and that it is lost when the first
    condition fails, $(1+k)^{-2}$, or the second, a constant step.
    """
    n, d, pieces = 200, 5, 20

    @jax.jit
    def measure(key):
        x_key, y_key, out_key, start_key, run_key = jax.random.split(key, 5)
        x = jax.random.normal(x_key, (n, d))
        y = x @ jnp.ones(d) + 0.3 * jax.random.normal(y_key, (n,))
        y = jnp.where(jnp.arange(n) < n // 5, 5 * jax.random.normal(out_key, (n,)), y)
        problem = geman_mcclure(x, y)
        k = jnp.arange(steps)
        schedules = jnp.stack([(1.0 + k) ** -0.6, (1.0 + k) ** -2.0, jnp.full(steps, 0.1)])
        start = jax.random.normal(start_key, (3, runs, d))

        def advance(theta, step):
            eta, k = step
            # one example for each of the runs, the same for all schedules
            chosen = jax.random.randint(jax.random.fold_in(run_key, k), (runs,), 0, n)
            r = jnp.sum(theta * x[chosen], axis=-1) - y[chosen]
            slope = (2 * r / (1 + r**2) ** 2)[..., None] * x[chosen]
            return theta - eta[:, None, None] * slope, None

        def stretch(theta, part):
            theta, _ = jax.lax.scan(advance, theta, part)
            return theta, jnp.linalg.norm(jax.vmap(jax.vmap(problem.gradient))(theta), axis=-1)

        parts = (schedules.T.reshape(pieces, -1, 3), k.reshape(pieces, -1))
        _, norms = jax.lax.scan(stretch, start, parts)
        probe = jax.grad(problem.term)(start[0, 0], x[0], y[0])
        r = x[0] @ start[0, 0] - y[0]
        return norms, probe, 2 * r / (1 + r**2) ** 2 * x[0]

    norms, probe, formula = measure(key)
    yield equal("gradient of an example", formula, probe)
    k = steps / pieces * jnp.arange(1, pieces + 1)
    half = pieces // 10
    square = jnp.median(norms**2, axis=2)[half:]
    yield rate("median squared gradient", k[half:], square[:, 0], -0.6, tolerance=0.25, fit=0.8, along="step")
    for i, why in ((1, "steps with a finite sum"), (2, "a constant step")):
        yield control(
            why, rate("median squared gradient", k[half:], square[:, i], -0.6, tolerance=0.25, fit=0.8, along="step")
        )


@claim(
    rows=("M07.11", "M18.19"),
    erratum="Theorems 7.3 and 18.11 say nothing of the noise: with gradients of infinite variance they fail.",
)
def theorem_as_printed(key, *, runs: Size = 512, steps: Count = 10_000):
    r"""Theorem 7.3: the gradients of stochastic gradient descent go to zero almost surely.

    As printed there, and again as Theorem 18.11: if $\nabla\Lambda$ is globally Lipschitz and bounded, $\Lambda$
    bounded and (7.8) holds, then
    $\|\nabla\Lambda(\theta_k)\|\to0$ with probability one. Take $\lambda_\xi(\theta)=\sin\theta+\xi\theta$ with a
    symmetric $\xi$, $P(|\xi|>t)=t^{-3/2}$ for $t\ge1$: $\Lambda=\sin\theta$, and all premises hold. With
    $\eta_k=(1+k)^{-0.6}$ infinitely many steps are longer than one, $P(\eta_k|\xi_k|>1)=(1+k)^{-0.9}$, which throw the
    parameter out of every minimum. Corrected: with noise of bounded variance, $\xi=\pm1$, the gradients do go to zero.
    Measured: the median over the runs of the largest gradient in the second half of the run, for runs of five lengths:
    it falls like the root of the step, $-0.3$, with bounded noise, and does not fall without variance.
    """
    cuts = steps // 2 ** np.arange(5)[::-1]

    @jax.jit
    def measure(key):
        def run(heavy):
            def advance(carry, k):
                theta, largest = carry
                # the second half of the run of this length, for all lengths at once
                within = ((k >= cuts // 2) & (k < cuts))[:, None]
                size_key, sign_key = jax.random.split(jax.random.fold_in(key, k))
                size = jax.random.uniform(size_key, (runs,)) ** (-1 / 1.5) if heavy else 1.0
                xi = size * jax.random.rademacher(sign_key, (runs,), float)
                largest = jnp.where(within, jnp.maximum(largest, jnp.abs(jnp.cos(theta))), largest)
                return (theta - (1.0 + k) ** -0.6 * (jnp.cos(theta) + xi), largest), None

            first = jnp.zeros(runs), jnp.zeros((cuts.size, runs))
            (_, largest), _ = jax.lax.scan(advance, first, jnp.arange(steps))
            return jnp.median(largest, axis=1)

        return run(False), run(True)

    bounded, heavy = measure(key)
    name = "median of the largest gradient in the second half"
    # the largest of many values also grows like the root of the logarithm of their number: 0.07 of the slope here
    yield rate(f"bounded noise: {name}", cuts, bounded, -0.3, tolerance=0.15, along="steps")
    yield printed(
        rate(f"noise without variance: {name}", cuts, heavy, -0.3, tolerance=0.2, side="at most", along="steps")
    )


@claim(rows=("M07.16",), full={"examples": 100_000})
def cheap_progress(key, *, examples: Size = 10_000, runs: Size = 256):
    r"""On a large data set one pass of stochastic gradient descent goes further than one step of gradient descent.

    Logistic regression with a small ridge. Both have seen every example once: $M$ steps of SGD with
    $\eta_k=\frac{20}{100+k}$, or one step $1/L$ of gradient descent. The mean excess loss of SGD is smaller by more
    than 5 times. It is a statement about large $M$ and moderate accuracy: for 20 examples and 300 passes gradient
    descent has the better of it.
    """

    def setting(key, n, d, ridge):
        x_key, y_key = jax.random.split(key)
        x = jax.random.normal(x_key, (n, d))
        y = jax.random.bernoulli(y_key, jax.nn.sigmoid(3 * x.sum(1) / d**0.5)).astype(float)
        return ridge_logistic(x, y, ridge)

    def passes(problem, key, passes, runs):
        x, y, ridge = problem.data
        n = x.shape[0]

        def descent(theta, _):
            return theta - problem.gradient(theta) / problem.L, None

        def advance(theta, step):
            eta, k = step
            chosen = jax.random.randint(jax.random.fold_in(key, k), (runs,), 0, n)
            z = jnp.sum(theta * x[chosen], axis=1)
            slope = (jax.nn.sigmoid(z) - y[chosen])[:, None] * x[chosen] + ridge * theta
            return theta - eta * slope, None

        whole, _ = jax.lax.scan(descent, problem.start, length=passes)
        eta = step_sizes(inverse_time(20.0, 100.0), passes * n)
        ends, _ = jax.lax.scan(advance, jnp.zeros((runs, x.shape[1])), (eta, jnp.arange(passes * n)))
        return jax.vmap(problem)(ends) - problem.minimum, problem(whole) - problem.minimum

    @jax.jit
    def measure(key):
        data_key, run_key = jax.random.split(key)
        return (
            passes(setting(data_key, examples, 20, 1e-3), run_key, 1, runs),
            passes(setting(data_key, 20, 5, 0.05), run_key, 300, runs),
        )

    (stochastic, whole), (small_stochastic, small_whole) = measure(key)

    def upper(excess):
        return excess.mean() + 5 * excess.std() / runs**0.5

    yield at_most("one pass: mean excess loss with 5 standard errors", upper(stochastic), whole / 5)
    yield at_most("20 examples, many passes: excess of gradient descent", small_whole, 1e-8)
    yield control(
        "20 examples, many passes", at_most("mean excess loss of SGD", small_stochastic.mean(), small_whole / 5)
    )
