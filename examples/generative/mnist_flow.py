"""A coupling flow of handwritten digits: exact likelihoods, in bits per pixel.

    python examples/generative/mnist_flow.py               # on a CPU a small flow in some minutes
    python examples/generative/mnist_flow.py --quick       # seconds, on few images

Grey values are spread over their intervals (a bound of their likelihood), logits taken, and squares of pixels made
channels, twice. Couplings alternate between the two colours of a checkerboard, and after matrices that mix the channels
between halves of these. A uniform density costs 8 bits, one that knows the grey values' own frequencies about 2.
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import mnist
from corollary.generative import (
    AffineCoupling,
    Invertible1x1,
    Logit,
    NormalisingFlow,
    Squeeze,
    bits_per_dimension,
    checkerboard_mask,
    dequantised,
    half_mask,
)
from corollary.nets import fit, parameter_count
from corollary.network import BatchLoss


def _filters(key, out, inputs, size=3, scale=1.0):
    return scale * jax.random.normal(key, (out, inputs, size, size)) * jnp.sqrt(2 / (inputs * size**2))


def _convolved(x, w):
    return jax.lax.conv(x[None], w, (1, 1), "SAME")[0]


class Residual(eqx.Module):
    """Residual blocks of convolutions: r and s of a coupling, 0 at first, and r bounded so that nothing overflows."""

    first: jax.Array
    blocks: list
    last: jax.Array
    shift: jax.Array

    def __init__(self, channels, width, depth, *, key):
        keys = jax.random.split(key, 2 * depth + 1)
        self.first = _filters(keys[0], width, channels)
        self.blocks = [
            (_filters(a, width, width), _filters(b, width, width, scale=0.3))
            for a, b in zip(keys[1::2], keys[2::2], strict=True)
        ]
        self.last, self.shift = jnp.zeros((2 * channels, width, 3, 3)), jnp.zeros((2 * channels, 1, 1))

    def __call__(self, x):
        x = _convolved(x, self.first)
        for v, w in self.blocks:
            x = x + _convolved(jax.nn.relu(_convolved(jax.nn.relu(x), v)), w)
        r, s = jnp.split(_convolved(jax.nn.relu(x), self.last) + self.shift, 2)
        return jnp.concatenate([2 * jnp.tanh(r / 2), s])


def mixed(channels, key):
    """A random rotation of the channels."""
    return Invertible1x1(jnp.linalg.qr(jax.random.normal(key, (channels, channels)))[0])


def flow(width, depth, counts, *, key):
    keys = iter(jax.random.split(key, 64))
    layers = [Logit(), Squeeze()]
    for i in range(counts[0]):
        mask = checkerboard_mask((4, 14, 14)) ^ (i % 2 == 1)
        layers.append(AffineCoupling(mask, Residual(4, width, depth, key=next(keys))))
    for shape, count in (((4, 14, 14), counts[1]), ((16, 7, 7), counts[2])):
        if shape[0] == 16:
            layers.append(Squeeze())
        for _ in range(count):
            coupling = AffineCoupling(half_mask(shape), Residual(shape[0], width, depth, key=next(keys)))
            layers += [mixed(shape[0], next(keys)), coupling]
    return NormalisingFlow(layers, (1, 28, 28))


@BatchLoss
def bits(network, batch, *, key):
    """Bits per pixel of a batch of bytes."""
    x = dequantised(batch[:, None].astype(jnp.float32), key=key)
    return jnp.mean(bits_per_dimension(jax.vmap(network.log_prob)(x), 784))


def main(steps, batch, rate, width, depth, counts, train, test):
    (x, _), (new, _) = mnist("train"), mnist("test")
    x, new = x[:train], jnp.asarray(new[:test])
    network = flow(width, depth, counts, key=jax.random.key(0))
    print(f"{parameter_count(network):,} parameters on {jax.default_backend()}, {len(x):,} images, {steps:,} steps")
    warm = optax.warmup_cosine_decay_schedule(0.0, rate, min(500, steps // 5), steps, 0.01 * rate)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(warm))
    began = time.perf_counter()
    network = fit(network, bits, x, optimiser, steps=steps, batch_size=batch, key=jax.random.key(1)).network
    print(f"trained in {time.perf_counter() - began:.0f} s", flush=True)
    score = eqx.filter_jit(lambda x, key: bits(network, x, key=key))
    parts = jnp.split(new, len(new) // min(500, len(new)))
    found = [float(score(part, key)) for part, key in zip(parts, jax.random.split(jax.random.key(2), 99), strict=False)]
    print(f"test images: at most {np.mean(found):.4f} bits per pixel")
    samples = eqx.filter_jit(lambda key: network.sample(4, key=key))(jax.random.key(3))
    print(f"samples between {float(samples.min()):.2f} and {float(samples.max()):.2f}", flush=True)
    return network


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="of training")
    parser.add_argument("--quick", action="store_true", help="few images and steps, narrow networks")
    given = parser.parse_args()
    if given.quick:
        main(20, 16, 1e-3, 4, 1, (1, 1, 1), 200, 40)
    elif jax.default_backend() == "cpu":
        main(given.steps or 1000, 64, 1e-3, 16, 1, (2, 2, 2), 60_000, 1000)
    else:
        main(given.steps or 20_000, 256, 1e-3, 64, 2, (4, 4, 6), 60_000, 10_000)
