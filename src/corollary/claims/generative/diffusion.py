"""Noise that is added step by step or at once, and the denoiser that is known exactly."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy import stats

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, printed, rate, same_law
from corollary.foundations import normal_rule
from corollary.generative import (
    DiffusionModel,
    GaussianMixture,
    MixtureDenoiser,
    Schedule,
    diffusion_loss,
    noise_path,
    noised,
)
from corollary.nets import train


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


def _two_humps(key):
    """A random mixture of two normal laws on the line, humps apart."""
    m_key, w_key = jax.random.split(key)
    means = jnp.array([[-1.5], [1.0]]) + 0.3 * jax.random.normal(m_key, (2, 1))
    weight = jax.random.uniform(w_key, minval=0.3, maxval=0.7)
    return GaussianMixture(jnp.stack([weight, 1 - weight]), means, jnp.array([[[0.16]], [[0.25]]]))


def _as_one(mixture):
    """The normal law with the mean and the variance of a mixture on the line."""
    w, m, v = mixture.weights, mixture.means[:, 0], mixture.covariances[:, 0, 0]
    mean = w @ m
    return GaussianMixture([1.0], mean[None, None], (w @ (v + (m - mean) ** 2))[None, None, None])


def _expectation(mixture, nodes=40):
    """Points and weights whose sums are means over a mixture on the line, and those of the standard normal law."""
    z, weights = normal_rule(nodes, jnp.float64)
    x = mixture.means[:, 0, None] + jnp.sqrt(mixture.covariances[:, 0]) * z
    return x.reshape(-1, 1), (mixture.weights[:, None] * weights).ravel(), z[:, None], weights


def _even(steps):
    """Signal over noise from 10,000 to 0.00001, each step the same factor; on a line the first would double it."""
    levels = jnp.concatenate([jnp.ones(1), jax.nn.sigmoid(jnp.linspace(np.log(1e4), np.log(1e-5), steps))])
    return Schedule(levels[1:] / levels[:-1])


@claim(rows=("T14.25",))
def exact_denoiser(key, *, draws: Size = 5000):
    r"""With the best denoiser the sampler and the likelihoods of a diffusion are those of the data.

    For a mixture of two normal laws $\mathbb E[\epsilon|x_t]$ is known. With it as the network the flow of probability
    from the data to noise has the mixture's own density; the variational bound of $-\ln p$, averaged over the mixture,
    lies above its entropy, and the difference falls like one over the number of steps, where these are even in the
    logarithm of signal over noise; samples that are taken back step by step from noise have the law of the mixture. The
    best denoiser of another law with the same mean and variance gives another density.
    """
    counts = np.array([80, 160, 320, 640])

    @jax.jit
    def measure(key):
        m_key, s_key = jax.random.split(key)
        mixture = _two_humps(m_key)
        x, weights, eps, eps_weights = _expectation(mixture)
        exact = DiffusionModel(MixtureDenoiser(mixture), Schedule.linear(60, last=0.9), 1)
        other = DiffusionModel(MixtureDenoiser(_as_one(mixture)), exact.schedule, 1)
        at = jnp.linspace(-2.5, 2.5, 21)[:, None]
        density = jax.vmap(mixture.log_prob)(at)
        flows = [jax.vmap(lambda x, m=m: m.log_prob(x, steps=1600))(at) for m in (exact, other)]

        def bound(steps):
            model = DiffusionModel(exact.network, _even(steps), 1)
            total = lambda x: eps_weights @ jax.vmap(lambda e: model.bound(x, e[None]).total)(eps)  # noqa: E731
            return weights @ jax.lax.map(total, x)

        entropy = -weights @ jax.vmap(mixture.log_prob)(x)
        walk = DiffusionModel(exact.network, Schedule.linear(500), 1)
        return mixture, density, flows, entropy, [bound(t) for t in counts.tolist()], walk.sample(draws, key=s_key)

    mixture, density, (own, other), entropy, bounds, samples = measure(key)
    at = np.linspace(-2.5, 2.5, 21)
    # of fourth order: 400 steps of Runge and Kutta were 8e-5 off between the humps, 1600 are 256 times nearer; the last
    # level is below 1e-14, and so what is left of the means there below 1e-7
    yield equal("log-density by the flow of probability", own, density, rtol=0, atol=1e-6, x=at, along="x")
    gap = np.asarray(bounds) - float(entropy)
    yield at_least("variational bound", np.asarray(bounds), np.full(4, float(entropy)), x=counts, along="steps")
    yield rate("bound above the entropy", counts, gap, -1.0, tolerance=0.15, along="steps")

    weights, means, covariances = (np.asarray(a) for a in (mixture.weights, mixture.means, mixture.covariances))

    def cdf(u):
        return stats.norm.cdf(np.asarray(u)[..., None], means[:, 0], np.sqrt(covariances[:, 0, 0])) @ weights

    yield same_law("samples", samples[:, 0], cdf, wrong=stats.norm.cdf)
    yield control(
        "the denoiser of these data: here of a normal law with their mean and variance",
        equal("log-density by the flow of probability", other, density, rtol=0, atol=1e-6, x=at, along="x"),
    )


class _Guess(eqx.Module):
    """A small network of the noised point and of how much of it is signal."""

    mlp: eqx.nn.MLP

    def __init__(self, key):
        self.mlp = eqx.nn.MLP(3, 1, 48, 2, activation=jnp.tanh, key=key)

    def __call__(self, pair):
        x, level = pair
        return self.mlp(jnp.stack([x[0], jnp.sqrt(level), jnp.sqrt(1 - level)]))


@claim(rows=("T14.25",))
def trained_denoiser(key, *, n: Size = 4000, steps: Count = 3000):
    r"""A network trained to tell the noise comes within five per cent of the least loss, and never below it.

    The loss $\mathbb E\|\epsilon-\epsilon_\theta(x_t,\bar\alpha_t)\|^2$ over the steps of a schedule is least, and not
    zero, at $\mathbb E[\epsilon|x_t]$, which is known for a mixture of two normal laws. A small network is trained on
    samples of it; its loss over the whole law, by quadrature, lies between the least one and five per cent above. One
    that is not told how noisy its input is stays further above.
    """
    levels = 50

    class Blind(eqx.Module):
        inner: _Guess

        def __call__(self, pair):
            return self.inner((pair[0], jnp.full_like(pair[1], 0.5)))

    @jax.jit
    def measure(key):
        m_key, x_key, n_key, t_key = jax.random.split(key, 4)
        mixture, schedule = _two_humps(m_key), Schedule.linear(levels)
        x, weights, eps, eps_weights = _expectation(mixture)

        def loss(network):
            model, t = DiffusionModel(network, schedule, 1), jnp.arange(1, levels + 1)
            at = lambda x, e: jnp.mean(jax.vmap(lambda t: model.loss(x, t, e))(t))  # noqa: E731
            return weights @ jax.vmap(lambda x: jax.vmap(lambda e: at(x, e))(eps))(x) @ eps_weights

        def trained(network):
            run = train(
                DiffusionModel(network, schedule, 1),
                diffusion_loss(),
                mixture.sample(n, key=x_key),
                optax.adam(optax.cosine_decay_schedule(0.01, steps)),
                steps=steps,
                batch_size=256,
                key=t_key,
            )
            return loss(run.network.network)

        start = _Guess(n_key)
        return loss(MixtureDenoiser(mixture)), loss(start), trained(start), trained(Blind(start))

    least, start, end, blind = (float(v) for v in measure(key))
    yield at_least("loss of the trained network", end, least)
    yield at_most("its excess over the least loss, relative", end / least - 1, 0.05)
    yield at_least("what training had to gain, relative", start / least - 1, 0.05)
    yield control(
        "the network is told the level of noise: here not",
        at_most("its excess over the least loss, relative", blind / least - 1, 0.05),
    )
