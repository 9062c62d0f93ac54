"""One epoch of the MNIST listing of M07 on the CPU and on the accelerator, for several widths.

    pip install -e . && python benchmarks/devices.py --widths 100 1024 4096

A network 784-width-10, plain stochastic gradient descent with the book's step 0.1 and batch 100, float32, the same key
on both devices. The book says "up to ten times"; for its own width of 100 and batch of 100 there is little to gain.
Prints seconds per epoch after compilation, the ratio, and the largest difference of the losses on the way.
"""

import argparse
import time

import jax
import numpy as np
import optax

from corollary import data
from corollary.nets import Classifier, mean_loss, relu, train_epochs
from corollary.network import BatchLoss

OPTIMISER = optax.sgd(0.1)


def epoch(device, width, x, y, batches):
    with jax.default_device(device):
        model = Classifier(784, width, 1, 10, relu, key=jax.random.key(0))
        examples = jax.device_put((x[: 100 * batches], y[: 100 * batches]), device)
        seconds = []
        for _ in range(2):
            began = time.perf_counter()
            trained = train_epochs(model, loss, examples, OPTIMISER, epochs=1, batch_size=100, key=jax.random.key(1))
            losses = np.asarray(trained.losses)
            seconds.append(time.perf_counter() - began)
    return seconds[-1], losses


@BatchLoss
def loss(model, batch):
    x, y = batch
    return mean_loss(model, (x.astype("float32").reshape(-1, 784) / 255, y))


def main(widths, batches):
    x, y = data.mnist("train")
    cpu, other = jax.devices("cpu")[0], jax.devices()[0]
    print(f"CPU against {other.device_kind}; {batches} batches of 100")
    for width in widths:
        (slow, a), (fast, b) = epoch(cpu, width, x, y, batches), epoch(other, width, x, y, batches)
        print(f"width {width:5d}: {slow:8.3f} s, {fast:7.3f} s, ratio {slow / fast:6.1f}, ", end="")
        print(f"largest difference of the losses {np.max(np.abs(a - b)):.1e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[100, 1024])
    parser.add_argument("--batches", type=int, default=600)
    args = parser.parse_args()
    main(args.widths, args.batches)
