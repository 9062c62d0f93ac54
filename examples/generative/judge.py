"""One table of samplers of digits: likelihood, Fréchet distance, repetitions, and what a classifier learns from them.

    python examples/generative/judge.py vae.npz flow.npz diffusion.npz wgan.npz
    python examples/generative/judge.py --quick           # seconds: without files, the real digits alone

Files are what the examples beside this one write with `--out`: bytes `x`, and `labels` and `likelihood` where there are
any. A convolutional network learns real digits; the Fréchet distance is between the means and covariances of its last
maps on samples and on real digits, beside that between two halves of the real ones. The birthday test says how many
different digits there are at least, if each had the same probability. The same network learns from the samples alone,
with their labels or those that the network of the real digits reads ("read"), and is tested on real digits.
"""

import argparse
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import mnist
from corollary.generative import birthday_test, frechet_distance
from corollary.nets import fit
from corollary.nets.convolutional import ConvolutionalNetwork, Stage
from corollary.network import BatchLoss


def shifted(x, key, reach=2):
    """Every image moved by up to `reach` pixels both ways; zeros come in."""
    padded = jnp.pad(x, ((0, 0), (0, 0), (reach, reach), (reach, reach)))
    moves = jax.random.randint(key, (x.shape[0], 2), 0, 2 * reach + 1)
    return jax.vmap(lambda a, m: jax.lax.dynamic_slice(a, (0, m[0], m[1]), x.shape[1:]))(padded, moves)


def pixels(x):
    return x[:, None].astype(jnp.float32) / 255


@BatchLoss
def moving_loss(network, batch, *, key):
    x, y = batch
    return optax.softmax_cross_entropy_with_integer_labels(network.batch(shifted(pixels(x), key)), y).mean()


def taught(x, y, widths, epochs, batch):
    """The classifier after some epochs on moved digits."""
    stages = tuple(Stage(width, 3, padding=1, pool=pool) for width in widths for pool in (1, 2))
    network = ConvolutionalNetwork((1, 28, 28), stages, 10, key=jax.random.key(0), hidden=(256,))
    steps = epochs * (len(x) // batch)
    optimiser = optax.adamw(optax.cosine_onecycle_schedule(steps, 1e-3), weight_decay=1e-2)
    data = jnp.asarray(x), jnp.asarray(y, jnp.int32)
    key = jax.random.key(1)
    return fit(network, moving_loss, data, optimiser, steps=steps, batch_size=batch, key=key, progress=False).network


@eqx.filter_jit
def seen(network, x):
    """The mean over the places of the last maps, and the class, of every image."""

    def one(image):
        return network.maps(image)[-1].mean((1, 2)), network(image).argmax()

    return jax.lax.map(one, pixels(x), batch_size=min(500, len(x)))


def repetitions(x, size):
    """How many digits there are at least, from those that repeat themselves."""

    def sample(count, *, key):
        chosen = jax.random.choice(key, len(x), (count,), replace=False)
        return jnp.asarray(x[np.asarray(chosen)], jnp.float32).reshape(count, -1)

    found = birthday_test(sample, min(size, len(x)), key=jax.random.key(2))
    return f"{int(found.size - found.distinct)} of {found.size}, at least {float(found.interval[0]):,.0f}"


def main(files, widths, epochs, batch, images, test, most, size):
    (x, y), (new, answers) = ((a[:n], b[:n]) for (a, b), n in ((mnist("train"), images), (mnist("test"), test)))
    began = time.perf_counter()
    reader = taught(x, y, widths, epochs, batch)
    right = lambda network: float(np.mean(np.asarray(seen(network, jnp.asarray(new))[1]) == answers))  # noqa: E731
    features = np.asarray(seen(reader, jnp.asarray(x))[0])
    print(f"classifier and features of {len(x):,} real digits in {time.perf_counter() - began:.0f} s", flush=True)
    line = "{:12} {:>24} {:>10} {:>10} {:>36} {:>12}"
    print(line.format("samples", "likelihood", "Fréchet", "floor", "repetitions", "accuracy"))
    half = len(x) // 2

    def floor(count):
        return float(frechet_distance(features[:count], features[half : half + count]))

    count = min(half, most)
    print(line.format("real", "", "", f"{floor(count):.3f}", repetitions(x, size), f"{right(reader):.2%}"), flush=True)
    for file in files:
        with np.load(file) as given:
            found = {name: given[name] for name in given.files}
        count = min(half, most, len(found["x"]))
        maps, read = (np.asarray(part) for part in seen(reader, jnp.asarray(found["x"])))
        near = float(frechet_distance(maps[:count], features[:count]))
        learned = f"{right(taught(found['x'], found.get('labels', read), widths, epochs, batch)):.2%}"
        learned += "" if "labels" in found else " read"
        said = str(found.get("likelihood", ""))
        row = Path(file).stem, said, f"{near:.3f}", f"{floor(count):.3f}", repetitions(found["x"], size), learned
        print(line.format(*row), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="samples, as the other examples write them")
    parser.add_argument("--quick", action="store_true", help="few images and steps")
    args = parser.parse_args()
    if args.quick:
        settings = dict(widths=(4, 8), epochs=1, batch=20, images=100, test=50, most=50, size=40)
    elif jax.default_backend() == "cpu":
        settings = dict(widths=(16, 32), epochs=2, batch=100, images=60_000, test=10_000, most=10_000, size=1000)
    else:
        settings = dict(widths=(64, 128, 256), epochs=25, batch=250, images=60_000, test=10_000, most=10_000, size=2000)
    main(args.files, **settings)
