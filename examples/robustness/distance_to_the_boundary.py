"""How far to the decision boundary: accuracy under attack of a network and data of your own, and the nearest mistakes.

    python examples/robustness/distance_to_the_boundary.py
    python examples/robustness/distance_to_the_boundary.py --network model.onnx --data examples.npz --radii 0.5 1

Without arguments a small network in JAX reads 8 by 8 digits. A file of data holds `x`, one example per row, and `y`,
classes from 0; `--low` and `--high` are the least and the largest value that an input can have. For every radius two
numbers: what withstood every attack that was tried, and what is proven. The truth is between them.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary import Network
from corollary.data import digits
from corollary.nets import MLP, relu, train
from corollary.robustness import robust_accuracy, smallest_perturbation


def own(steps):
    """A network of ours and digits that it has not seen."""
    x, y = digits()
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y)
    begin = MLP((64, 32, 10), relu, key=jax.random.key(0))
    network = train(begin, "cross_entropy", (x[:1000], y[:1000]), optax.adam(3e-3), steps=steps).network
    return network, (x[1000:], y[1000:])


def read(path, data):
    """A network in an ONNX file, and the arrays of an `.npz` file."""
    with np.load(data) as arrays:
        x, y = jnp.asarray(arrays["x"], jnp.float32), jnp.asarray(arrays["y"])
    return Network.from_onnx(path, x[0]), (x, y)


def main(path, data, norm, radii, low, high, examples, steps):
    network, (x, y) = own(steps) if path is None else read(path, data)
    x, y = x[:examples], y[:examples]
    p = {"1": 1, "2": 2, "inf": np.inf}[norm]
    first, second = jax.random.split(jax.random.key(1))
    curve = robust_accuracy(network, "cross_entropy", (x, y), radii, p=p, low=low, high=high, key=first)
    print(f"{len(x)} examples, {norm} norm, inputs from {low} to {high}")
    print("radius    proven    under attack    slopes that led nowhere")
    for radius, least, most, dead in zip(curve.radii, curve.lower, curve.upper, curve.dead, strict=True):
        print(f"{radius:6.3f}    {least:6.3f}    {most:12.3f}    {dead:10.3f}")
    near = smallest_perturbation(network, (x, y), p, low=low, high=high, key=second)
    order = np.argsort(np.asarray(near.upper))
    print("the examples that are nearest to another class, of those that are right:")
    for i in [i for i in order if near.upper[i] > 0][:5]:
        # on the boundary itself, where rounding decides between two classes: the other one
        seen = int(jnp.argmax(network(near.witness[i]).at[y[i]].set(-jnp.inf)))
        print(
            f"    example {i}, class {int(y[i])}: between {near.lower[i]:.4f} and {near.upper[i]:.4f} from class {seen}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", help="an ONNX file")
    parser.add_argument("--data", help="an .npz file with x and y")
    parser.add_argument("--norm", choices=("1", "2", "inf"), default="2")
    parser.add_argument("--radii", type=float, nargs="+", default=[0.0, 0.1, 0.2, 0.5, 1.0])
    parser.add_argument("--low", type=float, default=0.0)
    parser.add_argument("--high", type=float, default=1.0)
    parser.add_argument("--examples", type=int, default=300, help="how many of them to attack")
    parser.add_argument("--steps", type=int, default=500, help="steps of training, without a network of your own")
    given = parser.parse_args()
    if (given.network is None) != (given.data is None):
        parser.error("--network and --data go together.")
    main(given.network, given.data, given.norm, given.radii, given.low, given.high, given.examples, given.steps)
