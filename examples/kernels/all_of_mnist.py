"""The analytic tangent kernel of all of MNIST without running out of memory.

    python examples/kernels/all_of_mnist.py --train 2000 --test 500           # scaled to a laptop
    python examples/kernels/all_of_mnist.py --train 60000 --test 10000        # on a GPU

The matrix is computed in tiles straight into its place: peak memory is the result and a few tiles. (neural-tangents,
issue 166.)
"""

import argparse
import time

import jax.numpy as jnp
import numpy as np

from corollary import data, kernels


def main(train, test, depth, tile):
    images = jnp.asarray(data.mnist("train").x[:train].reshape(train, -1) / 255, jnp.float32)
    others = jnp.asarray(data.mnist("test").x[:test].reshape(test, -1) / 255, jnp.float32)
    began = time.perf_counter()
    k = kernels.tiled(lambda a, b=None: kernels.ntk(a, b, depth=depth), images, others, tile=tile).block_until_ready()
    seconds = time.perf_counter() - began
    print(f"{k.shape[0]} x {k.shape[1]} entries, {k.nbytes / 2**30:.2f} GiB, in {seconds:.2f} s with compilation")
    print(f"mean {float(jnp.mean(k)):.4f}, between {float(k.min()):.4f} and {float(k.max()):.4f}")
    assert np.isfinite(float(jnp.sum(k)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=int, default=2000)
    parser.add_argument("--test", type=int, default=500)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--tile", type=int, default=1024)
    args = parser.parse_args()
    main(args.train, args.test, args.depth, args.tile)
