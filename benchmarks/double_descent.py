"""Double descent against its exact law: d = 128, n = 32, 20,000 draws at each of 26 numbers of features.

    python benchmarks/double_descent.py

The mean risk of least squares of least norm on the first p features, beside `least_squares_risk`. The bars: within 5 %
wherever |p - n| >= 4, where the risk has a variance, and under 30 seconds on two cores, compilation included.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

from corollary.generalization import first_features_fit, least_squares_risk

SIZES = np.array([1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 36, 38, 40, 44, 48, 56, 64, 80, 96, 112, 128])


def main(draws: int, n: int, d: int, noise: float) -> bool:
    start = time.perf_counter()
    with jax.enable_x64(True):
        truth = jax.random.normal(jax.random.key(1), (d,)) / d**0.5

        def one(key):
            x_key, noise_key = jax.random.split(key)
            x = jax.random.normal(x_key, (n, d))
            y = x @ truth + noise * jax.random.normal(noise_key, (n,))
            risk = lambda p: jnp.sum((first_features_fit(x, y, p) - truth) ** 2) + noise**2  # noqa: E731
            return jax.lax.map(risk, jnp.asarray(SIZES))

        sample = jax.jit(lambda keys: jnp.mean(jax.lax.map(one, keys, batch_size=500), 0))
        measured = np.asarray(sample(jax.random.split(jax.random.key(0), draws)))
        law = np.asarray(least_squares_risk(n, SIZES, truth, noise).risk)
    seconds = time.perf_counter() - start
    off = np.abs(measured / law - 1)
    for p, m, r, e in zip(SIZES, measured, law, off, strict=True):
        print(f"p = {p:3d}   measured {m:8.4f}   exact {r:8.4f}   {100 * e:5.2f} % apart")
    print(f"{len(SIZES)} sizes of {draws} draws in {seconds:.1f} s; at most {100 * off.max():.2f} % apart")
    return bool(off.max() < 0.05)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--n", type=int, default=32)
    parser.add_argument("--d", type=int, default=128)
    parser.add_argument("--noise", type=float, default=0.5)
    raise SystemExit(not main(**vars(parser.parse_args())))
