"""A coupling flow of handwritten digits: exact likelihoods, in bits per pixel.

    python examples/generative/mnist_flow.py --out flow.npz   # on an accelerator some minutes, on a CPU a small flow
    python examples/generative/mnist_flow.py --quick          # seconds, on few images

Grey values are spread over their intervals (a bound of their likelihood), and through their histogram made normal, so
that black is no spike. Squares of pixels become channels; couplings with mixtures of logistic laws move half of them in
turn, both colours of the checkerboard, rows and columns; then half of the channels is done, and the other half goes on
at half the size. In training images are moved by up to a pixel, which costs at most log2(9) / 784 = 0.004 bits, and the
weights are a moving average; test images are as they are. A uniform density costs 8 bits, the histogram alone about 2.
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
    FactorOut,
    Histogram,
    Inverted,
    LayerLoop,
    MixtureCoupling,
    NormalisingFlow,
    Squeeze,
    bits_per_dimension,
    checkerboard_mask,
    dequantised,
)
from corollary.nets import fit, parameter_count
from corollary.network import BatchLoss
from corollary.optimization import trailing

PARTS = 6
# channels of a square of two by two pixels that are kept: the colours of the checkerboard, rows, columns
PAIRS = [(0, 3), (1, 2), (0, 1), (2, 3), (0, 2), (1, 3)]


def _filters(key, out, inputs, size=3):
    return jax.random.normal(key, (size, size, inputs, out)) * (1 / (inputs * size**2)) ** 0.5


def _convolved(x, w):
    return jax.lax.conv_general_dilated(
        x[None], w.astype(x.dtype), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )[0]


def _normal(x, scale):
    """Every pixel's channels with mean square 1."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide**2, -1, keepdims=True) + 1e-6) * scale).astype(x.dtype)


class Gated(eqx.Module):
    """Residual blocks of convolutions with gates: what a coupling asks for, the same everywhere at first."""

    first: jax.Array
    place: jax.Array  # what is known from the place in the image alone
    blocks: list
    last: jax.Array
    shift: jax.Array
    dtype: type = eqx.field(static=True)

    def __init__(self, shape, width, depth, dtype, *, key):
        c, h, w = shape
        keys = jax.random.split(key, 2 * depth + 1)
        self.first, self.place = _filters(keys[0], width, c), jnp.zeros((h, w, width))
        self.blocks = [
            (jnp.ones(width), _filters(a, width, width), jnp.ones(width), _filters(b, 2 * width, width))
            for a, b in zip(keys[1::2], keys[2::2], strict=True)
        ]
        # means of the parts side by side, or they would stay together; wide enough to be almost one at first
        means = jnp.repeat(jnp.linspace(-1.5, 1.5, PARTS), c)
        self.shift = jnp.zeros((2 + 3 * PARTS) * c).at[(2 + PARTS) * c : (2 + 2 * PARTS) * c].set(means)
        self.last, self.dtype = jnp.zeros((3, 3, width, (2 + 3 * PARTS) * c)), dtype

    def __call__(self, x):
        x = _convolved(x.transpose(1, 2, 0).astype(self.dtype), self.first) + self.place.astype(self.dtype)
        for a, v, b, w in self.blocks:
            h = _convolved(jax.nn.silu(_normal(x, a)), v)
            h, gate = jnp.split(_convolved(jax.nn.silu(_normal(h, b)), w), 2, -1)
            x = x + h * jax.nn.sigmoid(gate)
        out = _convolved(jax.nn.silu(_normal(x, 1.0)), self.last).astype(jnp.float32) + self.shift
        out = out.transpose(2, 0, 1)
        r, s, weights, mu, nu = jnp.split(out, np.cumsum([1, 1, PARTS, PARTS]) * (len(out) // (2 + 3 * PARTS)))
        bounded = lambda a, most: most * jnp.tanh(a / most)  # noqa: E731
        return jnp.concatenate([bounded(r, 3.0), s, weights, mu, bounded(nu, 5.0)])


def kept(shape, channels):
    mask = np.zeros(shape, bool)
    mask[list(channels)] = True
    return mask


def flow(counts, width, depth, rounds, dtype, *, key):
    """Couplings of 4 channels at half the size, each pair `rounds` times, and of 8 at a quarter of it."""
    keys = iter(jax.random.split(key, 64))

    def coupling(mask):
        return MixtureCoupling(mask, Gated(mask.shape, width, depth, dtype, key=next(keys)), PARTS)

    outer, inner = (4, 14, 14), (8, 7, 7)
    board, halves = checkerboard_mask(inner), [(0, 3, 5, 6), (1, 2, 4, 7), (0, 1, 2, 3), (4, 5, 6, 7)]
    # the last of the fine ones moves what is factored out
    fine = LayerLoop([coupling(kept(outer, pair)) for pair in [*PAIRS * rounds, (0, 1)]])
    coarse = LayerLoop([coupling(m) for m in [*(kept(inner, half) for half in halves), board, ~board] * rounds])
    layers = [Histogram(counts), Squeeze(), fine, FactorOut([Squeeze(), coarse, Inverted(Squeeze())])]
    return NormalisingFlow(layers, (1, 28, 28))


def bits(network, batch, key):
    """Bits per pixel of every image of bytes."""
    x = dequantised(batch[:, None].astype(jnp.float32), key=key)
    return bits_per_dimension(jax.vmap(network.log_prob)(x), 784)


@BatchLoss
def moved_bits(network, batch, *, key):
    """The mean of images that are moved by up to one pixel; their margins are black."""
    key, move_key = jax.random.split(key)
    moves = jax.random.randint(move_key, (len(batch), 2), 0, 3)
    padded = jnp.pad(batch, ((0, 0), (1, 1), (1, 1)))
    moved = jax.vmap(lambda a, m: jax.lax.dynamic_slice(a, (m[0], m[1]), (28, 28)))(padded, moves)
    return jnp.mean(bits(network, moved, key))


@eqx.filter_jit
def score(network, x, key):
    one = lambda given: bits(network, given[0][None], given[1])[0]  # noqa: E731
    return jax.lax.map(one, (x, jax.random.split(key, len(x))), batch_size=min(500, len(x)))


def main(steps, batch, rate, width, depth, rounds, train, test, count, out):
    (x, _), (new, _) = mnist("train"), mnist("test")
    x, new = jnp.asarray(x[:train]), jnp.asarray(new[:test])
    dtype = jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16
    counts = np.bincount(np.asarray(x).ravel(), minlength=256)
    network = flow(counts, width, depth, rounds, dtype, key=jax.random.key(0))
    print(f"{parameter_count(network):,} parameters on {jax.default_backend()}, {len(x):,} images, {steps:,} steps")
    warm = optax.warmup_cosine_decay_schedule(0.0, rate, min(500, steps // 5), steps, 0.01 * rate)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(warm, b2=0.99))
    began = time.perf_counter()
    run = fit(
        network, moved_bits, x, trailing(optimiser, 0.999), steps=steps, batch_size=batch, key=jax.random.key(1),
        every=min(500, steps), progress=False,
    )  # fmt: skip
    network, seconds = run.network, time.perf_counter() - began
    print(f"trained in {seconds:.0f} s, {steps * batch / seconds:,.0f} images/s with compilation; ", end="")
    print(
        "bits on the way:",
        *(f"{float(part.mean()):.3f}" for part in np.array_split(run.losses, min(10, steps))),
        flush=True,
    )
    for name, images in (("training", x[: len(new)]), ("test", new)):
        each = np.asarray(score(network, images, jax.random.key(2)))
        error = each.std() / len(each) ** 0.5
        print(f"{len(each):,} {name} images: at most {each.mean():.4f} ± {error:.4f} bits per pixel", flush=True)
    began = time.perf_counter()
    draw = eqx.filter_jit(lambda network, key: network.sample(min(count, 1000), key=key))
    keys = jax.random.split(jax.random.key(3), -(-count // 1000))
    samples = np.concatenate([np.asarray(draw(network, key)) for key in keys])[:, 0]
    print(f"{len(samples):,} samples in {time.perf_counter() - began:.0f} s", flush=True)
    if out:
        written = np.clip(np.floor(256 * samples), 0, 255).astype(np.uint8)
        np.savez_compressed(out, x=written, likelihood=f"<= {each.mean():.4f} bits/pixel")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="of training")
    parser.add_argument("--out", help="where to write samples, as flow.npz, for judge.py")
    parser.add_argument("--quick", action="store_true", help="few images and steps, narrow networks")
    args = parser.parse_args()
    if args.quick:
        settings = dict(steps=4, batch=8, width=4, depth=1, rounds=1, train=100, test=8, count=4)
    elif jax.default_backend() == "cpu":
        settings = dict(steps=500, batch=32, width=16, depth=1, rounds=1, train=60_000, test=500, count=64)
    else:
        settings = dict(steps=4000, batch=256, width=64, depth=2, rounds=2, train=60_000, test=10_000, count=10_000)
    main(rate=1e-3, out=args.out, **settings | ({"steps": args.steps} if args.steps else {}))
