"""Why does a network of your own make its worst mistakes? Exact Shapley values of features or patches of the image.

    python examples/attribution/features.py
    python examples/attribution/features.py --network model.onnx --data examples.npz

Without arguments a small network in JAX tells ten digits on images of 8 x 8 pixels that it was not trained on. A file
of data holds `x`, one example per row, and `y`, classes from 0. Of the examples with the greatest loss it prints what
each feature adds to the output of the class that was given, less that of the right one: all coalitions of up to 16
features, or of patches of an image; with more features, orders drawn at random, and 95 % intervals. What is added sums
to the difference from the background; how far it is from that is printed beside it. Then how important each is for the
accuracy on all examples.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary import Network
from corollary.attribution import patch_players, permutation_importance, shapley_values
from corollary.data import digits
from corollary.nets import MLP, relu, train

MANY = 16


def own(steps):
    """A network of ours that takes images, trained on 1,000 of them, and the others."""
    x, y = map(jnp.asarray, digits())
    start = MLP((64, 32, 10), relu, key=jax.random.key(0))
    trained = train(start, "cross_entropy", (x[:1000], y[:1000]), optax.adam(3e-3), steps=steps).network
    return Network(lambda net, image: net(image.ravel()), trained), (x[1000:].reshape(-1, 8, 8), y[1000:])


def read(path, data):
    """A network in an ONNX file, and the arrays of an `.npz` file."""
    with np.load(data) as arrays:
        x, y = jnp.asarray(arrays["x"], jnp.float32), jnp.asarray(arrays["y"])
    return Network.from_onnx(path, x[0]), (x, y)


def players_of(shape):
    """Every feature by itself, or square patches of an image, at most 16 of them, height and width first."""
    if len(shape) == 1:
        return None
    sides = shape if len(shape) == 2 or shape[-1] <= 4 else shape[1:]
    size = max(-(-side // 4) for side in sides[:2])
    found = patch_players(tuple(sides), size)
    return found if sides == shape else np.broadcast_to(found, shape).copy()


def main(path, data, mistakes, background, steps):
    network, (x, y) = own(steps) if path is None else read(path, data)
    outputs = jax.vmap(network)(x)
    losses = optax.softmax_cross_entropy_with_integer_labels(outputs, y)
    worst = jnp.argsort(-losses)[:mistakes]
    rows = x[jnp.linspace(0, len(x) - 1, background).astype(int)]
    players = players_of(x.shape[1:])
    count = x[0].size if players is None else int(players.max()) + 1
    how = "exact" if count <= MANY else "permutation"
    found = shapley_values(network, x[worst], rows, players=players, how=how, key=jax.random.key(1))
    mean = jax.vmap(network)(rows).mean(0)
    for i, values, low, high in zip(worst, found.values, *found.interval, strict=True):
        given, right = int(jnp.argmax(outputs[i])), int(y[i])
        if given == right:
            given = int(jnp.argsort(outputs[i])[-2])  # no mistake: the class that came nearest
        added = values[:, given] - values[:, right]
        gap = float(outputs[i, given] - outputs[i, right] - mean[given] + mean[right] - added.sum())
        print(f"example {int(i)}, class {right}, loss {float(losses[i]):.2f}: what speaks for class {given} instead")
        for player in np.argsort(-np.asarray(added))[:4]:
            width = float((high - low)[player, given] + (high - low)[player, right]) / 2
            print(f"    {'feature' if players is None else 'patch'} {player:3d}  {float(added[player]):+.3f}", end="")
            print("" if how == "exact" else f" ± {width:.3f}")
        print(f"    all together {float(added.sum()):+.3f}, which adds up to {gap:.0e}")
    some = jnp.linspace(0, len(x) - 1, min(len(x), 300)).astype(int)
    important = permutation_importance(network, "accuracy", (x[some], y[some]), players=players).values
    top = np.argsort(-np.asarray(important))[:4]
    print("accuracy lost over all shuffles:", ", ".join(f"{player} {float(important[player]):.3f}" for player in top))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", help="an ONNX file, trained")
    parser.add_argument("--data", help="an .npz file with x and y")
    parser.add_argument("--mistakes", type=int, default=5)
    parser.add_argument("--background", type=int, default=20, help="rows of the data that stand for what is absent")
    parser.add_argument("--steps", type=int, default=2000)
    given = parser.parse_args()
    if (given.network is None) != (given.data is None):
        parser.error("--network and --data go together.")
    main(given.network, given.data, given.mistakes, given.background, given.steps)
