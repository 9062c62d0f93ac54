"""Certificates for networks that read digits: 0 to 4 against 5 to 9, with confidence .965, checked on the test images.

    python benchmarks/certificates.py                      # two cores, three minutes: 784-100-1 with both priors
    python benchmarks/certificates.py gpu                  # all columns of the printed table, and more
    python benchmarks/certificates.py gpu T-600 R-600      # some of them

The columns of the table: 600^2 is two hidden layers of 600 units, T has the true labels and R random ones. Each line
has the bound, the errors of the stochastic network on the sample and on the test images, and the KL, beside what is
printed. The bars are in the tables `CPU` and `GPU`; a certificate below the error on the test images fails anyway.
"""

import argparse
import time
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from corollary.data import mnist
from corollary.generalization import StochasticNetwork, maurer_seeger, pac_bayes
from corollary.nets import MLP, relu, train
from corollary.nets.convolutional import ConvolutionalNetwork, Stage

# images of the sample at most: the other 5,000 are left alone, as for the printed table
SAMPLE = 55_000
STAGES = (Stage(16, 5, padding=2, pool=2), Stage(32, 5, padding=2, pool=2))


class Column(NamedTuple):
    """A network (hidden widths, or "CNN"), its labels, its prior, how long it trains, its bar and what is printed."""

    network: tuple | str
    labels: str = "true"
    prior: str | float = "initial"
    before: int = 2000  # steps of ordinary training, from which the posterior starts
    steps: int = 20_000
    draws: int = 20
    batch_size: int = 250  # of the posterior: the noise of a gradient of few examples is paid for as KL
    centred: bool = False  # less the mean of the training images that no certificate uses
    bar: float = 1.0
    printed: float | None = None


CPU = {
    "100, prior at the initialisation": Column((100,), before=100, steps=6000, bar=0.15),
    "100, prior trained on half": Column((100,), prior=0.5, before=0, steps=3000, bar=0.035),
}
GPU = {
    "T-600": Column((600,), before=20, draws=100, batch_size=1000, centred=True, bar=0.14, printed=0.161),
    "T-1200": Column((1200,), bar=0.179, printed=0.179),
    "T-300^2": Column((300, 300), bar=0.170, printed=0.170),
    "T-600^2": Column((600, 600), bar=0.186, printed=0.186),
    "T-1200^2": Column((1200, 1200), bar=0.223, printed=0.223),
    "T-600^3": Column((600, 600, 600), bar=0.201, printed=0.201),
    "R-600": Column((600,), "random", before=40_000, printed=1.352),
    "T-600-half": Column((600,), prior=0.5, before=0, draws=100, bar=0.025),
    "CNN-half": Column("CNN", prior=0.5, before=0, steps=10_000, draws=4, bar=0.015),
    "ten-CNN-half": Column("CNN", "ten", 0.5, before=0, steps=10_000, draws=4),
    "R-CNN": Column("CNN", "random", before=20_000, steps=5000, draws=4),
}


def images(split, examples, labels, *, flat=True, centred=False):
    """The first `examples` images as numbers in [0, 1], or less a fixed image, with their classes."""
    x, y = mnist(split)
    x, y = np.asarray(x[:examples], np.float32) / 255, np.asarray(y[:examples])
    if centred:
        x = x - (np.asarray(mnist("train").x[SAMPLE:], np.float32) / 255).mean(0)
    if labels != "ten":
        y = (y >= 5).astype(int)
    if labels == "random":
        y = np.random.default_rng(0).integers(0, 2, len(y))
    return jnp.asarray(x.reshape(len(x), -1) if flat else x[:, None]), jnp.asarray(y)


def fresh(column, key):
    """The network of a column with random weights."""
    outputs = 10 if column.labels == "ten" else 1
    if column.network == "CNN":
        return ConvolutionalNetwork((1, 28, 28), outputs=outputs, key=key, stages=STAGES, hidden=(128,))
    return MLP((784, *column.network, outputs), relu, key=key)


def line(name, column, seconds, value, inside, outside, kl):
    """One line of the table."""
    beside = "" if column.printed is None else f"   printed {column.printed:.3f}"
    print(
        f"{name:34} bound {value:.4f}{beside}   errors: sample {inside:.4f}, test {outside:.4f}   KL {kl:,.0f}   "
        f"{seconds:.0f} s",
        flush=True,
    )


def as_trained(name, column, network, initial, data, new, key):
    """The trained network with next to no noise: the bound while it fits its labels, whatever they are."""
    began, noise = time.perf_counter(), 0.005
    law = StochasticNetwork(network, noise)
    moved = ravel_pytree(eqx.filter(network, eqx.is_array))[0] - ravel_pytree(eqx.filter(initial, eqx.is_array))[0]
    kl = float(law.kl(StochasticNetwork(initial, float(jnp.sqrt(noise**2 + jnp.mean(moved**2))))))
    inside, outside = (int(law.errors(d, draws=1, key=key)) / len(d[1]) for d in (data, new))
    value = float(maurer_seeger(len(data[1]), kl, 0.025, risk=inside).value)
    line(f"{name}, as trained", column, time.perf_counter() - began, value, inside, outside, kl)
    return value


def measure(name, column, examples, tested):
    """Train, certify and check one column; whether its bar was met."""
    began = time.perf_counter()
    flat = column.network != "CNN"
    how = {"flat": flat, "centred": column.centred}
    data, new = images("train", examples, column.labels, **how), images("test", tested, column.labels, **how)
    start_key, train_key, key = jax.random.split(jax.random.key(0), 3)
    initial = network = fresh(column, start_key)
    if column.before:
        optimiser = optax.adam(optax.cosine_decay_schedule(2e-3, column.before))
        options = {"steps": column.before, "batch_size": 250, "key": train_key}
        network = train(initial, "cross_entropy", data, optimiser, **options).network
    good = True
    if column.labels == "random":
        fitted = as_trained(name, column, network, initial, data, new, key)
        good = fitted > 0.9
    options = {"prior": column.prior, "steps": column.steps, "draws": column.draws, "batch_size": column.batch_size}
    made = pac_bayes(network, "cross_entropy", data, initial=initial, key=key, **options).check(data)
    outside = int(made.posterior.errors(new, draws=column.draws, key=key)) / (column.draws * len(new[1]))
    value, inside = float(made.value), float(made.terms["training error"])
    line(name, column, time.perf_counter() - began, value, inside, outside, float(made.kl))
    print("    " + ", ".join(f"{term} {float(v):.4f}" for term, v in made.terms.items()), flush=True)
    return good and value <= column.bar and value > outside and (column.labels != "random" or value >= 0.5)


def main(place, names, examples, tested):
    columns = GPU if place == "gpu" else CPU
    if unknown := set(names) - set(columns):
        raise SystemExit(f"There is no column {', '.join(sorted(unknown))}: choose from {', '.join(columns)}.")
    began, cores = time.perf_counter(), time.process_time()
    met = {name: measure(name, columns[name], examples, tested) for name in names or columns}
    print(f"{time.perf_counter() - began:.0f} s, {time.process_time() - cores:.0f} s of all cores")
    if not all(met.values()):
        raise SystemExit(f"Not met: {', '.join(name for name, good in met.items() if not good)}.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("place", nargs="?", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("names", nargs="*", metavar="column", help="columns to measure; all unless given")
    parser.add_argument("--examples", type=int, default=SAMPLE, help="images of the sample, the first ones")
    parser.add_argument("--tested", type=int, default=10_000, help="images to check on")
    given = parser.parse_args()
    main(given.place, given.names, given.examples, given.tested)
