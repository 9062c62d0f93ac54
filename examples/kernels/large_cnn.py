"""The empirical tangent kernel of a convolutional network of 2.5 million parameters on many images.

    python examples/kernels/large_cnn.py --images 24 --width 16      # a few seconds on two cores
    python examples/kernels/large_cnn.py --images 20000 --width 200  # 2.5 million parameters: for accelerators

Asked for in neural-tangents' issue 30. The matrix is computed in blocks of images, straight into its place; what does
not fit as a matrix at all is still there as a product with vectors.
"""

import argparse
import time

import jax
import jax.numpy as jnp

from corollary import Network
from corollary.kernels import empirical_ntk, empirical_ntk_matvec


def network(key, width, classes=10):
    """Eight 3 x 3 convolutions in three resolutions, then the average over positions: about 63 width² parameters."""
    channels = [3, *([width] * 3), *([width] * 3), *([width] * 2)]
    keys = jax.random.split(key, len(channels))
    shapes = zip(keys, channels, channels[1:], strict=False)
    convolutions = [jax.random.normal(k, (3, 3, a, b)) * (2 / (9 * a)) ** 0.5 for k, a, b in shapes]
    return {"convolutions": convolutions, "read": jax.random.normal(keys[-1], (width, classes)) / width**0.5}


def apply(params, x):
    for i, w in enumerate(params["convolutions"]):
        stride = (2, 2) if i in (3, 6) else (1, 1)
        x = jax.nn.relu(jax.lax.conv_general_dilated(x, w, stride, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    return x.mean((1, 2)) @ params["read"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=24)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=None, help="images per block (default: by memory)")
    given = parser.parse_args()
    params = network(jax.random.key(0), given.width)
    x = jax.random.normal(jax.random.key(1), (given.images, given.size, given.size, 3))
    print(f"{sum(p.size for p in jax.tree.leaves(params)):,} parameters, {given.images} images")
    began = time.perf_counter()
    kernel = empirical_ntk(Network(apply, params, batched=True), x, batch_size=given.batch).block_until_ready()
    print(f"kernel {kernel.shape} in {time.perf_counter() - began:.1f} s, compilation included")
    v = jnp.ones(given.images)
    began = time.perf_counter()
    product = empirical_ntk_matvec(Network(apply, params, batched=True), x, batch_size=given.batch or 64)(
        v
    ).block_until_ready()
    gap = jnp.abs(product - kernel @ v).max() / jnp.abs(product).max()
    print(f"a product without the matrix in {time.perf_counter() - began:.1f} s, differs by {gap:.0e}")
