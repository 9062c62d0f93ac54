"""Stochastic networks: their error, how it is estimated, and with what confidence."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from corollary.evidence import Probability, Range, Size, claim, control, equal, estimate, frequency_at_most, monotone
from corollary.foundations import kl_inverse
from corollary.generalization import StochasticNetwork
from corollary.nets import MLP, tanh
from corollary.network import Network


@claim(rows=("B09.12",), full={"repetitions": 20_000})
def errors_of_fresh_networks(
    key,
    *,
    n: Size = 800,
    d: Annotated[int, Range(2, 50)] = 6,
    draws: Annotated[int, Range(2, 50)] = 2,
    noise: Annotated[float, Range(0.1, 10.0)] = 0.7,
    delta: Probability = 0.05,
    repetitions: Annotated[int, Range(2000, 20_000)] = 2000,
):
    r"""A fresh network for each prediction makes independent trials, and the error has a limit with any confidence.

    With weights $N(\theta_i,s^2)$ a linear classifier is wrong at $(x,y)$, $y=\pm1$, with probability
    $\Phi(-y\,\theta\cdot x/(s\|x\|))$. Its error $q$ on a sample is the mean of these; it is that of the network itself
    as $s\to0$, and grows with $s$ where all examples are on their right side. Of $m$ predictions, each by a network
    that was drawn for it, a share $\hat q$ is wrong, and $q\le\mathrm{kl}^{-1}(\hat q,\frac1m\ln\frac1\delta)$ with
    probability $1-\delta$. Deeper networks, drawn layer by layer, err as often as whole networks do.
    """
    theta_key, x_key, run_key, deep_key = jax.random.split(key, 4)
    theta, x = jax.random.normal(theta_key, (d,)), jax.random.normal(x_key, (n, d))
    y = jnp.sign(x @ theta)
    scales = np.geomspace(1e-3, 10.0, 9)

    def linear(theta, scale):
        return StochasticNetwork(Network(lambda w, x: w @ x, theta[None]), scale)

    @jax.jit
    def exact(theta, x, y, scales):
        wrong = jax.vmap(lambda s: norm.cdf(-y * (x @ theta) / (s * jnp.linalg.norm(x, axis=1))))(scales)
        return jnp.mean(wrong, 1)

    @jax.jit
    def measure(theta, x, y, key):
        law = linear(theta, noise)

        def fresh(key):
            return law.errors((x, y), draws=draws, key=key) / (n * draws)

        def whole(key):
            networks = jax.random.normal(key, (draws, d)) * noise + theta
            return jnp.mean((networks @ x.T) * y < 0)

        keys = jax.random.split(key, repetitions)
        shares = jax.lax.map(lambda k: (fresh(k), whole(k)), keys, batch_size=500)
        along = jnp.stack([linear(theta, s).errors((x, y), draws=100, key=key) for s in scales]) / (100 * n)
        return shares, along

    @jax.jit
    def deep(key, x):
        net_key, fresh_key, whole_key = jax.random.split(key, 3)
        law = StochasticNetwork(MLP((d, 8, 1), tanh, key=net_key), noise)
        labels = jnp.sign(x[:, 0])
        keys = jax.random.split(fresh_key, (500, n))
        layers = jax.vmap(lambda ks: jax.vmap(lambda a, k: law(a, key=k)[0])(x, ks))(keys)
        drawn = jax.vmap(lambda k: jax.vmap(law.draw(key=k))(x)[:, 0])(jax.random.split(whole_key, 500))
        return jnp.mean(layers * labels < 0, 1), jnp.mean(drawn * labels < 0, 1)

    q = float(exact(theta, x, y, np.array([noise]))[0])
    (fresh, whole), along = measure(theta, x, y, run_key)
    yield estimate("share of wrong predictions", np.asarray(fresh), q, wrong=0.0)
    expected = np.asarray(exact(theta, x, y, scales))
    # 100 trials for each of n examples: six standard errors of a share
    spread = 6 * np.sqrt(expected.max() / (100 * n))
    yield equal("error with the scale of the noise", np.asarray(along), expected, atol=spread, x=scales, along="scale")
    yield monotone("exact error with the scale of the noise", expected, strict=True, x=scales, along="scale")
    layers, drawn = map(np.asarray, deep(deep_key, x))
    yield estimate("errors of two layers, drawn by layers or whole", layers - drawn, 0.0, wrong=0.05)

    def beyond(shares):
        return q > np.asarray(kl_inverse(shares, np.log(1 / delta) / (n * draws)))

    yield frequency_at_most("error above its limit", beyond(fresh), delta)
    yield control(
        "each prediction is by a network of its own: here each network predicts for all examples",
        frequency_at_most("error above its limit", beyond(whole), delta),
    )
