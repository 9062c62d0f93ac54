"""Gradient descent from random weights as a posterior: its law is normal, and has a bound."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from corollary.evidence import Range, Size, claim, control, equal, estimate, frequency_at_most, monotone
from corollary.foundations import gaussian_kl
from corollary.generalization import mcallester

DELTA = 0.05


@claim(rows=("T05.37", "B09.11"), full={"draws": 20_000})
def law_of_gradient_descent(
    key,
    *,
    n: Annotated[int, Range(40, 1000)] = 100,
    d: Annotated[int, Range(2, 20)] = 5,
    steps: Annotated[int, Range(1, 100)] = 20,
    draws: Annotated[int, Range(2000, 20_000)] = 2000,
    runs: Size = 4000,
):
    r"""Weights trained from a normal start are a posterior, the start is its prior, and the bound holds for them.

    Gradient descent on least squares takes $w\sim N(0,I)$ to a normal law, with independent coordinates along the
    eigenvectors of $\frac1nX^\top X$: means $(1-a_i^k)w^*_i$ and variances $a_i^{2k}$, $a_i=1-\eta\lambda_i$. Its KL to
    $N(0,I)$ grows with the number $k$ of steps. The expected error of a classifier drawn from it exceeds its training
    error by $\sqrt{\frac1{2n}(\mathrm{KL}+\ln\frac{2\sqrt n}\delta)}$ with probability $\delta$ at most. Labels are
    those of a direction, a fifth of them wrong, so that errors are known for any normal law of the weights.
    """
    step = 0.3

    def sample(key, times=1):
        """n examples, of which only one in `times` is a new one."""
        x_key, flip_key = jax.random.split(key)
        x = jax.random.normal(x_key, (n // times, d)) / np.sqrt(d)
        y = jnp.sign(x[:, 0]) * jnp.where(jax.random.bernoulli(flip_key, 0.2, (n // times,)), -1.0, 1.0)
        return jnp.tile(x, (times, 1)), jnp.tile(y, times)

    def law(x, y, k):
        values, vectors = jnp.linalg.eigh(x.T @ x / n)
        target = vectors.T @ (x.T @ y / n) / values
        left = (1 - step * values) ** k
        return (1 - left) * target, left**2, vectors

    @jax.jit
    def measure(key):
        run_key, draw_key, fresh_key = jax.random.split(key, 3)
        x, y = sample(run_key)
        mean, variance, vectors = law(x, y, steps)

        def descend(w, _):
            return w - step * x.T @ (x @ w - y) / n, None

        start = jax.random.normal(run_key, (runs, d))
        end = jax.vmap(lambda w: jax.lax.scan(descend, w, None, length=steps)[0])(start) @ vectors
        along = jax.vmap(lambda k: gaussian_kl(*law(x, y, k)[:2], jnp.zeros(d), jnp.ones(d)))(jnp.arange(0, 200, 10))
        fresh = jax.random.normal(fresh_key, (4000, d))

        def of_sample(key, times=1):
            x, y = sample(key, times)
            mean, variance, vectors = law(x, y, steps)

            def mistakes(points, labels):
                # the sign of a normal variable is wrong with the probability of its tail
                seen = points @ vectors
                return jnp.mean(norm.cdf(-labels * (seen @ mean) / jnp.sqrt(seen**2 @ variance)))

            inside, right = mistakes(x, y), mistakes(fresh, jnp.sign(fresh[:, 0]))
            divergence = gaussian_kl(mean, variance, jnp.zeros(d), jnp.ones(d))
            return 0.8 * right + 0.2 * (1 - right), mcallester(n, divergence, DELTA, risk=inside).value

        outside, bound = jax.lax.map(of_sample, jax.random.split(draw_key, draws), batch_size=500)
        again = jax.lax.map(
            lambda k: jnp.greater(*of_sample(k, n // 4)), jax.random.split(draw_key, draws), batch_size=500
        )
        return end, mean, variance, along, outside > bound, again

    end, mean, variance, along, beyond, again = (np.asarray(a) for a in measure(key))
    # a standard error is a few thousandths of the deviation 1 of the start, which is the wrong value for both
    yield estimate("mean of trained weights, by coordinates", end, mean, wrong=mean + np.sqrt(variance))
    yield estimate("squares about the mean", (end - mean) ** 2, variance, wrong=2 * variance)
    product = np.prod((end - mean)[:, :2], 1)
    yield estimate("product of two coordinates about their means", product, 0.0, wrong=np.sqrt(variance[:2].prod()))
    yield monotone("KL with the number of steps", along, strict=True, x=np.arange(0, 200, 10), along="steps")
    yield equal("KL before training", along[0], 0.0)
    # the expected error is a mean over 4,000 fresh points: known to a hundredth, far inside the bound
    yield frequency_at_most("expected error beyond the bound", beyond, DELTA)
    yield control(
        "the examples are independent: here four of them, each n/4 times",
        frequency_at_most("expected error beyond the bound", again, DELTA),
    )
