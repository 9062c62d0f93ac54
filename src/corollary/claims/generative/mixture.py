"""How near mixtures of Gaussians come to any law."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from corollary.evidence import Size, at_most, claim, control, rate
from corollary.generative import mixture_from_quantiles

COUNTS = np.array([5, 10, 20, 40, 80])


@claim(rows=("T14.12",))
def mixtures_approximate_every_law(key, *, points: Size = 4000):
    r"""Every law on the line is approximated by mixtures of Gaussians, in distribution and not in total variation.

    With $k$ equal Gaussians at the quantiles $\frac{i-1/2}k$ of a continuous law and deviations that are small against
    their distances, the distribution functions differ by at most $\frac1{2k}$ and a part of a step more where a
    Gaussian smooths it: the largest difference falls as $\frac1k$. An exponential law, a uniform one and one with two
    humps. For fixed $k$ and ever smaller deviations the total variation goes to 1.
    """
    shift = jax.random.uniform(key, minval=1.0, maxval=3.0)
    narrow = jnp.array([1e-2, 1e-3, 1e-4, 1e-5])

    @jax.jit
    def measure(shift):
        def humps(u):  # half of a uniform law on [0, 1], half of one on [1 + shift, 2 + shift]
            return 2 * u + shift * (u > 0.5)

        def humps_cdf(t):
            return (jnp.clip(t, 0, 1) + jnp.clip(t - 1 - shift, 0, 1)) / 2

        laws = {
            "exponential": (lambda u: -jnp.log1p(-u), lambda t: -jnp.expm1(-jnp.maximum(t, 0))),
            "uniform": (lambda u: u, lambda t: jnp.clip(t, 0, 1)),
            "two humps": (humps, humps_cdf),
        }

        def distance(law, count):
            quantile, cdf = law
            mixture = mixture_from_quantiles(quantile, count, 1e-3 / count)
            t = jax.vmap(quantile)((jnp.arange(points) + 0.5) / points)
            stairs = jnp.mean(norm.cdf(t[:, None], mixture.means[:, 0], 1e-3 / count), 1)
            return jnp.max(jnp.abs(stairs - cdf(t)))

        def variation(s):
            """Of five Gaussians to the uniform law, over the points where either has mass."""
            mixture = mixture_from_quantiles(lambda u: u, 5, s)
            eps = jnp.linspace(-6, 6, 400)
            z = (mixture.means + s * eps).ravel()
            density = jnp.mean(norm.pdf(z[:, None], mixture.means[:, 0], s), 1)
            # 1 - the common part: the integral of min(1, p), near the means only, at most their total width
            return 1 - jnp.sum(jnp.minimum(1.0, density)) * s * (eps[1] - eps[0])

        sup = jnp.stack([jnp.stack([distance(law, count) for count in COUNTS.tolist()]) for law in laws.values()])
        return sup, jax.vmap(variation)(narrow)

    sup, variation = measure(shift)
    for name, values in zip(("exponential", "uniform", "two humps"), sup, strict=True):
        yield rate(
            f"{name}: largest difference of distribution functions", COUNTS, values, -1.0, tolerance=0.1, along="k"
        )
    # a jump of 1/k, smoothed over a thousandth of it at most
    yield at_most("largest difference against 1/2k", sup, 0.5 / COUNTS, rtol=0.01, x=COUNTS, along="k")
    yield control(
        "convergence in distribution: here in total variation",
        rate("five Gaussians, by their deviation", narrow, variation, 1.0, tolerance=0.5, along="deviation"),
    )
