"""Two ways to differentiate a mean by the law of its variable, and how much they scatter."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from corollary.evidence import Count, Positive, Real, Size, at_least, claim, control, equal, estimate, rate, same_law
from corollary.foundations import gauss_legendre, normal_rule
from corollary.generative import DiagonalGaussian, estimator_variance, reparametrised_gradient, score_gradient

HOW = ("score", "reparametrised")


def _law(theta):
    """A normal law with means theta[0] and deviations theta[1]."""
    return DiagonalGaussian(theta[0], theta[1])


@claim(rows=("M15.12",), full={"samples": 1_000_000})
def variance_of_both_estimators(key, *, mu: Real = 0.7, sigma: Positive = 0.5, samples: Count = 200_000):
    r"""The score estimator scatters, more with every dimension; the reparametrised one does not notice the dimension.

    For $f(z)=\|z\|^2$ and $Z\sim N(\mu,\sigma^2I)$ in $d$ dimensions with all means $\mu$, the derivative by one mean
    is $2\mu$. One sample of it has the variance $4\sigma^2$ along the path. By the score it has
    $\frac{\mu^4+18\mu^2\sigma^2+15\sigma^4+2(\mu^2+3\sigma^2)B_1+B_2}{\sigma^2}-4\mu^2$ with
    $B_1=(d-1)(\mu^2+\sigma^2)$ and $B_2=B_1^2+(d-1)(2\sigma^4+4\mu^2\sigma^2)$, which is
    $\frac{\mu^4}{\sigma^2}+14\mu^2+15\sigma^2$ at $d=1$ and grows as $d^2$. At $\mu=0.7$,
    $\sigma=0.5$: 11.570 against 1.000. The baseline $\mu^2+3\sigma^2$ lowers it to $8\mu^2+6\sigma^2$. All of this is
    for an $f$ that hardly turns within $\sigma$: for $\cos20z$ the path scatters more.
    """
    dims = np.array([16, 32, 64, 128, 256])

    def score_variance(d):
        first = (d - 1) * (mu**2 + sigma**2)
        second = first**2 + (d - 1) * (2 * sigma**4 + 4 * mu**2 * sigma**2)
        fourth = mu**4 + 18 * mu**2 * sigma**2 + 15 * sigma**4
        return (fourth + 2 * (mu**2 + 3 * sigma**2) * first + second) / sigma**2 - 4 * mu**2

    square = lambda z: jnp.sum(z**2)  # noqa: E731
    wave = lambda z: jnp.cos(20 * z[0])  # noqa: E731

    @jax.jit
    def measure(key, theta):
        one_key, *keys = jax.random.split(key, dims.size + 1)
        eps = jax.random.normal(one_key, (1000, samples // 1000, 1))

        def terms(f, baseline=0.0):
            """The two estimates of the derivative by the mean, from one sample each, in blocks."""

            def both(e):
                z = _law(theta).reparametrise(e)[None]
                by_score = score_gradient(f, _law, theta, z, baseline=baseline)
                return jnp.stack([by_score[0, 0], reparametrised_gradient(f, _law, theta, e[None])[0, 0]])

            return jax.vmap(jax.vmap(both))(eps)

        def grown(d, key):
            point = jnp.broadcast_to(theta, (2, d))
            spread = [estimator_variance(square, _law, point, 400_000 // d, key=key, how=how)[0] for how in HOW]
            return jnp.stack([jnp.mean(s) for s in spread])  # all coordinates have one variance

        plain, spread = terms(square), lambda t: jnp.mean((t - 2 * theta[0, 0]) ** 2, 1)
        lowered = terms(square, mu**2 + 3 * sigma**2)[..., 0]
        growth = jnp.stack([grown(d, k) for d, k in zip(dims.tolist(), keys, strict=True)])
        return plain.mean(1), spread(plain), spread(lowered), jnp.var(terms(wave), (0, 1)), growth

    means, spreads, lowered, fast, growth = measure(key, jnp.array([[mu], [sigma]]))
    exact = np.array([score_variance(1), 4 * sigma**2])
    yield estimate("both means", means, [2 * mu, 2 * mu], wrong=[0.0, 0.0])
    # the mean of squared deviations over blocks of 200 samples: near enough to normal for Student's interval
    yield estimate("variances of score and path", spreads, exact, wrong=exact[::-1])
    best = 8 * mu**2 + 6 * sigma**2
    yield estimate("variance of the score with its best baseline", lowered, best, wrong=score_variance(1))
    # the exact slope over these dimensions is 1.95: lower powers of d count there
    yield rate("variance of the score by dimension", dims, growth[:, 0], 2.0, tolerance=0.2, along="dimension")
    yield rate("variance of the path by dimension", dims, growth[:, 1], 0.0, tolerance=0.05, along="dimension")
    # 400,000 terms for each, of a kurtosis of about 100 at most: a relative standard error of 0.016
    yield equal("variance of the score over its formula", growth[:, 0] / score_variance(dims), 1.0, rtol=0, atol=0.1)
    ratio = spreads.mean(0)[0] / spreads.mean(0)[1]
    yield at_least("score over path", ratio, 10.0)
    yield control("f hardly turns within σ: here cos 20z", at_least("score over path", fast[0] / fast[1], 10.0))


class _Categorical(eqx.Module):
    logits: jax.Array

    def log_prob(self, z):
        return jax.nn.log_softmax(self.logits)[z.astype(int)]


class _Uniform(eqx.Module):
    """On [0, high]: the support moves with the parameter."""

    high: jax.Array

    def log_prob(self, z):
        return -jnp.log(self.high)


class _Still(DiagonalGaussian):
    """A normal law whose samples are taken as given: they do not move with the parameters."""

    def reparametrise(self, eps):
        return jax.lax.stop_gradient(super().reparametrise(eps))


@claim(rows=("M15.10", "M15.11", "M15.37", "T14.13", "T14.14"))
def both_estimators_are_unbiased(key, *, laws: Size = 50, samples: Count = 20_000):
    r"""Both estimators have the derivative as their mean; samples that stay where they are have none.

    $\nabla_\theta\mathbb E f(Z)=\mathbb E[f(Z)\nabla_\theta\ln g_\theta(Z)]$ if the support of $g_\theta$ does not
    depend on $\theta$, and $\mathbb E\nabla_\theta f(\mu+\sigma\epsilon)$ for $Z=\mu+\sigma\epsilon$ and differentiable
    $f$. By enumeration of a finite law, and by quadrature for $N(\mu,\sigma^2)$ with $f=z^2$, $\cos z$ and the step
    $\mathbf 1_{z>0}$, for which only the score works: the derivative by $\mu$ is $\varphi(\mu/\sigma)/\sigma$ and along
    the path there is none. For the uniform law on $[0,\theta]$ the score is wrong, and with samples taken as given the
    gradient of the mean of $f$ is 0. $\mu+\sigma\epsilon$ has the law $N(\mu,\sigma^2)$.
    """
    node, weight = normal_rule(161, np.dtype("float64"))
    square, cosine = (lambda z: z[0] ** 2), (lambda z: jnp.cos(z[0]))
    step = lambda z: jnp.where(z[0] > 0, 1.0, 0.0)  # noqa: E731

    @jax.jit
    def measure(key):
        t_key, f_key, m_key, s_key, e_key = jax.random.split(key, 5)
        logits, values = jax.random.normal(t_key, (laws, 6)), jax.random.normal(f_key, (laws, 6))

        def finite(theta, values):
            f = lambda z: values[z.astype(int)]  # noqa: E731
            found = score_gradient(f, _Categorical, theta, jnp.arange(6.0), weights=jax.nn.softmax(theta))
            return found, jax.grad(lambda t: jax.nn.softmax(t) @ values)(theta)

        def normal(mean, deviation):
            theta = jnp.stack([mean, deviation])[:, None]
            z = _law(theta).reparametrise(node[:, None])
            score = [score_gradient(f, _law, theta, z, weights=weight)[:, 0] for f in (square, cosine)]
            path = [
                reparametrised_gradient(f, _law, theta, node[:, None], weights=weight)[:, 0] for f in (square, cosine)
            ]
            damped = jnp.exp(-(deviation**2) / 2)
            exact = [
                jnp.stack([2 * mean, 2 * deviation]),
                -damped * jnp.stack([jnp.sin(mean), deviation * jnp.cos(mean)]),
            ]
            # to the right of the jump, where the step is 1, by a rule of its own
            edge = -mean / deviation
            x, w = (jnp.asarray(a) for a in gauss_legendre(60))
            eps, w = edge + (9 - edge) * x, (9 - edge) * w * norm.pdf(edge + (9 - edge) * x)
            jump = score_gradient(step, _law, theta, _law(theta).reparametrise(eps[:, None]), weights=w)[0, 0]
            none = reparametrised_gradient(step, _law, theta, eps[:, None], weights=w)[0, 0]
            still = lambda theta: _Still(theta[0], theta[1])  # noqa: E731
            naive = reparametrised_gradient(square, still, theta, node[:, None], weights=weight)[:, 0]
            known = norm.pdf(edge) / deviation
            return jnp.stack(score), jnp.stack(path), jnp.stack(exact), jump, none, known, naive

        means = jax.random.normal(m_key, (laws,))
        deviations = jnp.exp(0.4 * jax.random.normal(s_key, (laws,)))
        high = 1 + jnp.abs(means)
        x, w = (jnp.asarray(a) for a in gauss_legendre(8))
        moving = jax.vmap(lambda t: score_gradient(lambda z: z, _Uniform, t, t * x, weights=w))(high)
        eps = jax.random.normal(e_key, (samples, 1))
        drawn = DiagonalGaussian(jnp.array([0.7]), jnp.array([0.5])).reparametrise(eps)
        return jax.vmap(finite)(logits, values), jax.vmap(normal)(means, deviations), moving, drawn

    (found, exact), (score, path, slopes, jump, none, known, naive), moving, drawn = measure(key)
    yield equal("score: finite laws by enumeration", found, exact, rtol=1e-12, atol=1e-14)
    yield equal("score: z² and cos z by quadrature", score, slopes, rtol=1e-9, atol=1e-10)
    yield equal("path: z² and cos z by quadrature", path, slopes, rtol=1e-9, atol=1e-10)
    yield equal("score: the step", jump, known, rtol=1e-9, atol=1e-10)
    yield same_law("μ + σε", drawn, lambda t: norm.cdf(t, 0.7, 0.5), wrong=lambda t: norm.cdf(t, 0.7, 0.5**2))
    yield control("f is differentiable: here a step", equal("path", none, known, rtol=1e-9))
    yield control("the support stands still: here [0, θ]", equal("score", moving, 0.5, rtol=1e-9))
    yield control("samples move with the parameters", equal("z²", naive, slopes[:, 0], rtol=1e-9))
