"""What encoding and decoding does to a law."""

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

from corollary.evidence import Size, claim, control, equal, estimate, same_law
from corollary.generative import GaussianMixture, LatentModel, LinearGaussian


@claim(rows=("T14.03", "M15.05"))
def decoding_what_was_encoded(key, *, n: Size = 20_000):
    r"""An example that is encoded and decoded by samples is another example of the same law.

    If $x$ has the law of the model, $h\sim p(h|x)$ and $x'\sim p(x|h)$, then $x'$ has it too, but is not $x$: in a
    linear model with noise of variance $s^2$ in $n$ coordinates, $\mathbb E\|x'-x\|^2=2ns^2$. A mixture of Gaussians
    and a linear model, whose law of $x$ is normal and whose evidence is that of quadrature over $z$. With the
    posterior of another model the law changes.
    """
    mixture = GaussianMixture([0.4, 0.6], [[-1.0], [2.0]], [[[0.5]], [[1.5]]])
    weights, bias, variance = jnp.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]), jnp.array([0.0, 1.0, -1.0]), 0.5

    @jax.jit
    def measure(key):
        x_key, m_key, h_key, *keys = jax.random.split(key, 7)
        model = LinearGaussian(weights, bias, variance)
        other = LinearGaussian(weights, bias, 8 * variance)
        _, x = model.sample(n, key=x_key)

        def again(coder, x, key):
            code_key, draw_key = jax.random.split(key)
            return model.decoder.sample(coder.encode(x, key=code_key), key=draw_key)

        def sweep(x, key):
            code_key, draw_key = jax.random.split(key)
            return mixture.decode(mixture.encode(x, key=code_key), key=draw_key)

        y = jax.vmap(lambda x, key: again(model, x, key))(x, jax.random.split(keys[0], n))
        wrong = jax.vmap(lambda x, key: again(other, x, key))(x, jax.random.split(keys[1], n))
        u = mixture.sample(n, key=m_key)
        v = jax.vmap(sweep)(u, jax.random.split(h_key, n))
        grid = jax.vmap(lambda x: LatentModel(model.decoder, 2).log_evidence(x, nodes=60))(x[:20])
        exact = jax.vmap(model.log_evidence)(x[:20])
        return y, jnp.sum((x - y) ** 2, 1), wrong, v, grid, exact

    y, moved, wrong, v, grid, exact = measure(key)
    spread = jnp.sqrt(jnp.sum(weights**2, 1) + variance)
    law = lambda i: lambda t: norm.cdf(t, bias[i], spread[i])  # noqa: E731
    narrow = lambda i: lambda t: norm.cdf(t, bias[i], jnp.sqrt(spread[i] ** 2 - variance))  # noqa: E731
    yield equal("linear: evidence against quadrature", grid, exact, rtol=1e-9)
    yield same_law("linear: second coordinate after a sweep", y[:, 1], law(1), wrong=narrow(1))
    yield estimate("linear: squared distance to what was encoded", moved, 2 * 3 * variance, wrong=0.0)
    halves = lambda t: 0.4 * norm.cdf(t, -1.0, 0.5**0.5) + 0.6 * norm.cdf(t, 2.0, 1.5**0.5)  # noqa: E731
    yield same_law("mixture: after a sweep", v, halves, wrong=lambda t: norm.cdf(t, 0.8, 3.26**0.5))
    yield control(
        "the posterior of the model: here of one with more noise",
        same_law("second coordinate after a sweep", wrong[:, 1], law(1), wrong=narrow(1)),
    )
