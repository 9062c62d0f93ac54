"""A Wasserstein GAN learns to write digits, and a classifier of real ones judges what it writes.

    python examples/generative/wgan_mnist.py                  # on an accelerator, about a minute
    python examples/generative/wgan_mnist.py --clip 0.01      # the critic's weights cut back, in the place of a penalty
    python examples/generative/wgan_mnist.py --quick          # seconds, on few images

Generator and critic take turns in one compiled loop. Printed are what the critic finds between real and written digits,
the Fréchet distance in the features of a classifier, beside what it is between two halves of the real images, how sure
that classifier is of the written digits, and how many of each it counts.
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import mnist
from corollary.generative import WGAN, frechet_distance, train_wgan
from corollary.nets import fit, parameter_count


class Generator(eqx.Module):
    """From a seed to 7 by 7 places, twice twice as large, by convolutions of 5 by 5."""

    first: eqx.nn.Linear
    convolutions: list

    def __init__(self, latents, width, *, key):
        keys = jax.random.split(key, 3)
        sizes = (2 * width, width), (width, 1)
        self.first = eqx.nn.Linear(latents, 2 * width * 49, key=keys[0])
        self.convolutions = [
            eqx.nn.Conv2d(a, b, 5, padding=2, key=k) for (a, b), k in zip(sizes, keys[1:], strict=True)
        ]

    def __call__(self, z):
        x = self.first(z).reshape(-1, 7, 7)
        for convolution in self.convolutions:
            x = convolution(jnp.repeat(jnp.repeat(jax.nn.relu(x), 2, 1), 2, 2))
        return jax.nn.sigmoid(x)


class Reader(eqx.Module):
    """Two convolutions of 5 by 5 with stride 2 and an affine layer: a critic with one output, a classifier with ten."""

    convolutions: list
    hidden: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self, outputs, width, *, key):
        keys = jax.random.split(key, 4)
        sizes = (1, width), (width, 2 * width)
        self.convolutions = [
            eqx.nn.Conv2d(a, b, 5, 2, padding=2, key=k) for (a, b), k in zip(sizes, keys[:2], strict=True)
        ]
        self.hidden = eqx.nn.Linear(2 * width * 49, 64, key=keys[2])
        self.last = eqx.nn.Linear(64, outputs, key=keys[3])

    def features(self, x):
        for convolution in self.convolutions:
            x = jax.nn.leaky_relu(convolution(x), 0.2)
        return jax.nn.leaky_relu(self.hidden(x.ravel()), 0.2)

    def __call__(self, x):
        return self.last(self.features(x))


@eqx.filter_jit
def seen(reader, x):
    """Features and class probabilities of many images, a hundred at a time."""
    one = lambda image: (reader.features(image), jax.nn.softmax(reader(image)))  # noqa: E731
    return jax.lax.map(one, x, batch_size=100)


def main(rounds, batch, width, latents, clip, penalty, images, samples, reading, out):
    x, y = (a[:images] for a in mnist("train"))
    x = jnp.asarray(x[:, None], jnp.float32) / 255
    keys = jax.random.split(jax.random.key(0), 5)
    start = time.perf_counter()
    reader = fit(
        Reader(10, 16, key=keys[0]), "cross_entropy", (x, jnp.asarray(y)), optax.adam(1e-3), steps=reading,
        batch_size=100, key=keys[1], progress=False,
    ).network  # fmt: skip
    real, classes = seen(reader, x[:samples])
    right = float(jnp.mean(classes.argmax(1) == y[:samples]))
    print(f"classifier: {right:.1%} of {samples} real digits, {time.perf_counter() - start:.0f} s", flush=True)

    pair = WGAN(Generator(latents, width, key=keys[2]), Reader(1, width, key=keys[3]), latents=latents)
    sizes = parameter_count(pair.generator), parameter_count(pair.critic)
    print(f"generator of {sizes[0]:,} parameters, critic of {sizes[1]:,}, on {jax.default_backend()}", flush=True)
    start = time.perf_counter()
    optimiser = optax.adam(2e-4, b1=0.5, b2=0.9) if clip is None else optax.rmsprop(5e-5)
    bound = {"penalty": penalty} if clip is None else {"clip": clip}
    run = train_wgan(pair, x, optimiser, steps=rounds, batch_size=batch, key=keys[4], **bound)
    found = -np.asarray(run.losses)
    seconds = time.perf_counter() - start
    part = max(rounds // 20, 1)
    print(
        f"{rounds} rounds in {seconds:.0f} s with compilation, {rounds * 6 * batch / seconds:,.0f} images/s", flush=True
    )
    print(
        f"critic's verdict less the penalty: {found.max():.2f} at most, {found[-part:].mean():.2f} at the end",
        flush=True,
    )

    written = jax.lax.map(run.gan.generator, jax.random.normal(jax.random.key(1), (samples, latents)), batch_size=100)
    features, guesses = seen(reader, written)
    half = samples // 2
    near, floor = frechet_distance(real, features), frechet_distance(real[:half], real[half:])
    print(f"Fréchet distance {float(near):.2f}, two halves of real ones {float(floor):.2f}")
    sure = float(guesses.max(1).mean()), float(classes.max(1).mean())
    print(f"classifier sure of written digits {sure[0]:.1%}, of real ones {sure[1]:.1%}")
    print("digits 0 to 9 among them:", *np.bincount(np.asarray(guesses.argmax(1)), minlength=10).tolist())
    if out:
        np.savez_compressed(out, x=np.asarray(jnp.round(255 * written[:, 0]), np.uint8))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=64, help="channels of the larger layers")
    parser.add_argument("--latents", type=int, default=64)
    parser.add_argument("--clip", type=float, default=None)
    parser.add_argument("--penalty", type=float, default=10.0)
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--reading", type=int, default=2000, help="steps of the classifier")
    parser.add_argument("--out", default=None, help="where to write the digits, as wgan.npz, for judge.py")
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that it runs")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.batch, args.width, args.images, args.samples, args.reading = 4, 8, 4, 400, 200, 10
    quick = vars(args)
    quick.pop("quick")
    main(**quick)
