"""Run by benchmarks/differential.py with the Python of Diffrax.

    python _peer_diffrax.py WEIGHTS.npz ITERATIONS PATHS REPEATS

Prints a line of JSON: the loss of Example 1 at the given weights, wall and CPU seconds of one iteration of it, of
`PATHS` paths of geometric Brownian motion with Diffrax's differentiable Brownian path, and their mean.
"""

import json
import sys
import time

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

STEPS, STEP = 100, 0.01


def field(t, u, params):
    for i, (w, b) in enumerate(params):
        u = w @ u + b
        u = jax.nn.relu(u) if i + 1 < len(params) else u
    return u


def loss(params, u):
    found = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Euler(),
        0.0,
        STEPS * STEP,
        STEP,
        jnp.ones(1),
        params,
        saveat=diffrax.SaveAt(ts=STEP * jnp.arange(STEPS + 1)),
    )
    return 0.5 * STEP * jnp.sum((found.ys - u) ** 2)


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


def main(file, iterations, paths, repeats):
    given = np.load(file)
    params = [(jnp.asarray(given[f"w{i}"]), jnp.asarray(given[f"b{i}"])) for i in range(3)]
    u = jnp.asarray(given["u"])

    @jax.jit
    def trained(params):
        def onward(carry, _):
            params, square = carry
            slope = jax.grad(loss)(params, u)
            square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, square, slope)
            params = jax.tree.map(lambda p, g, s: p - 1e-4 * g / jnp.sqrt(s + 1e-8), params, slope, square)
            return (params, square), None

        return jax.lax.scan(onward, (params, jax.tree.map(jnp.zeros_like, params)), length=iterations)[0]

    @jax.jit
    def simulated(key):
        def one(key):
            motion = diffrax.VirtualBrownianTree(0.0, 1.0, tol=STEP / 2, shape=(), key=key)
            terms = diffrax.MultiTerm(
                diffrax.ODETerm(lambda t, s, _: 0.05 * s), diffrax.ControlTerm(lambda t, s, _: 0.5 * s, motion)
            )
            found = diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, 1.0, STEP, jnp.asarray(1.0))
            return found.ys[0]

        return jax.vmap(one)(jax.random.split(key, paths))

    out = {"version": diffrax.__version__, "loss": float(loss(params, u))}
    out["iteration"] = [t / iterations for t in timed(lambda: trained(params), repeats)]
    out["paths"] = timed(lambda: simulated(jax.random.key(0)), repeats)
    out["mean"] = float(simulated(jax.random.key(0)).mean())
    print(json.dumps(out))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
