"""A neural differential equation learns u' = -u - u² from one solution: Example 1 of Chapter 22, all 20,000 iterations.

    python examples/differential/neural_ode.py
    python examples/differential/neural_ode.py --iterations 3000

A network with two hidden layers of 200 units is the right-hand side, solved by Euler's method with 100 steps of 0.01
and trained by RMSprop along the exact gradient of half the integral of the squared distance. As in the text, but with
each state compared to the target at the same time: the listing there compares it to the previous one, which even the
truth does not fit. Printed are the largest distance from the target, and from the true right-hand side on the
values that the solution takes.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import optax

from corollary.differential import solve
from corollary.nets import MLP, relu

STEPS, STEP = 100, 0.01
TIMES = STEP * jnp.arange(STEPS + 1)


def true_field(u):
    return -u - u**2


def target():
    return solve(true_field, jnp.ones(1), TIMES, method="euler")


def model(key, width=200):
    return MLP((1, width, width, 1), relu, key=key)


def rate(k):
    """The text's steps, which are shortened every thousand iterations."""
    return optax.piecewise_constant_schedule(0.01, {1000: 0.5, 2000: 0.5, 3000: 0.4, 4000: 0.5, 5000: 0.2})(k)


def loss(network, u):
    """Half the integral of the squared distance, by the sum over the steps."""
    v = solve(network, jnp.ones(1), TIMES, method="euler")
    return 0.5 * STEP * jnp.sum((v - u) ** 2)


@jax.jit
def trained(network, state, u, numbers):
    """As many iterations as there are numbers, and the loss before each."""
    optimiser = optax.rmsprop(rate, decay=0.99)

    def onward(carry, _):
        network, state = carry
        value, slope = jax.value_and_grad(loss)(network, u)
        update, state = optimiser.update(slope, state)
        return (optax.apply_updates(network, update), state), value

    return jax.lax.scan(onward, (network, state), numbers)


def main(iterations, block, width):
    u = target()
    network = model(jax.random.key(0), width)
    state = optax.rmsprop(rate, decay=0.99).init(network)
    began = time.perf_counter()
    for k in range(0, iterations, block):
        (network, state), losses = jax.block_until_ready(trained(network, state, u, jnp.arange(block)))
        if k // block % 4 == 0 or k + block >= iterations:
            print(f"{k + block:6d} iterations, {time.perf_counter() - began:5.1f} s: loss {losses[-1]:.2e}", flush=True)
    v = solve(network, jnp.ones(1), TIMES, method="euler")
    values = jnp.linspace(u.min(), 1.0, 101)[:, None]
    apart = jnp.abs(jax.vmap(network)(values) - true_field(values)).max()
    print(f"largest distance from the target {jnp.abs(v - u).max():.1e} (bar: 1e-2),", end=" ")
    print(f"of the right-hand sides {apart:.1e}; u(1) = {v[-1, 0]:.6f}, Euler's {u[-1, 0]:.6f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=20_000)
    parser.add_argument("--width", type=int, default=200)
    given = parser.parse_args()
    main(given.iterations, min(1000, given.iterations), given.width)
