"""A volatility, learned from the price of one option: Example 2 of Chapter 22.

    python examples/differential/neural_sde.py                 # 2,000 paths an iteration on a CPU, 10,000 elsewhere
    python examples/differential/neural_sde.py --tiny          # seconds, to see that it runs

dS = 0.05 S dt + m(S) dW with a network for m (two hidden layers of 200 units), Euler's scheme with 100 steps, trained
by RMSprop to the price of a call with strike 1.05 under m(S) = S/2, which is itself simulated. The gradient is that of
two independent groups of paths, unbiased. Several seeds end at the same price with different volatilities: one price
does not determine them. The price of a trained network is the mean over its last ten iterations, each on fresh paths;
the bar is three standard errors around the exact price under Euler's scheme, the errors of the evaluation and of the
simulated target added.
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.differential import NeuralSDE, black_scholes_call, euler_call, euler_maruyama, two_path_gradient
from corollary.nets import MLP, relu

SPOT, STRIKE, INTEREST, VOLATILITY, STEPS = 1.0, 1.05, 0.05, 0.5, 100
START, LAST = jnp.full(1, SPOT), 10
SEEN = jnp.linspace(0.6, 1.8, 5)


def drift(s):
    return INTEREST * s


def true_volatility(s):
    return VOLATILITY * s


def payoff(end):
    return jnp.exp(-INTEREST) * jax.nn.relu(end - STRIKE)


@eqx.filter_jit
def price(sde, paths, parts, key):
    """The mean payoff over `parts` times `paths` paths, and its standard error."""

    def one(key):
        g = payoff(euler_maruyama(sde, START, 1.0, steps=STEPS, paths=paths, key=key))
        return g.mean(), (g**2).mean()

    mean, square = (a.mean() for a in jax.lax.map(one, jax.random.split(key, parts)))
    return mean, jnp.sqrt((square - mean**2) / (paths * parts))


@eqx.filter_jit
def trained(y, key, iterations, paths, evaluated, width):
    """The last ten networks and their prices, with the standard error of the mean price."""
    first, training, testing = jax.random.split(key, 3)
    sde = NeuralSDE(drift, MLP((1, width, width, 1), relu, key=first))
    params, fixed = eqx.partition(sde, eqx.is_inexact_array)
    # the text's step of 0.001 to begin with; where it stayed, the price would go on jumping by it
    optimiser = optax.rmsprop(optax.cosine_decay_schedule(1e-3, iterations, 0.02), decay=0.99)

    def onward(carry, key):
        params, state = carry
        sde = eqx.combine(params, fixed)
        slope = two_path_gradient(sde, payoff, y, START, 1.0, steps=STEPS, paths=paths, key=key)
        update, state = optimiser.update(eqx.filter(slope, eqx.is_inexact_array), state)
        params = optax.apply_updates(params, update)
        return (params, state), None

    def watched(carry, keys):
        carry, _ = onward(carry, keys[0])
        return carry, price(eqx.combine(carry[0], fixed), evaluated, 1, keys[1])

    carry, _ = jax.lax.scan(onward, (params, optimiser.init(params)), jax.random.split(training, iterations - LAST))
    carry, (prices, errors) = jax.lax.scan(watched, carry, jax.random.split(testing, (LAST, 2)))
    volatility = jnp.abs(jax.vmap(eqx.combine(carry[0], fixed).diffusion)(SEEN[:, None]))[:, 0]
    return prices.mean(), jnp.sqrt(jnp.sum(errors**2)) / LAST, volatility


def main(seeds, iterations, paths, evaluated, parts, width):
    exact = euler_call(SPOT, STRIKE, INTEREST, VOLATILITY, 1.0, steps=STEPS)
    print(f"{jax.devices()[0].device_kind}; exact price under Euler's scheme {exact:.6f}, ", end="")
    print(f"Black-Scholes {float(black_scholes_call(SPOT, STRIKE, INTEREST, VOLATILITY, 1.0)):.6f}", flush=True)
    began = time.perf_counter()
    y, error = price(NeuralSDE(drift, true_volatility), 100_000, parts, jax.random.key(0))
    print(f"simulated target from {parts * 100_000:,} paths: {y:.6f} ± {error:.1e}", end=" ")
    print(f"({time.perf_counter() - began:.1f} s)", flush=True)
    inside = 0
    for seed in range(seeds):
        begin = time.perf_counter()
        found, own, volatility = trained(y[None], jax.random.key(1 + seed), iterations, paths, evaluated, width)
        allowed = 3 * float(np.hypot(own, error))
        inside += abs(found - exact) <= allowed
        said = " ".join(f"{v:.3f}" for v in volatility)
        print(
            f"seed {seed}: price {found:.6f} ± {own:.1e} (allowed: {allowed:.1e} off, it is {found - exact:+.1e}), ",
            end="",
        )
        print(f"volatility {said}, {time.perf_counter() - begin:.1f} s", flush=True)
    print("at the prices                                 ", " ".join(f"{s:.3f}" for s in SEEN))
    print(f"{inside} of {seeds} prices within three standard errors; all in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    on_cpu = jax.default_backend() == "cpu"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1 if on_cpu else 5)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--paths", type=int, default=2000 if on_cpu else 10_000, help="of each group")
    parser.add_argument("--evaluated", type=int, default=20_000 if on_cpu else 100_000)
    parser.add_argument("--parts", type=int, default=5 if on_cpu else 100, help="100,000 paths each, for the target")
    parser.add_argument("--width", type=int, default=200)
    parser.add_argument("--tiny", action="store_true", help="a few paths, to see that it runs")
    given = vars(parser.parse_args())
    if given.pop("tiny"):
        given |= {"seeds": 2, "iterations": 20, "paths": 200, "evaluated": 1000, "parts": 1, "width": 16}
    main(**given)
