"""The risk of linear models where the truth is known."""

import jax
import jax.numpy as jnp

from corollary.evidence import Count, Size, at_least, claim, control, equal, estimate
from corollary.foundations import FiniteLaw
from corollary.generalization import Planted, linear_risk


def _law(features, probability, noise, weight, truth):
    """The law of features and labels for a noise with these values, one row per point, of these probabilities."""
    y = (features @ truth)[:, None] + noise
    joint = probability[:, None] * weight
    return FiniteLaw(jnp.repeat(features, weight.shape[0], 0), y.ravel(), joint.ravel())


@claim(rows=("B13.01", "B13.03", "B13.04"))
def excess_risk(key, *, points: Size = 9, dim: Size = 4, draws: Count = 60, samples: Count = 20_000):
    r"""Under a planted model the least risk is the variance of the noise, and the excess a quadratic form.

    Let $y=w_*\cdot\phi(x)+\epsilon$ with $\mathbb E\epsilon=0$, $\mathbb E\epsilon^2=\sigma^2$, $\epsilon$ independent
    of $x$. Then $\mathcal R(w)=\mathbb E(y-w\cdot\phi(x))^2$ has its least value $\sigma^2$ at $w_*$, and $\mathcal
    R(w)-\sigma^2=(w-w_*)^\top\Sigma(w-w_*)$ with $\Sigma=\mathbb E\phi(x)\phi(x)^\top$. Without mean 0, or with a mean
    that depends on $x$, it is not so.
    """

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 7)
        features = jax.random.normal(keys[0], (points, dim))
        probability = jax.random.dirichlet(keys[1], jnp.ones(points))
        weight = jax.random.dirichlet(keys[2], jnp.ones(3))
        values = jax.random.normal(keys[3], (3,))
        noise = jnp.tile(values - weight @ values, (points, 1))
        sigma = jnp.sqrt(weight @ noise[0] ** 2)
        truth, w = jax.random.normal(keys[4], (dim,)), jax.random.normal(keys[5], (draws, dim))
        covariance = jnp.einsum("k,ki,kj->ij", probability, features, features)

        def risk(law, w):
            return law.expectation(lambda x, y: (y - w @ x) ** 2)

        laws = {
            "planted": _law(features, probability, noise, weight, truth),
            "shifted": _law(features, probability, noise + 1, weight, truth),
            "dependent": _law(features, probability, noise + features[:, :1] ** 2, weight, truth),
        }
        measured = {name: jax.vmap(lambda v, law=law: risk(law, v))(w) for name, law in laws.items()}
        at_truth = jax.value_and_grad(lambda v: risk(laws["planted"], v))(truth)
        mix = jnp.linalg.cholesky(covariance)
        drawn = Planted(lambda x: truth @ x, lambda key: mix @ jax.random.normal(key, (dim,)), 0.5)
        x, y = drawn.sample(samples, key=keys[6])
        return (
            measured,
            linear_risk(w, truth, covariance, sigma),
            at_truth,
            sigma**2,
            ((y - x @ w[0]) ** 2, linear_risk(w[0], truth, covariance, 0.5)),
        )

    measured, predicted, (least, slope), variance, (losses, sampled) = measure(key)
    yield equal("risk, summed over the law", measured["planted"], predicted)
    yield equal("risk at the truth", least, variance)
    yield equal("gradient at the truth", slope, 0.0, atol=1e-12)
    yield at_least("risk elsewhere", measured["planted"], variance)
    yield estimate("loss on drawn data", losses, sampled, wrong=0.25)
    yield control("noise of mean 0: here 1", equal("risk", measured["shifted"], predicted))
    yield control(
        "noise independent of x: here its mean is a square of x", equal("risk", measured["dependent"], predicted)
    )
