"""Double descent with features of your own: where your model stands against the interpolation threshold.

    python examples/generalization/double_descent.py
    python examples/generalization/double_descent.py --data table.csv      # columns of numbers, the target last

The features here are random ReLU features of the columns; put your own in the place of `features`, a matrix with one
row per point and its columns in the order in which a larger model takes them. Printed are training and test error of
least squares (of least norm beyond the threshold) for growing numbers of features, and the best of a few penalties.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np

from corollary.foundations import ridge
from corollary.generalization import first_features_fit
from corollary.kernels import RandomFeatures


def table(path):
    """Inputs and targets: those of a file, or a linear function of eight numbers with a little noise."""
    if path is not None:
        rows = np.loadtxt(path, delimiter=",", ndmin=2)
        x, y = rows[:, :-1], rows[:, -1]
        return (x - x.mean(0)) / np.maximum(x.std(0), 1e-12), (y - y.mean()) / y.std()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(560, 8))
    return x, x @ rng.normal(size=8) / 8**0.5 + 0.1 * rng.normal(size=560)


def main(data, train, most):
    x, y = table(data)
    if not 0 < train < len(y):
        raise SystemExit(f"--train must leave points to test on, got {train} of {len(y)} points.")
    features = RandomFeatures.draw(x.shape[1], most, bias_std=1.0, key=jax.random.key(0)).features(x)
    phi, new = features[:train], features[train:]
    counts = np.unique(np.append(np.geomspace(4, most, 16).round().astype(int), train))
    counts = counts[counts <= most]

    @jax.jit
    def sweep(p):
        theta = first_features_fit(phi, y[:train], p)
        return jnp.mean((phi @ theta - y[:train]) ** 2), jnp.mean((new @ theta - y[train:]) ** 2)

    print("features   training error   test error   test error with a penalty")
    for p in counts:
        fitted, tested = sweep(p)
        weights = [ridge(phi[:, :p], y[:train], c) for c in (1e-6, 1e-4, 1e-2)]
        best = min(float(jnp.mean((new[:, :p] @ w - y[train:]) ** 2)) for w in weights)
        mark = "   <- as many as points" if p == train else ""
        print(f"{p:8d}   {fitted:14.3g}   {tested:10.3g}   {best:10.3g}{mark}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="a file of comma-separated numbers, the target in the last column")
    parser.add_argument("--train", type=int, default=60, help="points to train on, the first ones")
    parser.add_argument("--most", type=int, default=1920, help="the largest number of features")
    arguments = parser.parse_args()
    with jax.enable_x64(True):
        main(arguments.data, arguments.train, arguments.most)
