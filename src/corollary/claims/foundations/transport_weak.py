"""The Wasserstein distance of order 1 is zero between equal laws only, and metrises weak convergence."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from corollary.evidence import Size, at_least, at_most, claim, control, equal, rate
from corollary.foundations import kantorovich, panels, total_variation, wasserstein

#: functions with slopes of at most 1, and their means under N(0, 1)
TESTS = {
    "sine": (jnp.sin, 0.0),
    "cosine": (jnp.cos, np.exp(-0.5)),
    "modulus": (jnp.abs, np.sqrt(2 / np.pi)),
    "positive part": (jax.nn.relu, np.sqrt(1 / (2 * np.pi))),
    "hat": (lambda x: jax.nn.relu(1 - jnp.abs(x)), None),
}


def _to_the_normal_law(x):
    """The distance of the empirical law of x from N(0, 1), the integral of |F - Φ| between its jumps, exactly."""
    x, n = jnp.sort(x), x.size
    ends = jnp.concatenate([jnp.array([-40.0]), x, jnp.array([40.0])])
    levels = jnp.arange(n + 1) / n
    primitive = lambda t: t * norm.cdf(t) + norm.pdf(t)  # of Φ  # noqa: E731
    # where Φ passes the level, the sign of the difference changes
    middle = jnp.clip(norm.ppf(jnp.clip(levels, 1e-300, 1 - 1e-16)), ends[:-1], ends[1:])
    below = levels * (middle - ends[:-1]) - (primitive(middle) - primitive(ends[:-1]))
    above = primitive(ends[1:]) - primitive(middle) - levels * (ends[1:] - middle)
    return jnp.sum(below + above)


@claim(rows=("M15.29",), full={"runs": 400})
def transport_metrises_weak_convergence(key, *, runs: Size = 60, pairs: Size = 40, n: Size = 6):
    r"""The distance of order 1 vanishes between equal laws only, and where it goes to 0 laws converge weakly.

    $W_1(\mu,\nu)=0$ implies $\mu=\nu$: for random laws on six points it is at least the total variation times the least
    distance of two points. $|\mathbb E_\nu\varphi-\mathbb E_\mu\varphi|\le\mathrm{Lip}(\varphi)W_1(\mu,\nu)$, so that
    $W_1(\mu,\nu^k)\to0$ makes the means of all such functions converge: for the empirical laws of $k$ samples of
    $N(0,1)$ it falls as $k^{-1/2}$. $\delta_{1/k}$ goes to $\delta_0$ with $W_1=\frac1k$, while their total variation
    stays 1. The other way round weak convergence needs first moments: $(1-\frac1k)\delta_0+\frac1k\delta_k$ goes to
    $\delta_0$ weakly, and stays at the distance 1.
    """
    counts = 2 ** np.arange(4, 12)

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 4)
        points = jax.random.normal(keys[0], (pairs, n, 2))
        p, q = jax.random.dirichlet(keys[1], jnp.ones(n), (2, pairs))
        cost = jnp.sqrt(jnp.sum((points[:, :, None] - points[:, None]) ** 2, -1))
        moved = jax.lax.map(lambda given: kantorovich(*given).value, (p, q, cost))
        itself = jax.lax.map(lambda given: kantorovich(given[0], given[0], given[1]).value, (p, cost))
        least = jnp.min(jnp.where(jnp.eye(n, dtype=bool), jnp.inf, cost), (1, 2))
        x = jax.random.normal(keys[2], (runs, counts[-1]))
        nodes, weights = panels(jnp.linspace(-1.0, 1.0, 3), 20)
        hat = jnp.sum(weights * TESTS["hat"][0](nodes) * norm.pdf(nodes))

        def one(x):
            distance = jnp.stack([_to_the_normal_law(x[:k]) for k in counts])
            means = [(f, hat if mean is None else mean) for f, mean in TESTS.values()]
            off = jnp.stack([jnp.stack([jnp.abs(f(x[:k]).mean() - mean) for k in counts]) for f, mean in means])
            return distance, off

        k = jnp.asarray(counts, float)
        shrinking = jnp.stack([wasserstein(jnp.zeros(1), jnp.full(1, 1 / k)) for k in counts])
        far = jnp.stack([kantorovich([1.0], [1 - 1 / k, 1 / k], [[0.0, float(k)]]).value for k in counts])
        bounded = (1 / k) * jnp.tanh(k)  # the mean of tanh under that law, 0 under δ_0
        apart = total_variation(jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]))
        floor = least * jax.vmap(total_variation)(p, q)
        return moved, floor, itself, jax.lax.map(one, x), shrinking, far, bounded, apart

    moved, floor, itself, (distance, off), shrinking, far, bounded, apart = measure(key)
    yield at_least("distance of two laws over six points", moved, floor, rtol=1e-10)
    yield equal("distance of a law to itself", itself, 0.0, atol=1e-14)
    yield at_most("differences of means of five functions", np.asarray(off), np.asarray(distance)[:, None], rtol=1e-9)
    mean = np.asarray(distance).mean(0)
    # 60 runs know each mean to 6 %, seven doublings the slope to 0.03
    yield rate("distance of samples to their law", counts, mean, -0.5, tolerance=0.1, along="samples")
    yield equal("distance of points at 1/k and 0", shrinking, 1 / counts, rtol=1e-12)
    yield equal("their total variation", apart, 1.0, rtol=1e-14)
    yield rate("mean of tanh under (1 - 1/k) δ(0) + (1/k) δ(k)", counts, bounded, -1.0, tolerance=0.01)
    yield control(
        "first moments converge: here those of (1 - 1/k) δ(0) + (1/k) δ(k) do not",
        rate("distance to the weak limit", counts, far, -1.0, tolerance=0.1, along="k"),
    )
