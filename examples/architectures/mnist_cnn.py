"""A convolutional network reads handwritten digits.

    python examples/architectures/mnist_cnn.py
    python examples/architectures/mnist_cnn.py --quick     # seconds, on few images

Convolution, ReLU and pooling, and again, then affine layers. On a CPU two convolutions of 5 by 5 and three
epochs; on an accelerator six of 3 by 3, and the images moved by up to two pixels, anew in every step.
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from corollary.data import mnist
from corollary.nets import fit, parameter_count
from corollary.nets.convolutional import ConvolutionalNetwork, Stage
from corollary.network import BatchLoss

SMALL = (Stage(16, 5, padding=2, pool=2), Stage(32, 5, padding=2, pool=2))
LARGE = tuple(Stage(width, 3, padding=1, pool=p) for width in (64, 128, 256) for p in (1, 2))


def shifted(x, key, reach=2):
    """Every image moved by up to `reach` pixels both ways; zeros come in."""
    padded = jnp.pad(x, ((0, 0), (0, 0), (reach, reach), (reach, reach)))
    moves = jax.random.randint(key, (x.shape[0], 2), 0, 2 * reach + 1)
    return jax.vmap(lambda a, m: jax.lax.dynamic_slice(a, (0, m[0], m[1]), x.shape[1:]))(padded, moves)


def pixels(x):
    return x[:, None].astype(jnp.float32) / 255  # bytes of shape (n, 28, 28), as they lie in memory


@BatchLoss
def plain_loss(model, batch):
    x, y = batch
    logits = model.batch(pixels(x))
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@BatchLoss
def moving_loss(model, batch, *, key):
    x, y = batch
    logits = model.batch(shifted(pixels(x), key))
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@eqx.filter_jit
def right(model, x, y):
    return jnp.mean(model.batch(pixels(x)).argmax(1) == y)


def accuracy(model, x, y, parts=10):
    pieces = zip(jnp.split(x, parts), jnp.split(y, parts), strict=True)
    return sum(float(right(model, *piece)) for piece in pieces) / parts


def main(epochs, batch, rate, train, test, large):
    (x, y), (new, answers) = mnist("train"), mnist("test")
    x, y, new, answers = x[:train], y[:train], jnp.asarray(new[:test]), jnp.asarray(answers[:test])
    options = {"stages": LARGE, "hidden": (256,)} if large else {"stages": SMALL, "hidden": (128,)}
    model = ConvolutionalNetwork((1, 28, 28), outputs=10, key=jax.random.key(0), **options)
    print(f"{parameter_count(model):,} parameters on {jax.default_backend()}, {len(x):,} images, {epochs} epochs")
    steps = epochs * (len(x) // batch)
    schedule = optax.cosine_onecycle_schedule(steps, rate)
    optimiser = optax.adamw(schedule, weight_decay=1e-2 if large else 1e-4)
    start = time.perf_counter()
    data = (jnp.asarray(x), jnp.asarray(y))
    loss = moving_loss if large else plain_loss
    trained = fit(model, loss, data, optimiser, steps=steps, batch_size=batch, key=jax.random.key(1))
    seconds = time.perf_counter() - start
    share = float(accuracy(trained.network, new, answers))
    print(f"test accuracy {share:.2%} after {seconds:.0f} s; last losses {float(trained.losses[-20:].mean()):.4f}")


if __name__ == "__main__":
    on_cpu = jax.default_backend() == "cpu"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3 if on_cpu else 25)
    parser.add_argument("--batch", type=int, default=100 if on_cpu else 250)
    parser.add_argument("--rate", type=float, default=3e-3 if on_cpu else 1e-3)
    parser.add_argument("--train", type=int, default=60_000, help="how many of the images to train on")
    parser.add_argument("--test", type=int, default=10_000, help="and how many to test on")
    parser.add_argument("--large", action="store_true", default=not on_cpu)
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that it runs")
    args = parser.parse_args()
    if args.quick:
        args.train, args.test, args.epochs, args.batch = 600, 500, 1, 50
    main(args.epochs, args.batch, args.rate, args.train, args.test, args.large)
