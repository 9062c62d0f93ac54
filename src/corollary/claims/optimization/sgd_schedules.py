"""Step schedules: what a step length is good for, and what lengths a method tolerates."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims.optimization._regression import regression
from corollary.evidence import (
    Count,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    monotone,
    picture,
)
from corollary.optimization import (
    coin,
    expected_value,
    inverse_time,
    least_squares_moments,
    least_squares_sum,
    minimize,
    quadratic,
    quadratic_moments,
    stationary_value,
    step_decay,
    step_sizes,
)


@claim(rows=("M18.05",))
def stages(key, *, runs: Count = 512, spread: Size = 1):
    r"""Every cut of the step by ten takes the expected value down by about ten, once it has settled.

    $\eta=C_0,0.1C_0,0.01C_0,0.001C_0$ on four stages: at the end of each the expected value of a quadratic with
    curvatures $h_i$ and noise variances $c_i$ is $\sum\frac{\eta c_i}{2(2-\eta h_i)}$, which for small $\eta$ is
    proportional to $\eta$. The schedule $\frac{C_0}{C_1+C_2k}$ goes on falling. The last step from the beginning is too
    small to get anywhere in the time of the first two stages; one above $\frac1h$ makes the mean change sign in every
    step, and one above $\frac2h$ makes it grow.
    """
    ends, first = (100, 500, 4500, 44500), 0.5
    spectrum = jnp.array([1.0, 0.5])

    @jax.jit
    def measure(key):
        problem = coin(quadratic(spectrum), float(spread))
        noise = jnp.full(2, float(spread) ** 2)
        schedule = step_decay(first, ends[:3])

        def moments(sizes):
            return quadratic_moments(spectrum, noise, 3 * problem.start, sizes)

        value = expected_value(spectrum, moments(step_sizes(schedule, ends[3])))
        final = jax.vmap(
            lambda k: minimize(problem, optax.sgd(schedule), steps=ends[1], key=k, start=3 * problem.start).value
        )(jax.random.split(key, runs))
        falling = expected_value(spectrum, moments(step_sizes(inverse_time(4.0, 8.0), ends[3])))
        settled = jax.vmap(lambda e: stationary_value(spectrum, noise, e))(first * 10.0 ** -jnp.arange(4))
        small = expected_value(spectrum, moments(jnp.full(ends[1], 1e-3 * first)))
        kept = expected_value(spectrum, moments(jnp.full(ends[3], first)))[jnp.array(ends)]
        large = jax.vmap(lambda e: moments(jnp.full(40, e)).mean[:, 0])(jnp.array([1.8, 2.1]))
        return value, final[:, np.array(ends[:2])], falling, settled, small, kept, large

    value, final, falling, settled, small, kept, (long, longer) = measure(key)
    at = value[jnp.array(ends)]
    # a stage remembers the one before by (1 - eta h)^(2 steps), most in the last: exp(-2 x 0.00025 x 40000)
    yield equal("expected value at the end of each stage", at, settled, rtol=1e-6, along="stage")
    # the first is 0.1 (2 - 0.5 h)/(2 - 0.05 h), too large a step to be proportional
    yield equal("ratio of two stages, from the second on", at[2:] / at[1:-1], 0.1, rtol=0.1)
    yield estimate("runs, first two stages", final, at[:2], wrong=0.5 * np.asarray(at[:2]))
    yield at_most("falling steps end below the last stage", falling[ends[3]], at[3])
    left = small[-1] / small[0]
    yield at_least("the last step from the beginning, after 500 steps: what is left of the value", left, 0.5)
    yield at_most("step 1.8: sign of the mean against the step before", jnp.sign(long[1:] * long[:-1]), -1.0)
    yield control("one step for all stages", equal("expected value at the end of each stage", kept, settled, rtol=1e-6))
    yield control("a step of 2.1", monotone("size of the mean", jnp.abs(longer), "decreasing"))
    shown = np.unique(np.geomspace(1, ends[3], 120).astype(int))
    rows = [
        {"step": int(k), "expected value": float(curve[k]), "schedule": name}
        for name, curve in (("stages", value), ("falling", falling))
        for k in shown
    ]
    lines = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=1.5)
    lines = lines.encode(
        alt.X("step:Q", scale=alt.Scale(type="log")),
        alt.Y("expected value:Q", scale=alt.Scale(type="log")),
        alt.Color("schedule:N", legend=alt.Legend(orient="bottom")),
    )
    yield picture("expected value under the schedules", lines.properties(width=300, height=190))


@claim(rows=("M18.05",))
def tolerated_steps(key, *, n: Size = 40, dim: Size = 5, steps: Count = 200):
    r"""Gradient descent tolerates longer steps than stochastic gradient descent.

    On consistent least squares gradient descent converges for all $\eta<\frac2L$. One example at a time with
    $\eta=\frac{1.5}L$ the mean squared distance grows, since $\eta$ exceeds what $\max\|x_i\|^2$ allows; it falls for
    $\eta\le\frac1{\max\|x_i\|^2}$.
    """

    @jax.jit
    def measure(key):
        x, _, start = regression(key, n, dim)
        y = x @ jnp.ones(dim)
        problem = least_squares_sum(x, y, start)

        def error(eta, batch):
            return jnp.trace(least_squares_moments(x, y, start, eta, steps, batch_size=batch).variance[-1])

        etas = jnp.stack([1.5 / problem.L, 1.5 / problem.L, 1 / jnp.sum(x**2, axis=1).max()])
        # a batch so large that its noise is nothing is gradient descent
        return jax.vmap(error)(etas, jnp.array([1e12, 1.0, 1.0])) / jnp.sum((start - 1.0) ** 2)

    plain, one, short = measure(key)
    yield at_most("gradient descent, step 1.5/L: end over start", plain, 1.0)
    yield at_most("one example, step 1/max |x|^2: end over start", short, 1.0)
    yield control("one example, step 1.5/L", at_most("mean squared distance, end over start", one, 1.0))
