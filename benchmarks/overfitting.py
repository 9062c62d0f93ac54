"""Six methods that fit their data exactly, planted with their kinds: does `overfitting` name them, on ten seeds?

python benchmarks/overfitting.py
"""

import argparse

import jax
import jax.numpy as jnp

from corollary.generalization import (
    Planted,
    broken_line,
    chebyshev_nodes,
    interpolating_polynomial,
    nadaraya_watson,
    nearest_neighbour,
    overfitting,
    singular_kernel,
)

NOISE = 0.5
SIZES, FEW, LARGEST = (100, 200, 400, 800), (8, 12, 16, 24, 32), 128


def wave(x):
    return jnp.sin(2 * jnp.pi * x)


def line(x):
    return x[0]


def inside(key):
    return jax.random.uniform(key, minval=0.15, maxval=0.85)


def arcsine(key):
    return jnp.cos(jnp.pi * jax.random.uniform(key))


def normal(key):
    return jax.random.normal(key, (LARGEST,))  # smaller designs see its first coordinates


def uniform(key, n):
    return Planted(wave, jax.random.uniform, NOISE).sample(n, key=key)


def at_chebyshev(key, n):
    x = chebyshev_nodes(n)
    return x, wave(x) + NOISE * jax.random.normal(key, (n,))


def as_many(key, n):
    """As many features as points."""
    x_key, noise_key = jax.random.split(key)
    x = jax.random.normal(x_key, (n, n))
    return x, x[:, 0] + NOISE * jax.random.normal(noise_key, (n,))


def linear(data, key):
    w = jnp.linalg.solve(*data)
    return lambda x: x[: w.shape[0]] @ w


def average(data, key):
    return nadaraya_watson(*data, singular_kernel(0.4, 0.5 * data[0].shape[0] ** -0.2))


METHODS = {
    "average with a singular kernel": ("benign", average, uniform, wave, inside, SIZES),
    "broken line": ("tempered", lambda data, key: broken_line(*data), uniform, wave, inside, SIZES),
    "nearest neighbour": ("tempered", lambda data, key: nearest_neighbour(*data), uniform, wave, inside, SIZES),
    "polynomial": ("catastrophic", lambda data, key: interpolating_polynomial(*data), uniform, wave, inside, FEW),
    "polynomial at Chebyshev points": (
        "tempered",
        lambda data, key: interpolating_polynomial(*data),
        at_chebyshev,
        wave,
        arcsine,
        (40, 100, 250, 640),
    ),
    "least squares, as many features as points": ("catastrophic", linear, as_many, line, normal, (16, 32, 64, LARGEST)),
}


def main(seeds: int, runs: int) -> bool:
    right = 0
    with jax.enable_x64(True):
        for name, (kind, fit, draw, truth, inputs, sizes) in METHODS.items():
            found = [
                overfitting(
                    fit,
                    draw,
                    sizes,
                    truth=truth,
                    inputs=inputs,
                    runs=runs,
                    tests=200,
                    key=jax.random.key(seed),
                )
                for seed in range(seeds)
            ]
            named = sum(each.kind == kind for each in found)
            slopes = ", ".join(f"{each.slope:.2f}" for each in found)
            print(f"{name}: {kind} on {named} of {seeds} seeds; slopes {slopes}", flush=True)
            right += named
    print(f"{right} of {seeds * len(METHODS)}")
    return right == seeds * len(METHODS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=128)
    raise SystemExit(not main(**vars(parser.parse_args())))
