"""Noise that is added step by step or at once, and the denoiser that is known exactly."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from corollary.evidence import Size, claim, control, equal, printed, same_law
from corollary.generative import Schedule, noise_path, noised


def _random_schedule(key, steps):
    return Schedule(jax.random.uniform(key, (steps,), minval=0.55, maxval=0.99))


def _coefficients(schedule, steps):
    """How x_0 and each of the noises enter each of x_0 .. x_T when the steps are run one by one."""
    path = lambda x, eps: noise_path(x, eps, schedule)  # noqa: E731
    return jax.jacfwd(path, argnums=(0, 1))(jnp.zeros(()), jnp.zeros(steps))


@claim(rows=("T14.24", "T14.23", "T14.27"))
def noise_in_one_draw(key, *, steps: Size = 40, draws: Size = 20_000):
    r"""All steps of noise together are one: the start shrinks by the root of the product, one normal noise is added.

    $x_{t+1}=\sqrt{\alpha_t}x_t+\sqrt{1-\alpha_t}z_t$ with $\alpha_t\in(0,1)$ and independent $z_t\sim N(0,1)$ has the
    law of $\sqrt{\bar\alpha_t}x_0+\sqrt{1-\bar\alpha_t}z$, $\bar\alpha_t=\prod_{i=0}^t\alpha_i$. For a random schedule
    the steps are run and differentiated: $x_0$ enters with the factor $\sqrt{\bar\alpha_t}$, and the squares of the
    factors of the noises add up to $1-\bar\alpha_t$. Started from two points, the samples of both ways have that law,
    and when $\bar\alpha$ is next to nothing the normal one. With the same noise in each step the factors themselves
    add up.
    """
    few = 3

    @jax.jit
    def measure(key):
        a_key, s_key, z_key, n_key = jax.random.split(key, 4)
        schedule = _random_schedule(a_key, steps)
        start, noise = _coefficients(schedule, steps)
        x = jnp.where(jax.random.bernoulli(s_key, 0.5, (draws,)), 2.0, -2.0)
        z = jax.random.normal(z_key, (draws, steps))
        walked = jax.vmap(lambda x, z: noise_path(x, z, schedule))(x, z)
        keys = jax.random.split(n_key, draws)
        jumped = jax.vmap(lambda x, key: noised(x, few, schedule, key=key))(x, keys)
        return schedule.alphas, start, noise, walked[:, few], walked[:, -1], jumped

    alphas, start, noise, early, late, jumped = measure(key)
    product = np.array([np.prod(np.asarray(alphas)[:t]) for t in range(steps + 1)])
    t = np.arange(steps + 1)
    yield equal("factor of the start", start, np.sqrt(product), x=t, along="t")
    yield equal("variance of the noise", np.sum(np.asarray(noise) ** 2, 1), 1 - product, x=t, along="t")

    def two_points(u):
        centre, spread = 2 * np.sqrt(product[few]), np.sqrt(1 - product[few])
        return (stats.norm.cdf(u, centre, spread) + stats.norm.cdf(u, -centre, spread)) / 2

    yield same_law("three steps, one by one", early, two_points, wrong=stats.norm.cdf)
    yield same_law("three steps in one draw", jumped, two_points, wrong=stats.norm.cdf)
    yield same_law("all steps", late, stats.norm.cdf, wrong=two_points)
    yield control(
        "independent noises: here the same in each step",
        equal("variance of the noise", np.sum(np.asarray(noise), 1) ** 2, 1 - product, x=t, along="t"),
    )


@claim(
    rows=("T14.24",),
    erratum="The closed form has the sample one step before where the start belongs, and leaves out the first factor.",
)
def printed_closed_form(key, *, steps: Size = 20):
    r"""The noised sample is the start times the root of the whole product, plus noise of the remaining variance.

    As printed: $x_{t+1}=\sqrt{\bar\alpha_t}x_t+\sqrt{1-\bar\alpha_t}z$ with $\bar\alpha_t=\prod_{i=1}^t\alpha_i$, while
    the steps count from 0. With $x_t$ on the right the start enters with another factor than the steps give it, with
    $x_0$ but the product from 1 on still. With $x_0$ and $\prod_{i=0}^t\alpha_i$ factor and variance are right.
    """

    @jax.jit
    def measure(key):
        schedule = _random_schedule(key, steps)
        start, noise = _coefficients(schedule, steps)
        return schedule.alphas, start, jnp.sum(noise**2, 1)

    alphas, start, variance = (np.asarray(a) for a in measure(key))
    # entry t belongs to x_{t+1}
    whole = np.array([np.prod(alphas[: t + 1]) for t in range(steps)])
    short = np.array([np.prod(alphas[1 : t + 1]) for t in range(steps)])
    t = np.arange(1, steps + 1)
    yield printed(equal("factor of the start", start[1:], np.sqrt(short) * start[:-1], x=t, along="t"))
    yield printed(equal("variance of the noise", variance[1:], short * variance[:-1] + 1 - short, x=t, along="t"))
    yield printed(equal("factor of the start, product from 1 on", start[1:], np.sqrt(short), x=t, along="t"))
    yield equal("factor of the start, x₀ and whole product", start[1:], np.sqrt(whole), x=t, along="t")
    yield equal("variance of the noise, whole product", variance[1:], 1 - whole, x=t, along="t")
