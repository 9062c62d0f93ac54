"""Whom to blame for the five worst mistakes of a network: the training points without which they would be smaller.

    python examples/attribution/whom_to_blame.py
    python examples/attribution/whom_to_blame.py --network model.onnx --train train.npz --data test.npz
    python examples/attribution/whom_to_blame.py --picture blame.html

Without arguments a small network in JAX reads 8 by 8 digits, of whose training labels one in thirty was made wrong.
Files of data hold `x`, one example per row, and `y`, classes from 0; those in `--train` are what the network was
trained on. Of the examples with the greatest loss it prints the training points that add most to it, by influence: what
is predicted for the loss if the point is removed, and what training on without the point does to it. Where the two
disagree do not believe the first. `--picture` draws mistakes and culprits, if examples are images of one channel or
squares laid out in a row.
"""

import argparse

import altair
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary import Network
from corollary.attribution import blame, continued_removal
from corollary.data import digits
from corollary.nets import MLP, parameter_count, relu, train

FEW = 3000  # parameters up to which the whole curvature is decomposed


def own(steps):
    """A network of ours, the digits with some wrong labels that it was trained on, other digits, and what is wrong."""
    x, y = (np.asarray(a) for a in digits())
    rng, shown = np.random.default_rng(0), y[:1000].astype(int)
    wrong = rng.choice(1000, 33, replace=False)
    shown[wrong] = (shown[wrong] + rng.integers(1, 10, len(wrong))) % 10
    data = jnp.asarray(x[:1000], jnp.float32), jnp.asarray(shown)
    start = MLP((64, 32, 10), relu, key=jax.random.key(0))
    optimiser = optax.adamw(3e-3, weight_decay=0.1)
    network = train(start, "cross_entropy", data, optimiser, steps=steps).network
    return network, data, (jnp.asarray(x[1000:], jnp.float32), jnp.asarray(y[1000:])), wrong


def read(path):
    with np.load(path) as arrays:
        return jnp.asarray(arrays["x"], jnp.float32), jnp.asarray(arrays["y"])


def image(example):
    """The example as an image, if it is one."""
    found, side = np.squeeze(np.asarray(example)), round(np.size(example) ** 0.5)
    if found.ndim == 1 and side**2 == found.size:
        found = found.reshape(side, side)
    return found if found.ndim == 2 else None


def pictures(rows):
    """Rows of (title, image), each row a mistake and those to blame for it."""

    def one(title, pixels):
        values = [{"row": i, "column": j, "ink": float(v)} for (i, j), v in np.ndenumerate(pixels)]
        chart = altair.Chart(altair.Data(values=values), title=title, width=110, height=110).mark_rect()
        ink = altair.Color("ink:Q", scale=altair.Scale(scheme="greys"), legend=None)
        return chart.encode(altair.X("column:O", axis=None), altair.Y("row:O", axis=None), ink)

    return altair.vconcat(*(altair.hconcat(*(one(*cell) for cell in row)) for row in rows)).resolve_scale(
        color="shared"
    )


def main(path, train_path, data_path, mistakes, named, steps, picture):
    network, points, (x, y), wrong = (
        own(steps) if path is None else (None, read(train_path), read(data_path), np.array([], int))
    )
    network = Network.from_onnx(path, x[0]) if network is None else network
    outputs = jax.vmap(network)(x)
    losses = optax.softmax_cross_entropy_with_integer_labels(outputs, y)
    worst = np.asarray(jnp.argsort(-losses)[:mistakes])
    test = x[worst], y[worst]
    rank = None if parameter_count(network) <= FEW else min(64, len(points[1]))
    found = blame(network, "cross_entropy", points, test, rank=rank)
    culprits = np.argsort(np.asarray(found.scores), 0)[:named]  # a negative score: without the point the loss is less
    removed = np.unique(culprits)
    # steps down the training loss that are stable with this momentum, and go as far as the damping lets influence see
    further = {"step": 1 / float(found.premises.largest), "steps": 200}
    really = np.asarray(continued_removal(network, "cross_entropy", points, test, removed, **further).changes)
    rows = []
    for place, i in enumerate(worst):
        said = f"example {i}, class {int(y[i])}, taken for {int(jnp.argmax(outputs[i]))}"
        print(f"{said}, loss {float(losses[i]):.2f}")
        rows.append([(said, image(x[i]))])
        for k in culprits[:, place]:
            predicted, seen = float(found.scores[k, place]), float(really[np.searchsorted(removed, k), place])
            label = f"training point {k}, labelled {int(points[1][k])}"
            note = ", a label that was made wrong" if k in wrong else ""
            print(f"    {label}: without it {predicted:+.3f} predicted, {seen:+.3f} by training on{note}")
            rows[-1].append((label, image(points[0][k])))
    same = np.sign(really[np.searchsorted(removed, culprits), np.arange(len(worst))]) < 0
    print(f"training on without it lowers the loss for {same.sum()} of the {same.size}")
    if len(wrong):
        print(f"{np.isin(removed, wrong).sum()} of these {len(removed)} points have a wrong label; 3 % of all have")
    if picture and all(pixels is not None for row in rows for _, pixels in row):
        pictures(rows).save(picture)
        print(f"drawn in {picture}")
    elif picture:
        print("nothing drawn: the examples are no images of one channel")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", help="an ONNX file, trained")
    parser.add_argument("--train", help="an .npz file with the x and y that it was trained on")
    parser.add_argument("--data", help="an .npz file with x and y")
    parser.add_argument("--mistakes", type=int, default=5)
    parser.add_argument("--named", type=int, default=3, help="training points for each mistake")
    parser.add_argument("--steps", type=int, default=1000, help="steps of training, without a network of your own")
    parser.add_argument("--picture", help="a file for the picture: .html, .png or .svg")
    given = parser.parse_args()
    if len({given.network is None, given.train is None, given.data is None}) > 1:
        parser.error("--network, --train and --data go together.")
    main(given.network, given.train, given.data, given.mistakes, given.named, given.steps, given.picture)
