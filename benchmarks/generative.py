"""Training steps of a coupling flow beside zuko and FlowJAX, and of a variational auto-encoder beside PyTorch.

    pip install -e '.[bench]' && python benchmarks/generative.py
    CPU_CLOCK=1 python benchmarks/generative.py             # CPU time, where others work on the same machine

The flow: two dimensions, six affine couplings with networks of 64 and 64 units, batches of 256, Adam. The auto-encoder:
784-200-200-50 and back, binary images, batches of 100, Adam; its loss on one batch with the same weights and the same
noise is compared before the times are. Ours are stretches of `corollary.nets.train`, theirs the loops that their own
documentation shows: FlowJAX's compiled `step` in a loop from Python, zuko's and PyTorch's as they are or compiled,
whichever is quicker. One after the other, best of several stretches. Peers live in environments of their own under
benchmarks/.peers, installed when first needed. The bars: 4 times zuko, 1.3 times FlowJAX, 1.3 times PyTorch.
"""

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from _beside_pytorch import python as python_with_torch
from _environment import environment

from corollary.generative import (
    VAE,
    AffineCoupling,
    BernoulliDecoder,
    GaussianEncoder,
    NormalisingFlow,
    flow_loss,
    vae_loss,
)
from corollary.nets import parameter_count, train

CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter
PEERS = {
    "zuko": [["torch==2.13.0"], ["zuko==1.6.0", "numpy"]],
    "flowjax": [["flowjax==19.1.2", f"jax=={jax.__version__}"]],
}
LATENTS, WIDTH, PIXELS, BATCH = 50, 200, 784, 100


def peer(python, script, *words, **given):
    """Hand arrays to a script of this folder in its own Python, and get arrays back."""
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(files[0], **given)
        subprocess.run([python, Path(__file__).parent / script, *words, *files], check=True)
        return dict(np.load(files[1]))


def seconds_a_step(stretch, steps, repeats):
    """The best of several stretches after the first, which compiles."""
    times = []
    for _ in range(repeats + 1):
        began = CLOCK()
        jax.block_until_ready(stretch())
        times.append((CLOCK() - began) / steps)
    return min(times[1:])


def flow():
    keys = jax.random.split(jax.random.key(0), 6)
    first = np.array([True, False])
    layers = [AffineCoupling(first if i % 2 else ~first, eqx.nn.MLP(2, 4, 64, 2, key=k)) for i, k in enumerate(keys)]
    return NormalisingFlow(layers, 2)


def flows(steps, repeats):
    x = np.random.default_rng(0).normal(size=(4096, 2)).astype(np.float32)
    x[:, 1] += x[:, 0] ** 2
    model, data = flow(), jnp.asarray(x)

    def stretch():
        run = train(model, flow_loss(), data, optax.adam(1e-3), steps=steps, batch_size=256, key=jax.random.key(1))
        return run.losses

    ours = seconds_a_step(stretch, steps, repeats)
    end = float(stretch()[-20:].mean())
    print(
        f"coupling flow, {parameter_count(model):,} parameters: {1e3 * ours:.3f} ms a step, loss {end:.3f}", flush=True
    )
    for name, bar in (("zuko", 4.0), ("flowjax", 1.3)):
        found = peer(environment(name, *PEERS[name]), "_peer_flows.py", name, x=x, steps=steps, repeats=repeats)
        theirs = float(found["seconds"])
        said = f"{name} {found['version']!s}, {int(found['parameters']):,} parameters: {1e3 * theirs:.3f} ms a step"
        print(f"{said}, loss {float(found['loss']):.3f}: {theirs / ours:.2f} times ours, bar {bar}", flush=True)
        yield theirs / ours >= bar


def autoencoder(steps, repeats):
    rng = np.random.default_rng(0)
    x = (rng.uniform(size=(4096, PIXELS)) < rng.uniform(size=PIXELS) ** 2).astype(np.float32)
    eps = rng.normal(size=(BATCH, LATENTS)).astype(np.float32)
    keys = jax.random.split(jax.random.key(0))
    encoder = eqx.nn.MLP(PIXELS, 2 * LATENTS, WIDTH, 2, jnp.tanh, key=keys[0])
    decoder = eqx.nn.MLP(LATENTS, PIXELS, WIDTH, 2, jnp.tanh, key=keys[1])
    model, data = VAE(GaussianEncoder(encoder, LATENTS), BernoulliDecoder(decoder)), jnp.asarray(x)
    loss = -float(jnp.mean(jax.jit(jax.vmap(model.elbo))(data[:BATCH], eps[:, None])))

    def stretch():
        run = train(model, vae_loss(), data, optax.adam(1e-3), steps=steps, batch_size=BATCH, key=jax.random.key(1))
        return run.losses

    ours = seconds_a_step(stretch, steps, repeats)
    weights = {
        f"{side}.{i}.{what}": np.asarray(getattr(layer, what))
        for side, network in (("encoder", encoder), ("decoder", decoder))
        for i, layer in enumerate(network.layers)
        for what in ("weight", "bias")
    }
    found = peer(python_with_torch(), "_peer_vae.py", x=x, eps=eps, steps=steps, repeats=repeats, **weights)
    theirs = float(found["seconds"])
    print(f"auto-encoder, loss of one batch: ours {loss:.4f}, PyTorch's {float(found['loss']):.4f}", flush=True)
    said = f"auto-encoder: {1e3 * ours:.3f} ms a step, PyTorch {found['version']!s} {1e3 * theirs:.3f}"
    print(f"{said} ({found['how']!s}): {theirs / ours:.2f} times ours, bar 1.3", flush=True)
    yield abs(loss - float(found["loss"])) < 1e-3 * abs(loss)
    yield theirs / ours >= 1.3


def main(steps, repeats):
    clock = "CPU" if CLOCK is time.process_time else "wall"
    print(f"{jax.devices()[0].device_kind}, {clock} time, best of {repeats} stretches of {steps} steps", flush=True)
    reached = [*flows(steps, repeats), *autoencoder(steps, repeats)]
    raise SystemExit(not all(reached))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    main(args.steps, args.repeats)
