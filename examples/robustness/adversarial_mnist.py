"""Three ways to train, two architectures: how far handwritten digits withstand attacks, and whose attacks travel.

    python examples/robustness/adversarial_mnist.py --picture attacked.png
    python examples/robustness/adversarial_mnist.py --quick     # the dense network, few images and steps

A dense network and a convolutional one are trained on images as they are, on sign steps and on projected ascent of
radius .1 in the largest norm. Printed are accuracies under attacks in three norms, what attacks on one network do to
another, and how far images are from the nearest one of another class: the median, above by attacks and below by margin
over Lipschitz constant. The picture shows one image, what an attack adds to it, and the sum.
"""

import argparse
import time
from pathlib import Path

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np
import optax
import vl_convert

from corollary.data import mnist
from corollary.nets import MLP, fit, relu
from corollary.nets.convolutional import ConvolutionalNetwork, Stage
from corollary.robustness import Ball, adversarial_loss, pgd, smallest_perturbation

STAGES = (Stage(16, 5, padding=2, pool=2), Stage(32, 5, padding=2, pool=2))
LARGEST = Ball(np.inf, 0.1, 0.0, 1.0)
OTHERS = {"2 to .1": Ball(2, 0.1, 0.0, 1.0), "1 to .1": Ball(1, 0.1, 0.0, 1.0), "2 to 1.5": Ball(2, 1.5, 0.0, 1.0)}
LOSSES = {
    "natural": "cross_entropy",
    "sign steps": adversarial_loss("cross_entropy", LARGEST, steps=1),
    "ascent": adversarial_loss("cross_entropy", LARGEST, steps=5),
}


class Flattened(MLP):
    """A dense network of images."""

    def __call__(self, x):
        return super().__call__(x.ravel())


def trained(begin, data, steps):
    """The networks by architecture and training."""
    key, rate, found = jax.random.key(1), optax.cosine_decay_schedule(2e-3, steps), {}
    for name, network in begin.items():
        for how, loss in LOSSES.items():
            run = fit(network, loss, data, optax.adam(rate), steps=steps, batch_size=100, key=key, progress=False)
            found[f"{name}, {how}"] = run.network
            print(f"trained {name}, {how}", flush=True)
    return found


def table(title, columns, rows, form="{:.3f}"):
    print(f"\n{title}\n{'':22}" + "".join(f"{c:>20}" for c in columns))
    for name, values in rows.items():
        print(f"{name:22}" + "".join(f"{form.format(v):>20}" for v in values), flush=True)


def attacked(networks, x, y, steps):
    """Inputs from attacks on each network in the largest norm; prints what these and other attacks do to which."""
    right = lambda network, inputs: float(jnp.mean(jax.vmap(network)(inputs).argmax(1) == y))  # noqa: E731
    found, rows = {}, {}
    for name, network in networks.items():
        # beyond the first mistake: what barely changes one network's mind does not change another's
        found[name] = pgd(network, "cross_entropy", (x, y), LARGEST, steps=steps, stop=False).inputs
        others = [pgd(network, "cross_entropy", (x, y), ball, steps=steps).inputs for ball in OTHERS.values()]
        rows[name] = [right(network, inputs) for inputs in (x, found[name], *others)]
    table("accuracy under attack (norm to radius)", ["clean", "largest to .1", *OTHERS], rows)
    matrix = {name: [right(network, inputs) for network in networks.values()] for name, inputs in found.items()}
    table("accuracy of the column under attacks on the row, largest norm to .1", networks, matrix)
    return found


def distances(networks, x, y, steps):
    rows = {}
    for name, network in networks.items():
        options = {"low": 0.0, "high": 1.0, "rounds": 8, "steps": steps, "key": jax.random.key(2)}
        found = smallest_perturbation(network, (x, y), np.inf, **options)
        rows[name] = [float(np.median(found.lower)), *np.quantile(found.upper, [0.1, 0.5, 0.9])]
    columns = ["below, median", "above, first tenth", "above, median", "above, last tenth"]
    table(f"distance to another class in the largest norm, {len(x):,} images", columns, rows, "{:.4f}")


def picture(path, network, x, y, inputs):
    """The image that an attack makes the network surest of something else, what was added, and the sum."""
    before, after = (np.asarray(jax.nn.softmax(jax.vmap(network)(a))) for a in (x, inputs))
    labels = np.asarray(y)
    sure = np.where(
        (before.argmax(1) == labels) & (after.argmax(1) != labels), np.minimum(before.max(1), after.max(1)), 0
    )
    best = int(sure.argmax())
    added = np.asarray(inputs[best] - x[best])[0]
    panels = {
        f"a {before[best].argmax()}, sure to {100 * before[best].max():.1f} %": np.asarray(x[best])[0],
        "what is added, times 5": 0.5 + 5 * added,
        f"a {after[best].argmax()}, sure to {100 * after[best].max():.1f} %": np.asarray(inputs[best])[0],
    }
    charts = []
    for title, image in panels.items():
        values = [{"x": j, "y": i, "v": float(v)} for i, row in enumerate(image) for j, v in enumerate(row)]
        charts.append(
            alt.Chart(alt.Data(values=values), title=title)
            .mark_rect()
            .encode(
                x=alt.X("x:O", axis=None),
                y=alt.Y("y:O", axis=None),
                color=alt.Color("v:Q", scale=alt.Scale(scheme="greys", domain=[1, 0]), legend=None),
            )
            .properties(width=224, height=224)
        )
    spec = alt.hconcat(*charts).configure_view(strokeWidth=0).to_json()
    Path(path).write_bytes(vl_convert.vegalite_to_png(spec, scale=1.5))
    print(f"\nthe picture is in {path}")


def main(train, images, steps, attack_steps, path, quick=False):
    began, busy = time.perf_counter(), time.process_time()
    pixels = lambda x: jnp.asarray(x, jnp.float32)[:, None] / 255  # noqa: E731
    (x, y), (new, answers) = mnist("train"), mnist("test")
    begin = {
        "dense": Flattened((784, 256, 256, 10), relu, key=jax.random.key(0)),
        "CNN": ConvolutionalNetwork((1, 28, 28), stages=STAGES, hidden=(128,), outputs=10, key=jax.random.key(0)),
    }
    if quick:
        begin.pop("CNN")
    networks = trained(begin, (pixels(x[:train]), jnp.asarray(y[:train])), steps)
    new, answers = pixels(new[:images]), jnp.asarray(answers[:images])
    found = attacked(networks, new, answers, attack_steps)
    distances(networks, new, answers, attack_steps // 2)
    if path:
        name = f"{[*begin][-1]}, natural"
        picture(path, networks[name], new, answers, found[name])
    print(f"{time.perf_counter() - began:.0f} s, {time.process_time() - busy:.0f} s of all cores")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=int, default=20_000, help="training images")
    parser.add_argument("--images", type=int, default=1000, help="test images to attack")
    parser.add_argument("--steps", type=int, default=400, help="steps of training")
    parser.add_argument("--attack-steps", type=int, default=20)
    parser.add_argument("--picture", help="a PNG file to write")
    parser.add_argument("--quick", action="store_true", help="seconds: the dense network, 50 images")
    given = parser.parse_args()
    sizes = (1000, 50, 30, 4) if given.quick else (given.train, given.images, given.steps, given.attack_steps)
    main(*sizes, given.picture, given.quick)
