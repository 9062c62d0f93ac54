"""Two ways to differentiate a mean by the law of its variable, and how much they scatter."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import (
    Count,
    Positive,
    Real,
    at_least,
    claim,
    control,
    equal,
    estimate,
    rate,
)
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
