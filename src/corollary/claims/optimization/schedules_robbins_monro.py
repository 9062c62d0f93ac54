"""The conditions of Robbins and Monro on the steps of stochastic gradient descent (M section 7.3)."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, at_least, at_most, claim, control, equal, printed, rate
from corollary.optimization import finite_sum, inverse_power, inverse_time, minimize, sgd, step_sizes


@claim(rows=("M07.07",))
def robbins_monro(key, *, length: Count = 1_000_000):
    r"""Steps that sum to infinity while their squares do not.

    $\eta_k=\frac{C_0}{C_1+k}$, $k=0,1,\dots$: $\sum_{k<K}\eta_k=C_0\ln K+O(1)$ and
    $\sum_k\eta_k^2=C_0^2\psi_1(C_1)$, the trigamma function. Of the powers $k^{-\gamma}$ those with
    $\frac12<\gamma\le1$ satisfy both conditions: from $K$ to $2K$ a sum grows by $2^{1-\gamma}$ times what it grew
    before (at least 1: divergent), and the squares by $2^{1-2\gamma}$ times (below 1: convergent).
    """
    from scipy.special import polygamma

    c0_key, c1_key = jax.random.split(key)
    c0 = jax.random.uniform(c0_key, (), minval=0.5, maxval=2.0)
    c1 = jax.random.uniform(c1_key, (), minval=1.0, maxval=9.0)
    powers = np.array([0.4, 0.5, 0.6, 0.75, 1.0, 1.2])

    @jax.jit
    def measure(c0, c1):
        eta = step_sizes(inverse_time(c0, c1 - 1), length)  # the schedule counts from one
        sums, squares = jnp.cumsum(eta), jnp.cumsum(eta**2)

        def growth(gamma):
            steps = step_sizes(inverse_power(1.0, gamma), length)
            quarter = length // 4
            first, second = (lambda s: s[quarter : 2 * quarter].sum()), (lambda s: s[2 * quarter :].sum())
            return second(steps) / first(steps), second(steps**2) / first(steps**2)

        return sums[jnp.array([length // 10 - 1, length - 1])], squares[-1], jax.vmap(growth)(jnp.asarray(powers))

    sums, squares, (plain, squared) = measure(c0, c1)
    # beyond K the sums differ from the integrals by 1/K of their size
    yield equal("growth of the sum from K/10 to K", sums[1] - sums[0], c0 * np.log(10), rtol=100 / length)
    tail = c0**2 / (length + c1)
    yield equal("sum of the squares", squares + tail, c0**2 * polygamma(1, float(c1)), rtol=1e-9)
    yield equal("powers: growth of the sum", plain, 2 ** (1 - powers), rtol=10 / length, x=powers, along="power")
    yield equal(
        "powers: growth of the squares", squared, 2 ** (1 - 2 * powers), rtol=20 / length, x=powers, along="power"
    )
    inside = slice(2, 5)
    yield at_least("powers in (1/2, 1]: growth of the sum", plain[inside], 1.0, rtol=10 / length)
    yield at_most("powers in (1/2, 1]: growth of the squares", squared[inside], 0.9)
    yield control("a power above 1", at_least("growth of the sum", plain[-1], 1.0, rtol=10 / length))
    yield control("the power 0.4", at_most("growth of the squares", squared[0], 0.9))


@claim(
    rows=("M07.07", "M07.27"),
    erratum="The conditions are not necessary: without noise at the minimiser a constant step converges.",
)
def necessary_as_printed(key, *, runs: Count = 256, steps: Count = 240):
    r"""Stochastic gradient descent converges only with steps whose squares are summable.

    As printed in 7.3: "the learning rate must satisfy the following conditions in order for (7.4) to converge", (7.8),
    and "must decay". Linear regression with labels that some $\theta^*$ fits exactly, $\theta_{k+1}=\theta_k+2\eta
    (y_k-\theta_k\cdot x_k)x_k$ with the constant step $\eta=\frac1{2\max\|x\|^2}$, which neither decays nor has
    summable squares: the distance to $\theta^*$, which should not vanish, falls exponentially over six numbers of
    steps.
    Corrected: there the mean squared distance is at most $(1-2\eta\lambda_{\min}(\overline{xx^\top}))^k$ of the first;
    the conditions are needed where the noise does not vanish at the minimiser: with noise in the labels the
    constant step stays away from it.
    """
    counts = steps // 6 * np.arange(1, 7)

    @jax.jit
    def measure(key):
        data_key, theta_key, noise_key, run_key = jax.random.split(key, 4)
        x, truth = jax.random.normal(data_key, (40, 3)), jax.random.normal(theta_key, (3,))
        eta = 1 / (2 * jnp.sum(x**2, axis=1).max())

        def last(y):
            problem = finite_sum(lambda t, x, y: (y - x @ t) ** 2, (x, y), jnp.zeros(3))
            path = jax.vmap(lambda k: minimize(problem, sgd(eta), steps=steps, key=k).theta[jnp.asarray(counts)])
            best = jnp.linalg.lstsq(x, y)[0]
            return jnp.sum((path(jax.random.split(run_key, runs)) - best) ** 2, axis=-1), best @ best

        shrink = 1 - 2 * eta * jnp.linalg.eigvalsh(x.T @ x / 40)[0]
        return last(x @ truth + jax.random.normal(noise_key, (40,))), last(x @ truth), shrink

    (noisy, _), (exact, first), shrink = measure(key)
    away = jnp.median(jnp.sqrt(noisy), 0)
    yield at_least("noisy labels: median distance to the minimiser", away, 1e-2, x=counts, along="step")
    # the mean of runs of a product of random factors is below its expectation, or not far above it: five errors
    upper = exact.mean(0) + 5 * exact.std(0) / np.sqrt(runs)
    promised = shrink**counts * first
    yield at_most("labels that can be fitted: mean squared distance", upper, promised, atol=1e-28, x=counts)
    median = jnp.median(exact, 0)
    tolerance = -float(jnp.log(shrink)) / 2
    yield printed(
        rate(
            "labels that can be fitted: squared distance",
            counts,
            median,
            0.0,
            tolerance=tolerance,
            side="at least",
            axes="semi-log",
            along="step",
        )
    )
