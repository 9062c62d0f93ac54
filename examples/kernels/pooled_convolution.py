"""The empirical tangent kernel of a wide convolution with global average pooling on a batch of images.

    python examples/kernels/pooled_convolution.py --images 64 --channels 64

Asked for in neural-tangents' issue 100, where 64 samples through a convolution of 64 channels ran out of memory. The
layer's weights meet 1,024 positions per image, so that their gradients are summed over positions first and contracted
afterwards; nothing of the size of pairs of positions is made.
"""

import argparse
import time

import jax

from corollary import Network
from corollary.kernels import empirical_ntk


def network(key, channels):
    first, second, last = jax.random.split(key, 3)
    return {
        "first": jax.random.normal(first, (3, 3, 3, channels)) * (2 / 27) ** 0.5,
        "second": jax.random.normal(second, (3, 3, channels, channels)) * (2 / (9 * channels)) ** 0.5,
        "read": jax.random.normal(last, (channels, 1)) / channels**0.5,
    }


def apply(params, x):
    for name in ("first", "second"):
        x = jax.lax.conv_general_dilated(x, params[name], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x)
    return (x.mean((1, 2)) @ params["read"])[:, 0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--size", type=int, default=32)
    given = parser.parse_args()
    params = network(jax.random.key(0), given.channels)
    x = jax.random.normal(jax.random.key(1), (given.images, given.size, given.size, 3))
    for call in ("first call", "again"):
        began = time.perf_counter()
        kernel = empirical_ntk(Network(apply, params, batched=True), x).block_until_ready()
        print(f"{call}: {kernel.shape} in {time.perf_counter() - began:.2f} s, trace {kernel.trace():.6g}")
