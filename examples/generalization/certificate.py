"""A certificate for a network and data of your own: how often it errs on new examples, at most, and why.

    python examples/generalization/certificate.py
    python examples/generalization/certificate.py --network model.onnx --data examples.npz
    python examples/generalization/certificate.py --network model.onnx --initial untrained.onnx --data examples.npz

Without arguments a small network in JAX tells the digits 0 to 4 from 5 to 9 on 1,797 images. A file of data holds `x`,
one example per row, and `y`, classes from 0. With the weights from which a network was trained (`--initial`) the
certificate is for a stochastic network around the trained one, on all data. Without them a part of the data trains a
prior from weights that are drawn anew, and the rest certifies it.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary import Network
from corollary.data import digits
from corollary.generalization import pac_bayes
from corollary.nets import MLP, relu, train


def own(steps):
    """A network of ours, the weights that it was trained from, and its data."""
    x, y = digits()
    data = jnp.asarray(x), jnp.asarray(y >= 5).astype(int)
    initial = MLP((64, 32, 1), relu, key=jax.random.key(0))
    return train(initial, "cross_entropy", data, optax.adam(3e-3), steps=steps).network, initial, data


def redrawn(network, key):
    """The network with new weights: normal ones where there is a matrix or a kernel, 0 for the rest."""
    leaves, tree = jax.tree.flatten(network.params)
    keys = jax.random.split(key, len(leaves))
    # whichever axis a format has first, no layer has more inputs to a unit than the weights over its least axis
    new = [
        jax.random.normal(k, a.shape) * (2 * min(a.shape) / a.size) ** 0.5 if a.ndim > 1 else jnp.zeros_like(a)
        for a, k in zip(leaves, keys, strict=True)
    ]
    return network.with_params(tree.unflatten(new))


def read(path, initial, data):
    """A network in an ONNX file, what it was trained from, and the arrays of an `.npz` file."""
    with np.load(data) as arrays:
        x, y = jnp.asarray(arrays["x"], jnp.float32), jnp.asarray(arrays["y"])
    network = Network.from_onnx(path, x[0])
    before = redrawn(network, jax.random.key(1)) if initial is None else Network.from_onnx(initial, x[0])
    return network, before, (x, y)


def main(path, initial, data, prior, steps):
    network, before, data = own(steps) if path is None else read(path, initial, data)
    known = path is None or initial is not None
    key = jax.random.key(2)
    for name in ("initial", prior) if known else (prior,):
        made = pac_bayes(network, "cross_entropy", data, initial=before, prior=name, steps=steps, key=key).check(data)
        where = "at the initial weights" if name == "initial" else f"trained on {name:.0%} of the data"
        sure = 1 - float(made.bound.delta)
        print(f"prior {where}: at most {float(made.value):.4f} of new examples are wrong, with confidence {sure:.3f}")
        for term, value in made.terms.items():
            print(f"    {float(value):.4f}   {term}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", help="an ONNX file, trained")
    parser.add_argument("--initial", help="an ONNX file of the same network before it was trained")
    parser.add_argument("--data", help="an .npz file with x and y")
    parser.add_argument("--prior", type=float, default=0.5, help="share of the data that trains a prior")
    parser.add_argument("--steps", type=int, default=2000)
    given = parser.parse_args()
    if (given.network is None) != (given.data is None):
        parser.error("--network and --data go together.")
    main(given.network, given.initial, given.data, given.prior, given.steps)
