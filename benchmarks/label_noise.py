"""Double descent of trained networks: 4,000 digits of which 15 % have wrong labels, one hidden layer of growing width.

    python benchmarks/label_noise.py            # minutes on a GPU
    python benchmarks/label_noise.py --small    # a minute on a CPU

At each width 8 networks are trained in one program, each from its own random weights on its own draw of images and of
wrong labels. Squared loss onto the unit vector of the class, so that what is trained is what is taken apart: on test
images with their true labels the mean squared error (Brier score of the outputs) is the squared bias plus the variance
over the 8 draws. Beside both the shares of errors, and where the parameters are as many as the numbers to be fitted.
"""

import argparse
import time
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import mnist
from corollary.nets import MLP, relu, train

CLASSES, WRONG = 10, 0.15


class Size(NamedTuple):
    """How much is trained, on what."""

    widths: tuple[int, ...]
    n: int
    tests: int
    steps: int
    seeds: int = 8
    batch_size: int = 250


FULL = Size((2, 4, 8, 16, 24, 32, 40, 50, 64, 96, 128, 256, 512, 1024, 2048), 4000, 10_000, 20_000)
SMALL = Size((2, 8, 32, 128), 400, 500, 500, batch_size=100)


class Parts(NamedTuple):
    """Of the squared error on test images: the squared bias, the variance, and their sum."""

    bias: jax.Array
    variance: jax.Array
    error: jax.Array


def digits(split):
    """Images as vectors of numbers in [0, 1], and their classes."""
    x, y = mnist(split)
    return np.asarray(x, np.float32).reshape(len(x), -1) / 255, np.asarray(y)


def draws(size: Size):
    """One sample per seed: images, and classes of which some are wrong."""
    x, y = digits("train")
    rng = np.random.default_rng(0)
    rows = np.stack([rng.choice(len(x), size.n, replace=False) for _ in range(size.seeds)])
    turned = rng.integers(1, CLASSES, rows.shape) * (rng.random(rows.shape) < WRONG)
    return jnp.asarray(x[rows]), jnp.asarray((y[rows] + turned) % CLASSES)


@eqx.filter_jit
def outputs(keys, x, y, new, width, steps, batch_size):
    """For each key a network trained on its sample: its share of errors there, and its outputs on new images."""
    optimiser = optax.adam(optax.cosine_decay_schedule(2e-3, steps))

    def one(key, x, y):
        make_key, train_key = jax.random.split(key)
        start = MLP((x.shape[1], width, CLASSES), relu, key=make_key)
        data = x, jax.nn.one_hot(y, CLASSES)
        network = train(start, "squared", data, optimiser, steps=steps, batch_size=batch_size, key=train_key).network
        return jnp.mean(jnp.argmax(jax.vmap(network)(x), 1) != y), jax.vmap(network)(new)

    return jax.vmap(one)(keys, x, y)


@jax.jit
def taken_apart(found, targets) -> Parts:
    """The mean squared error of `found` (draws, examples, classes): both parts without bias of their own.

    The squared distance of the mean over k draws from the target is too large by variance / k.
    """
    draws = found.shape[0]
    variance = jnp.mean(jnp.sum(jnp.var(found, axis=0, ddof=1), -1))
    bias = jnp.mean(jnp.sum((jnp.mean(found, 0) - targets) ** 2, -1)) - variance / draws
    return Parts(bias, variance, jnp.mean(jnp.sum((found - targets) ** 2, -1)))


def main(size: Size) -> None:
    began = time.perf_counter()
    (x, y), (new, truth) = draws(size), digits("test")
    new, truth = jnp.asarray(new[: size.tests]), jnp.asarray(truth[: size.tests])
    targets, keys = jax.nn.one_hot(truth, CLASSES), jax.random.split(jax.random.key(1), size.seeds)
    print(f"{size.n} digits, {WRONG:.0%} wrong labels, {size.seeds} draws, {size.steps} steps: {jax.devices()[0]}")
    print("width  parameters per number    errors: sample    test    squared error =   bias + variance")
    for width in size.widths:
        start = time.perf_counter()
        inside, found = outputs(keys, x, y, new, width, size.steps, size.batch_size)
        parts = jax.tree.map(float, taken_apart(found, targets))
        outside = float(jnp.mean(jnp.argmax(found, -1) != truth))
        share = ((x.shape[-1] + 1) * width + (width + 1) * CLASSES) / (size.n * CLASSES)
        print(
            f"{width:5} {share:22.2f} {float(jnp.mean(inside)):18.4f} {outside:7.4f} {parts.error:16.4f} "
            f"{parts.bias:8.4f} {parts.variance:10.4f}   ({time.perf_counter() - start:.1f} s)",
            flush=True,
        )
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="fewer images, widths and steps, for a CPU")
    main(SMALL if parser.parse_args().small else FULL)
