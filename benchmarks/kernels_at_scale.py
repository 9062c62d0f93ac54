"""Kernels of the size of MNIST on one accelerator, each with its share of the measured rate of matrix products.

    pip install -e . && python benchmarks/kernels_at_scale.py            # on a GPU
    python benchmarks/kernels_at_scale.py --scale 0.02                   # the same on a laptop, smaller

- analytic: the tangent kernel of depth 3 of the 60,000 training images against the 10,000 test images, in tiles.
- regression: `KernelClassifier` with that kernel and a ridge on 50,000 images, accuracy on the test images.
- empirical: the tangent kernel of a ReLU network 784-512-1024-128-10, a million parameters, at 10,000 images, traced
  over its ten outputs.

float32. The operations counted are those of matrix products alone: the inner products of the images, Cholesky's factor,
the inner products of activations and of cotangents. Best of two calls after a first, which compiles.
"""

import argparse
import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np

from corollary import Network, data, kernels


def timed(function, calls=2):
    times = []
    for _ in range(calls + 1):
        began = time.perf_counter()
        result = jax.block_until_ready(function())
        times.append(time.perf_counter() - began)
    return times[0], min(times[1:]), result


def rate(side=8192):
    a = jax.random.normal(jax.random.key(0), (side, side))
    square = jax.jit(lambda a: a @ a)
    return 2 * side**3 / timed(lambda: square(a), 10)[1]


def report(name, first, best, work, speed, note=""):
    print(
        f"{name}: {best:.2f} s (first call {first:.2f} s), {work / best / 1e12:.2f} TFLOP/s in matrix products, ",
        end="",
    )
    print(f"{work / best / speed:.3f} of the measured {speed / 1e12:.1f}{note}", flush=True)


def images(split, count):
    x, y = data.mnist(split)
    x = x[:count].reshape(count, -1).astype(np.float32) / 255
    return x / np.linalg.norm(x, axis=1, keepdims=True) * 28, y[:count]


def tangent(a, b=None):
    return kernels.ntk(a, b, depth=3)


def main(scale):
    train, labels = images("train", int(60_000 * scale))
    test, truth = images("test", int(10_000 * scale))
    speed = rate(8192 if jax.default_backend() == "gpu" else 2048)
    print(f"{jax.devices()[0].device_kind}: {speed / 1e12:.1f} TFLOP/s in a product of square matrices, float32")

    n, m, d = len(train), len(test), train.shape[1]
    left, right = jnp.asarray(train), jnp.asarray(test)
    first, best, block = timed(lambda: kernels.tiled(tangent, left, right, tile=4096))
    report(
        f"analytic, {n} x {m}",
        first,
        best,
        2 * n * m * d,
        speed,
        f"; {n * m / best / 1e6:.0f} million entries a second",
    )
    del block

    n = int(50_000 * scale)
    model = kernels.KernelClassifier(tangent, ridge=1e-2)
    began = time.perf_counter()
    model.fit(train[:n], labels[:n])
    fitting = time.perf_counter() - began
    share = np.mean(model.predict(test) == truth)
    work = n**3 / 3 + 2 * n * n / 2 * d
    report(f"regression, {n} images", fitting, fitting, work, speed, f"; test accuracy {share:.4f}")

    sizes = (784, 512, 1024, 128, 10)
    keys = jax.random.split(jax.random.key(0), len(sizes))
    shapes = list(itertools.pairwise(sizes))
    params = [jax.random.normal(k, s) * (2 / s[0]) ** 0.5 for k, s in zip(keys, shapes, strict=False)]
    n = int(10_000 * scale)
    first, best, _ = timed(lambda: kernels.empirical_ntk(Network(network, params, batched=True), left[:n]))
    # for each layer: inner products of its inputs, and of its cotangents for each of the ten outputs
    work = 2 * n * n / 2 * sum(a + sizes[-1] * b for a, b in shapes)
    count = sum(p.size for p in params)
    report(f"empirical, {count} parameters, {n} images", first, best, work, speed)


def network(params, x):
    for w in params[:-1]:
        x = jax.nn.relu(x @ w)
    return x @ params[-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the numbers of images")
    main(parser.parse_args().scale)
