"""Which labels are wrong? Training points with the largest influence on themselves, worst first.

    python examples/attribution/mislabelled.py
    python examples/attribution/mislabelled.py --images 500 --wrong 20      # seconds

The labels of some MNIST images are replaced by wrong ones, a network is trained on all of them, and the points are
ordered by how much their own loss would grow if they were left out: what only its own presence explains was learned by
heart. For a network of your own, put its inputs and labels in the place of `images` and `y`. Influence is taken in the
last layer here, where the curvature is a small matrix and can be decomposed.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.attribution import self_influence
from corollary.data import mnist
from corollary.nets import MLP, fit, relu


def spoiled(y, wrong, rng):
    """The labels with `wrong` of them replaced by another class, and which those are."""
    chosen = rng.choice(len(y), wrong, replace=False)
    y = y.copy()
    y[chosen] = (y[chosen] + rng.integers(1, 10, wrong)) % 10
    return y, chosen


def last_layer(network):
    """True for the parameters of the last layer."""
    *others, last = network.layers
    chosen = [jax.tree.map(lambda _: False, layer) for layer in others]
    return jax.tree.unflatten(
        jax.tree.structure(network), jax.tree.leaves((chosen, jax.tree.map(lambda _: True, last)))
    )


def main(count, wrong, width, epochs, damping):
    x, y = mnist("train")
    images = np.asarray(x[:count], np.float32).reshape(count, -1) / 255
    labels, chosen = spoiled(np.asarray(y[:count]).astype(int), wrong, np.random.default_rng(0))
    data = (jnp.asarray(images), jnp.asarray(labels))
    network = MLP((784, width, 10), relu, key=jax.random.key(0))
    steps = epochs * (count // 50)
    trained = fit(
        network,
        "cross_entropy",
        data,
        optax.adamw(1e-3),
        steps=steps,
        batch_size=50,
        key=jax.random.key(1),
        progress=False,
    ).network
    began = time.perf_counter()
    found = self_influence(
        trained,
        "cross_entropy",
        data,
        damping=damping,
        curvature="gauss_newton",
        trainable=last_layer(trained),
        batch_size=500,
    )
    order = np.argsort(-np.asarray(found.scores))
    seconds = time.perf_counter() - began
    print(f"{count} images, {wrong} labels wrong; self-influence in {seconds:.1f} s")
    print("looked at   wrong labels found   of all wrong ones")
    for share in (0.01, 0.02, 0.05, 0.1):
        looked = order[: max(1, round(share * count))]
        hits = np.isin(looked, chosen).sum()
        print(f"{share:9.0%}   {hits:18d}   {hits / wrong:17.0%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--wrong", type=int, default=100, help="how many labels are replaced")
    parser.add_argument("--width", type=int, default=64, help="units of the hidden layer")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--damping", type=float, default=1e-3)
    args = parser.parse_args()
    if not 0 < args.wrong < args.images:
        raise SystemExit(f"--wrong must be below the number of images, got {args.wrong} of {args.images}.")
    main(args.images, args.wrong, args.width, args.epochs, args.damping)
