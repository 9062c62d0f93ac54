"""Step schedules: what a step length is good for, and what lengths a method tolerates."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims.optimization._regression import regression
from corollary.evidence import Count, Size, at_most, claim, control, equal, estimate
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
    proportional to $\eta$. The schedule $\frac{C_0}{C_1+C_2k}$ goes on falling.
    """
    ends, first = (100, 500, 4500, 44500), 0.5
    spectrum = jnp.array([1.0, 0.5])

    @jax.jit
    def measure(key):
        problem = coin(quadratic(spectrum), float(spread))
        noise = jnp.full(2, float(spread) ** 2)
        schedule = step_decay(first, ends[:3])
        etas = step_sizes(schedule, ends[3])
        value = expected_value(spectrum, quadratic_moments(spectrum, noise, problem.start, etas))
        final = jax.vmap(lambda k: minimize(problem, optax.sgd(schedule), steps=ends[1], key=k).value)(
            jax.random.split(key, runs)
        )
        falling = expected_value(
            spectrum, quadratic_moments(spectrum, noise, problem.start, step_sizes(inverse_time(4.0, 8.0), ends[3]))
        )
        settled = jax.vmap(lambda e: stationary_value(spectrum, noise, e))(first * 10.0 ** -jnp.arange(4))
        return value, final[:, np.array(ends[:2])], falling[jnp.array(ends)], settled

    value, final, falling, settled = measure(key)
    at = value[jnp.array(ends)]
    # the last stage remembers the one before by (1 - 0.0005 / 2)^80000 of nine tenths
    yield equal("expected value at the end of each stage", at, settled, rtol=1e-6, along="stage")
    yield equal("ratio of two stages, short steps", at[3] / at[2], 0.1, rtol=0.01)
    yield estimate("runs, first two stages", final, at[:2], wrong=0.5 * np.asarray(at[:2]))
    yield at_most("falling steps end below the last stage", falling[3], at[3])
    yield control("the first step kept", equal("expected value", jnp.full(4, at[0]), settled, rtol=1e-6))


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
            return jnp.trace(least_squares_moments(x, y, start, eta, steps, batch=batch).variance[-1])

        etas = jnp.stack([1.5 / problem.L, 1.5 / problem.L, 1 / jnp.sum(x**2, axis=1).max()])
        # a batch so large that its noise is nothing is gradient descent
        return jax.vmap(error)(etas, jnp.array([1e12, 1.0, 1.0])) / jnp.sum((start - 1.0) ** 2)

    plain, one, short = measure(key)
    yield at_most("gradient descent, step 1.5/L: end over start", plain, 1.0)
    yield at_most("one example, step 1/max |x|^2: end over start", short, 1.0)
    yield control("one example, step 1.5/L", at_most("mean squared distance, end over start", one, 1.0))
