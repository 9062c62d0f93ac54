"""How far can you trust the answers of your network? Certified radii under normal noise, for inputs of your own.

    python examples/robustness/smoothing.py
    python examples/robustness/smoothing.py --network model.onnx --data examples.npz --scale 0.25

Without arguments a small network in JAX reads 8 by 8 pixels and is trained under noise. A file of data holds `x`, one
example per row, and `y`, classes from 0. The scale is the standard deviation of the noise in the units of `x`; a
network that has never seen noise is certified little, whatever its accuracy.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary import Network
from corollary.data import digits
from corollary.nets import MLP, relu, train
from corollary.robustness import NoisyInput, Smoothed, certified_accuracy, lipschitz_certificate, reachable_radius


def own(scale, steps):
    """A network of ours, trained under noise, and images that it has not seen."""
    x, y = digits()
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y)
    noisy = NoisyInput(MLP((64, 128, 10), relu, key=jax.random.key(0)), scale)
    data, options = (x[:1400], y[:1400]), {"steps": steps, "batch_size": 128, "key": jax.random.key(1)}
    return train(noisy, "cross_entropy", data, optax.adam(2e-3), **options).network.network, (x[1400:], y[1400:])


def read(path, data):
    """A network in an ONNX file, and the arrays of an `.npz` file."""
    with np.load(data) as arrays:
        x, y = jnp.asarray(arrays["x"], jnp.float32), jnp.asarray(arrays["y"])
    return Network.from_onnx(path, x[0]), (x, y)


def main(path, data, scale, votes, alpha, steps):
    network, (x, y) = own(scale, steps) if path is None else read(path, data)
    most = float(reachable_radius(votes, alpha, scale))
    print(f"{votes:,} votes at the scale {scale:g} certify at most {most:.3f}, each with confidence {1 - alpha:g}")
    radii = np.linspace(0, most, 8)[:-1]
    key = jax.random.key(2)
    found = certified_accuracy(Smoothed(network, scale), (x, y), radii, samples=votes, alpha=alpha, key=key)
    print("radius   share of examples that are right and stay right up to there")
    for radius, share in zip(radii, found.accuracy, strict=True):
        print(f"{radius:6.3f}   {float(share):.4f}")
    print(f"abstained on {float(found.certificates.abstained.mean()):.2%}, which count as wrong")
    plain = lipschitz_certificate(network, (x, y), key=key)
    print(
        f"without noise: {float(jnp.mean(plain.margins > 0)):.4f} are right; margin over Lipschitz constant certifies "
        f"{float(jnp.median(plain.radius)):.4f} in the median"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", help="an ONNX file")
    parser.add_argument("--data", help="an .npz file with x and y")
    parser.add_argument("--scale", type=float, default=0.25, help="standard deviation of the noise")
    parser.add_argument("--votes", type=int, default=10_000)
    parser.add_argument("--alpha", type=float, default=1e-3, help="how often a certificate may be wrong")
    parser.add_argument("--steps", type=int, default=3000, help="of training, where there is no file")
    given = parser.parse_args()
    if (given.network is None) != (given.data is None):
        parser.error("--network and --data go together.")
    main(given.network, given.data, given.scale, given.votes, given.alpha, given.steps)
