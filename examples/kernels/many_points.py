"""The finite-width tangent kernel of a fully connected network on thousands of points.

    python examples/kernels/many_points.py                    # 1,000 points
    python examples/kernels/many_points.py --points 10000     # a matrix of 400 MB

Asked for in neural-tangents' issue 106. Only the tiles on and above the diagonal are computed, each from the layers'
inputs and derivatives of two blocks of points.
"""

import argparse
import itertools
import time

import jax
import jax.numpy as jnp

from corollary import Network
from corollary.kernels import empirical_ntk


def network(key, sizes):
    keys = jax.random.split(key, len(sizes))
    shapes = zip(keys, itertools.pairwise(sizes), strict=False)
    return [(jax.random.normal(k, (a, b)) * (2 / a) ** 0.5, jnp.zeros(b)) for k, (a, b) in shapes]


def apply(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--outputs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=None, help="points per block (default: by memory)")
    given = parser.parse_args()
    params = network(jax.random.key(0), (784, given.width, given.width, given.outputs))
    x = jax.random.normal(jax.random.key(1), (given.points, 784))
    print(f"{sum(p.size for p in jax.tree.leaves(params)):,} parameters, {given.points} points")
    for call in ("first call", "again"):
        began = time.perf_counter()
        kernel = empirical_ntk(Network(apply, params, batched=True), x, batch_size=given.batch).block_until_ready()
        print(f"{call}: {kernel.shape} in {time.perf_counter() - began:.2f} s")
