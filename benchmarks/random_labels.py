"""Bounds against random labels: do they grow with the gap? MNIST, 8 networks for each share of random labels.

    python benchmarks/random_labels.py

A network (784-256-256-10, ReLU) is trained until it fits 5,000 digits of which a share has labels at random; test
labels are drawn by the same law. Beside the gap of the 0-1 errors, for every network:

- the spectral margin bound at its median margin, as printed (Theorem 5.5.6), which is about the network itself, and the
  complexity in it, the product of the spectral norms times the root of the sum of the stable ranks over the margin;
- the bound by compression, which is about what is left of it: truncated at a tenth of its own median margin, the
  factors rounded to as few levels as allow for that, everything that was chosen paid;
- the median of its margins, over the product of its spectral norms and the length of the longest input.

Then the rank correlation (Spearman) of each with the gap, over all networks. All seeds of a share are trained in one
program. The bar: above 0.8 for the complexity, the bound by compression, and the margin with its sign reversed.
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.stats import spearmanr

from corollary.data import mnist
from corollary.generalization import margins, spectral_margin_bound, truncate
from corollary.nets import MLP, he_normal, relu, train

DELTA = 0.05
LEVELS = (64, 1024, 2**14, 2**18)


def digits(split, n):
    """Images as vectors of mean 0 and length about 1, and labels."""
    data = mnist(split)
    x = np.asarray(data.x[:n], np.float32).reshape(n, -1) / 255
    return (x - x.mean(1, keepdims=True)) / 10, np.asarray(data.y[:n])


def with_noise(y, share, seed):
    rng = np.random.default_rng(seed)
    return np.where(rng.uniform(size=y.shape) < share, rng.integers(0, 10, y.shape), y)


@eqx.filter_jit
def trained(keys, x, labels, width, steps):
    """One network per key and row of labels, all in one program."""

    def one(key, y):
        make_key, train_key = jax.random.split(key)
        network = MLP((x.shape[1], width, width, 10), relu, initialisation=he_normal, key=make_key)
        return train(
            network, "cross_entropy", (x, y), optax.adam(1e-3), steps=steps, batch_size=128, key=train_key
        ).network

    return eqx.filter_vmap(one)(keys, labels)


def compressed(network, data, margin):
    """The network truncated and rounded to the fewest levels that keep every output within the margin."""
    for levels in LEVELS:
        try:
            return truncate(network, margin, data, levels=levels)
        except ValueError:  # these are too few
            if levels == LEVELS[-1]:
                raise


def measures(network, data, test):
    """Errors, bounds and the normalised margin of one network."""
    inside, outside = (np.asarray(margins(network, d)) for d in (data, test))
    spectra = [jnp.linalg.svd(layer.weight, compute_uv=False) for layer in network.layers]
    product = np.prod([float(s[0]) for s in spectra]) * np.linalg.norm(data[0], axis=1).max()
    stable = sum(float(jnp.sum(s**2) / s[0] ** 2) for s in spectra)
    median = max(float(np.median(inside)), 1e-6)  # positive, and so below what half of the examples have
    small = compressed(network, data, median / 10)
    return {
        "training error": np.mean(inside <= 0),
        "test error": np.mean(outside <= 0),
        "gap": np.mean(outside <= 0) - np.mean(inside <= 0),
        "spectral margin bound": float(
            spectral_margin_bound(network, data, DELTA, margin=median, form="printed").value
        ),
        "spectral complexity": product * stable**0.5 / median,
        "bound by compression": float(small.bound(data, DELTA).value),
        "numbers left": float(small.description.parameters),
        "normalised margin": median / product,
    }


def main(n: int, tests: int, width: int, steps: int, seeds: int, shares: list[float]) -> bool:
    (x, y), (new, truth) = digits("train", n), digits("test", tests)
    rows = []
    for share in shares:
        start = time.perf_counter()
        labels = np.stack([with_noise(y, share, s) for s in range(seeds)])
        networks = trained(jax.random.split(jax.random.key(1), seeds), x, labels, width, steps)
        jax.block_until_ready(eqx.filter(networks, eqx.is_array))
        trained_s = time.perf_counter() - start
        found = []
        for s in range(seeds):
            network = jax.tree.map(lambda a, s=s: a[s] if eqx.is_array(a) else a, networks)
            found.append(measures(network, (x, labels[s]), (new, with_noise(truth, share, 1000 + s))))
        rows += found
        means = "   ".join(f"{name} {np.mean([f[name] for f in found]):.3g}" for name in found[0])
        print(f"random labels {share:4.0%}   {means}   ({trained_s:.1f} s of training)", flush=True)
    gap = [row["gap"] for row in rows]
    signs = {"spectral complexity": 1, "bound by compression": 1, "normalised margin": -1}
    correlations = {name: sign * spearmanr([row[name] for row in rows], gap)[0] for name, sign in signs.items()}
    print("rank correlation with the gap: " + ", ".join(f"{name} {r:.2f}" for name, r in correlations.items()))
    return all(r > 0.8 for r in correlations.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=5000, help="training examples")
    parser.add_argument("--tests", type=int, default=10_000, help="test examples")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--steps", type=int, default=10_000, help="of Adam, with batches of 128")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0])
    raise SystemExit(not main(**vars(parser.parse_args())))
