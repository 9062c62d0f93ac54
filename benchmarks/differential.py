"""An iteration of Example 1 of Chapter 22 and 10,000 stochastic paths beside PyTorch, torchdiffeq and Diffrax.

    python benchmarks/differential.py
    python benchmarks/differential.py --iterations 5 --paths 500 --repeats 1       # a look whether it runs

Example 1: 100 steps of Euler's method with a network of two hidden layers of 200 units as the right-hand side, half the
integral of the squared distance from a target, its gradient, and a step of RMSprop: the same weights on all sides,
whose losses must agree. The paths: geometric Brownian motion, 100 steps, 10,000 at once. Wall and CPU time are both
the least of several calls after the first. The bars, on two cores and in wall time: 25 times the loop in PyTorch and
torchdiffeq, twice Diffrax's Euler, and 20 times Diffrax's differentiable Brownian path. Peers live in environments of
their own under benchmarks/.peers, installed when first needed.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _environment import environment

from corollary.differential import NeuralSDE, euler_maruyama, solve
from corollary.nets import MLP, relu

STEPS, STEP = 100, 0.01
TIMES = STEP * jnp.arange(STEPS + 1)
BARS = {"listing": 25, "torchdiffeq": 25, "Diffrax, Euler": 2, "Diffrax, Brownian path": 20}


def loss(network, u):
    return 0.5 * STEP * jnp.sum((solve(network, jnp.ones(1), TIMES, method="euler") - u) ** 2)


def timed(function, repeats):
    """The least wall and CPU time of a call after the first."""
    jax.block_until_ready(function())
    wall, busy = [], []
    for _ in range(repeats):
        began = time.perf_counter(), time.process_time()
        jax.block_until_ready(function())
        wall.append(time.perf_counter() - began[0])
        busy.append(time.process_time() - began[1])
    return min(wall), min(busy)


def ours(network, u, iterations, paths, repeats):
    optimiser = optax.rmsprop(1e-4, decay=0.99)

    @jax.jit
    def trained(network):
        def onward(carry, _):
            network, state = carry
            update, state = optimiser.update(jax.grad(loss)(network, u), state)
            return (optax.apply_updates(network, update), state), None

        return jax.lax.scan(onward, (network, optimiser.init(network)), length=iterations)[0]

    sde = NeuralSDE(lambda s: 0.05 * s, lambda s: 0.5 * s)

    @jax.jit
    def simulated(key):
        return euler_maruyama(sde, jnp.ones(1), 1.0, steps=STEPS, paths=paths, key=key)

    iteration = [t / iterations for t in timed(lambda: trained(network), repeats)]
    key = jax.random.key(0)
    found = {"loss": float(jax.jit(loss)(network, u)), "mean": float(simulated(key).mean())}
    return found | {"iteration": iteration, "paths": timed(lambda: simulated(key), repeats)}


def peer(python, script, *arguments):
    words = [python, Path(__file__).parent / script, *map(str, arguments)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main(iterations, paths, repeats):
    network = MLP((1, 200, 200, 1), relu, key=jax.random.key(0))
    u = solve(lambda u: -u - u**2, jnp.ones(1), TIMES, method="euler")
    mine = ours(network, u, iterations, paths, repeats)
    print(f"loss of Example 1: ours {mine['loss']:.6f}", end=", ", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "weights.npz"
        weights = {f"w{i}": np.asarray(layer.weight) for i, layer in enumerate(network.layers)}
        biases = {f"b{i}": np.asarray(layer.bias) for i, layer in enumerate(network.layers)}
        np.savez(file, u=np.asarray(u), **weights, **biases)
        torch = environment("torchdiffeq", ["torch==2.13.0"], ["torchdiffeq==0.2.5"])
        diffrax = environment("diffrax", ["diffrax==0.7.2"])
        loops = peer(torch, "_peer_torch_ode.py", file, max(iterations // 5, 2), repeats)
        solved = peer(diffrax, "_peer_diffrax.py", file, iterations, paths, repeats)
    print(f"PyTorch {loops['loss']:.6f}, Diffrax {solved['loss']:.6f}")
    if max(abs(mine["loss"] - other["loss"]) for other in (loops, solved)) > 1e-4 * mine["loss"]:
        raise SystemExit("The sides do not compute the same.")
    rows = {name: (mine["iteration"], loops[name]) for name in ("listing", "torchdiffeq", "adjoint of torchdiffeq")}
    rows |= {"Diffrax, Euler": (mine["iteration"], solved["iteration"])}
    rows |= {"Diffrax, Brownian path": (mine["paths"], solved["paths"])}
    missed = []
    for name, (own, other) in rows.items():
        wall, busy = (b / a for a, b in zip(own, other, strict=True))
        bar = f" (bar {BARS[name]})" if name in BARS else ""
        print(f"{name:24s} {1e3 * other[0]:9.2f} ms, ours {1e3 * own[0]:7.2f} ms: {wall:6.1f} times{bar}; ", end="")
        print(f"CPU {1e3 * other[1]:.2f} and {1e3 * own[1]:.2f} ms: {busy:.1f} times", flush=True)
        missed += [name] if wall < BARS.get(name, 0) else []
    spread = 4 * 0.6 / paths**0.5  # four standard errors of the mean of the end
    print(f"mean of the paths: ours {mine['mean']:.4f}, Diffrax {solved['mean']:.4f},", end=" ")
    print(f"true {np.exp(0.05):.4f} ± {spread:.4f}")
    raise SystemExit(f"Below the bar: {', '.join(missed)}." if missed else 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--paths", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    main(given.iterations, given.paths, given.repeats)
