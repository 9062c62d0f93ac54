"""A volatility, a network of the price, calibrated to one price of an option."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary._charts import lines
from corollary.differential import (
    NeuralSDE,
    black_scholes_call,
    euler_call,
    euler_maruyama,
    one_path_gradient,
    two_path_gradient,
)
from corollary.evidence import Count, Size, at_least, at_most, claim, control, picture

SPOT, STRIKE, INTEREST, VOLATILITY = 1.0, 1.05, 0.05, 0.5
PRICES = jnp.linspace(0.5, 2.0, 31)


class _Volatility(eqx.Module):
    layers: eqx.nn.MLP

    def __call__(self, s):
        return self.layers(s)


def _equation(key):
    return NeuralSDE(lambda s: INTEREST * s, _Volatility(eqx.nn.MLP(1, 1, 16, 1, key=key)))


def _payoff(ends):
    return jnp.exp(-INTEREST) * jax.nn.relu(ends - STRIKE)


@claim(rows=("M22.19",))
def calibrated_to_a_call(
    key, *, networks: Size = 3, iterations: Size = 200, paths: Size = 256, steps: Size = 20, evaluated: Count = 20_000
):
    r"""Trained on independent pairs of paths a network has the price it was given, and one price leaves it free.

    $dS=rS\,dt+m(S;\theta)\,dW$ with a network for $m$, trained by RMSprop along $(\bar g'-C)\nabla_\theta\bar g$ to the
    price $C$ that Euler's scheme has under $m(S)=\sigma S$, and averaged over the second half of its steps. From
    several random starts fresh paths have that price, while their volatilities differ by far more than the price
    leaves open to a constant one. Along the same path for both factors it ends at another price.
    """
    target = euler_call(SPOT, STRIKE, INTEREST, VOLATILITY, 1.0, steps=steps)
    y, start, method = jnp.full(1, target), jnp.full(1, SPOT), optax.rmsprop(optax.cosine_decay_schedule(1e-2, 400))

    def pairs(sde, key):
        return two_path_gradient(sde, _payoff, y, start, 1.0, steps=steps, paths=paths, key=key)

    def alone(sde, key):
        each = lambda key: one_path_gradient(sde, _payoff, y, start, 1.0, steps=steps, key=key)  # noqa: E731
        return jax.tree.map(lambda g: g.mean(0), jax.vmap(each)(jax.random.split(key, paths)))

    def trained(gradient, key):
        init_key, train_key, test_key = jax.random.split(key, 3)
        params, static = eqx.partition(_equation(init_key), eqx.is_inexact_array)

        def onward(carry, key):
            params, state, mean, k = carry
            moved, state = method.update(gradient(eqx.combine(params, static), key), state)
            params = optax.apply_updates(params, moved)
            k = k + 1
            weight = jnp.where(k > iterations // 2, 1 / (k - iterations // 2), 0.0)
            mean = jax.tree.map(lambda m, p: jnp.where(k > iterations // 2, m + weight * (p - m), p), mean, params)
            return (params, state, mean, k), None

        first = params, method.init(params), params, 0
        (_, _, mean, _), _ = jax.lax.scan(onward, first, jax.random.split(train_key, iterations))
        sde = eqx.combine(mean, static)
        ends = euler_maruyama(sde, start, 1.0, steps=steps, paths=evaluated, key=test_key)
        payoffs = _payoff(ends[:, 0])
        return payoffs.mean(), payoffs.std(), jnp.abs(jax.vmap(sde.diffusion)(PRICES[:, None]))[:, 0]

    prices, spreads, volatilities = jax.jit(jax.vmap(lambda key: trained(pairs, key)))(jax.random.split(key, networks))
    biased, spread, _ = jax.jit(lambda key: trained(alone, key))(key)
    # The error of the evaluation, and that of an average over the steps, which knows the price no better than all the
    # paths it has seen; five standard errors, for several networks are looked at.
    shares = 1 / evaluated + 1 / (paths * (iterations - iterations // 2))
    allowed = 5 * float(np.max(spreads)) * np.sqrt(shares)
    miss = np.abs(np.asarray(prices) - target)
    # a constant volatility would be known from the price as well as the price is known, over the slope between them
    slope = float(jax.grad(black_scholes_call, 3)(SPOT, STRIKE, INTEREST, VOLATILITY, 1.0))
    apart = np.ptp(np.asarray(volatilities), axis=0).max()
    yield at_most("distance of the price from its target", miss, allowed)
    yield at_least("distance between the learned volatilities", apart, allowed / slope)
    yield control(
        "the two factors come from independent paths: here from one and the same",
        at_most("distance of the price", abs(float(biased) - target), 5 * float(spread) * np.sqrt(shares)),
    )
    rows = [
        {"price of the stock": float(s), "volatility": float(m), "what": name}
        for name, curve in [
            *((f"network {i + 1}", v) for i, v in enumerate(np.asarray(volatilities))),
            ("the one that made the price", VOLATILITY * PRICES),
        ]
        for s, m in zip(PRICES, curve, strict=True)
    ]
    yield picture("volatilities with one price", lines(rows, "price of the stock", "volatility", colour="what"))
