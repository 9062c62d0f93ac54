"""What the likelihood of a fitted law says about it, and what it does not."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from corollary.evidence import Size, at_least, at_most, claim, control, equal, monotone, printed, rate
from corollary.foundations import panels
from corollary.generative import (
    DiagonalGaussian,
    GaussianMixture,
    fit_isotropic,
    held_out_gap,
    kl_projection,
    mean_log_likelihood,
)

WEIGHTS, MEANS, VARIANCES = np.array([0.3, 0.7]), np.array([-2.0, 2.0]), np.array([1.0, 0.5])
MEAN = float(WEIGHTS @ MEANS)
VARIANCE = float(WEIGHTS @ (VARIANCES + MEANS**2) - MEAN**2)


def _humps():
    return GaussianMixture(WEIGHTS, MEANS[:, None], VARIANCES[:, None, None])


@claim(rows=("T14.08", "T14.05"), full={"runs": 1000})
def likelihood_is_relative_entropy(key, *, runs: Size = 200):
    r"""Maximum likelihood goes to the law of the family that is nearest to the truth, whether it holds it or not.

    $\mathrm{KL}(P\|Q_\theta)=\mathbb E_P\ln P-\mathbb E_P\ln Q_\theta$: for $P$ with two humps and normal $Q$ the sum
    of the first and of the mean log-likelihood is one number for all $\theta$. It is least at the mean and variance of
    $P$, to which the estimates from $n$ examples go with errors $\sqrt{\sigma_P^2/n}$ (of the mean) and of the same
    order (of the variance). The parameters with the largest product of densities are those with the largest sum of
    logarithms. Nearest is meant in this direction: to the normal law that is nearest the other way round, on one hump,
    they do not go.
    """
    sizes = 2 ** np.arange(6, 13)

    @jax.jit
    def measure(key):
        truth = _humps()
        z, w = panels(jnp.linspace(-12.0, 12.0, 97), 8)
        log_p = jax.vmap(truth.log_prob)(z[:, None])
        means, spreads = (a.ravel() for a in jnp.meshgrid(jnp.linspace(-3, 3, 13), jnp.linspace(0.5, 4, 8)))
        entropy = jax.vmap(lambda m, s: w @ (jnp.exp(log_p) * (log_p - norm.logpdf(z, m, s))))(means, spreads)
        expected = -0.5 * jnp.log(2 * jnp.pi * spreads**2) - (VARIANCE + (MEAN - means) ** 2) / 2 / spreads**2
        x = truth.sample(runs * sizes[-1], key=key).reshape(runs, sizes[-1])
        fits = [jnp.stack([x[:, :n].mean(1), x[:, :n].var(1)]) for n in sizes.tolist()]
        errors = jnp.stack([jnp.sqrt(jnp.mean((fit - jnp.array([[MEAN], [VARIANCE]])) ** 2, 1)) for fit in fits], 1)
        family = lambda t: DiagonalGaussian(t[:1], jnp.exp(t[1:]))  # noqa: E731
        other = kl_projection(truth.log_prob, family, jnp.array([2.0, 0.0]), steps=20).law
        away = jnp.stack([jnp.sqrt(jnp.mean((fit[0] - other.mean) ** 2)) for fit in fits])
        few = x[0, :20]
        densities = norm.pdf(few[:, None], means, spreads)
        chosen = jnp.argmax(jnp.prod(densities, 0)), jnp.argmax(jnp.sum(jnp.log(densities), 0))
        return entropy + expected, w @ (jnp.exp(log_p) * log_p), errors, away, chosen

    total, constant, errors, away, (product, logs) = measure(key)
    yield equal("relative entropy plus mean log-likelihood, 104 laws", total, constant, rtol=1e-8)
    yield rate("error of the mean", sizes, errors[0], -0.5, tolerance=0.1, along="n")
    yield rate("error of the variance", sizes, errors[1], -0.5, tolerance=0.1, along="n")
    # the root of a mean of 200 squares has a relative error of 0.05; six of them
    yield equal("error of the mean over σ/√n", errors[0] * np.sqrt(sizes / VARIANCE), 1.0, rtol=0, atol=0.3)
    yield equal("largest product against largest sum of logarithms", product, logs)
    yield control(
        "nearest in this direction", rate("distance of the means", sizes, away, -0.5, tolerance=0.1, along="n")
    )


@claim(rows=("T14.07", "T14.06"), full={"runs": 200})
def generalises_without_learning(key, *, runs: Size = 20, dim: Size = 10, apart: Size = 5):
    r"""A Gaussian with one variance has the same likelihood on new data, and looks nothing like them.

    $N(\mu,\sigma^2I)$ has $d+1$ parameters: on data of two clusters in $\mathbb R^{10}$ the mean log-likelihoods of
    training data and of as many test data come together as they become more, to less than one percent of their value.
    Yet whoever knows the true law tells its samples from the data in more than 95 of 100 cases. On data of an isotropic
    Gaussian nobody does.
    """
    sizes = 4 ** np.arange(2, 6)

    @jax.jit
    def measure(key):
        centre = apart * jnp.eye(dim)[0]

        def log_clusters(x):
            sides = jnp.stack([jnp.sum(norm.logpdf(x - centre)), jnp.sum(norm.logpdf(x + centre))])
            return jax.scipy.special.logsumexp(sides) - jnp.log(2)

        def told(law, test, log_truth, key):
            """How often the larger of the two densities tells samples of the fit from the data."""
            fake = law.sample(len(test), key=key)
            more = lambda a: jax.vmap(log_truth)(a) > jax.vmap(law.log_prob)(a)  # noqa: E731
            return (jnp.mean(more(test), dtype=float) + jnp.mean(~more(fake), dtype=float)) / 2

        def run(key):
            x_key, s_key, f_key = jax.random.split(key, 3)
            noise = jax.random.normal(x_key, (2, sizes[-1], dim))
            sides = jnp.where(jax.random.bernoulli(s_key, 0.5, (2, sizes[-1], 1)), centre, -centre)
            train, test = noise + sides
            gaps = [held_out_gap(fit_isotropic(train[:n]), train[:n], test[:n]) for n in sizes.tolist()]
            law = fit_isotropic(train)
            plain = told(fit_isotropic(noise[0]), noise[1, :512], lambda x: jnp.sum(norm.logpdf(x)), f_key)
            return jnp.stack(gaps), mean_log_likelihood(law, test), told(law, test[:512], log_clusters, f_key), plain

        return jax.lax.map(run, jax.random.split(key, runs))

    gaps, likelihood, accuracy, plain = measure(key)
    typical = jnp.sqrt(jnp.mean(gaps**2, 0))
    yield monotone("gap between training and test data", typical, "decreasing", x=sizes, along="n")
    yield at_most("gap over likelihood at the largest n", typical[-1] / jnp.abs(likelihood).mean(), 0.01)
    yield at_least("share of samples told from data", accuracy, 0.95)
    # a coin: 1,024 tosses in each run
    yield equal("share where the truth is isotropic", plain.mean(), 0.5, rtol=0, atol=0.05)
    yield control(
        "the truth is not in the family: here it is", at_least("share of samples told from data", plain, 0.95)
    )


@claim(
    rows=("T14.07",),
    erratum="The objective lacks the logarithm of the variance, and the variance lacks a division by the dimension.",
)
def printed_isotropic_fit(key, *, n: Size = 50, dim: Size = 4):
    r"""The Gaussian with one variance that fits best has the mean of the squared distances as its variance.

    As printed: $\mu,\sigma$ minimise $\sum_i|x_i-\mu|^2/\sigma^2$ and are the mean and
    $\sigma^2=\frac1n\sum_i|x_i-\mu|^2$. That sum only falls as $\sigma$ grows. The log-likelihood is minus half of it
    less $\frac{nd}2\ln\sigma^2$, and is stationary at $\sigma^2=\frac1{nd}\sum_i|x_i-\mu|^2$.
    """

    @jax.jit
    def measure(key):
        x = jax.random.normal(key, (n, dim)) * jnp.linspace(0.5, 2.0, dim) + 1.0
        mean = x.mean(0)
        right = fit_isotropic(x).covariance[0, 0]
        wrong = jnp.sum((x - mean) ** 2) / n
        likelihood = lambda t: jnp.mean(jnp.sum(norm.logpdf(x, t[1:], jnp.exp(t[0] / 2)), 1))  # noqa: E731
        short = lambda t: jnp.sum((x - t[1:]) ** 2) / jnp.exp(t[0]) / n  # noqa: E731
        at = lambda variance: jnp.concatenate([jnp.log(variance)[None], mean])  # noqa: E731
        return jax.grad(likelihood)(at(right)), jax.grad(likelihood)(at(wrong)), jax.grad(short)(at(wrong))

    right, wrong, short = measure(key)
    yield printed(equal("slope of the printed sum at the printed fit", short, 0.0, atol=1e-10))
    yield printed(equal("slope of the likelihood at the printed fit", wrong, 0.0, atol=1e-10))
    yield equal("slope of the likelihood at the fit with 1/nd", right, 0.0, atol=1e-12)
