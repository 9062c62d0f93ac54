"""Hessian-vector products against curvlinops and a Lanczos run against hessian-eigenthings, one after the other.

    pip install -e . && python benchmarks/curvature.py
    python benchmarks/curvature.py --gpu        # ours alone: ten million parameters, 50,000 examples, 100 steps

Network 784-256-256-10 with tanh, cross-entropy on 2,048 examples, float32, the same weights, data and vectors on both
sides; results are compared before times are. Products that are all known beforehand are compared with the faster of the
peer's two ways, one by one or all at once; products in succession, as in every iterative method, with one by one. What
a product repeats of value and gradient, ours makes once. Best times of several repetitions; our first compilation is
printed beside them. The peers live in an environment of their own under benchmarks/.peers, installed when first needed.
"""

import argparse
import itertools
import os
import subprocess
import tempfile
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from _environment import environment

from corollary import Network, landscape

# other work on the machine disturbs CPU time less than the time on the wall: CPU_CLOCK=1 compares that
CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter

PEERS = (
    ["torch==2.13.0"],
    ["numpy", "scipy", "tqdm", "jaxtyping", "mpmath", "opt-einsum", "packaging"],
    # without their dependencies, which would replace this build of torch by the newest one
    [
        "--no-deps",
        "curvlinops-for-pytorch==3.0.1",
        "hessian-eigenthings==1.0.0a5",
        "backpack-for-pytorch==1.7.1",
        "einops",
        "einconv",
        "linear_operator",
        "unfoldNd",
    ],
)


def network(sizes, seed=0):
    rng = np.random.default_rng(seed)
    weights = [(rng.normal(size=s) / s[0] ** 0.5).astype(np.float32) for s in itertools.pairwise(sizes)]
    return [(w, np.zeros(w.shape[1], np.float32)) for w in weights]


def apply(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def timed(function, repeats):
    """First call, best of the later ones, result."""
    times = []
    for _ in range(repeats + 1):
        began = CLOCK()
        result = jax.block_until_ready(function())
        times.append(CLOCK() - began)
    return times[0], min(times[1:]), result


def compare(sizes, n, count, steps, k, repeats, threads):
    rng = np.random.default_rng(1)
    params = network(sizes)
    x = rng.normal(size=(n, sizes[0])).astype(np.float32)
    y = rng.integers(sizes[-1], size=n)
    operator = landscape.hessian(Network(apply, params), "cross_entropy", (x, y))
    vectors = rng.normal(size=(operator.size, count)).astype(np.float32)

    given = {f"{c}{i}": a for i, layer in enumerate(params) for c, a in zip("wb", layer, strict=True)}
    given |= dict(layers=len(params), x=x, y=y, steps=steps, k=k, repeats=repeats, threads=threads)
    with tempfile.TemporaryDirectory() as folder:
        # torch stores a weight as (out, in), so its flat parameters are ours with each matrix transposed
        np.savez(Path(folder) / "in.npz", vectors=np.stack([reorder(v, sizes) for v in vectors.T], 1), **given)
        script = Path(__file__).parent / "_peer_curvature.py"
        peer = environment("curvature", *PEERS)
        subprocess.run([peer, script, Path(folder) / "in.npz", Path(folder) / "out.npz"], check=True)
        theirs = dict(np.load(Path(folder) / "out.npz"))

    first, together, products = timed(lambda: operator @ vectors, repeats)
    _, one, _ = timed(lambda: [operator @ v for v in vectors.T], repeats)
    _, chained, _ = timed(lambda: succession(operator, vectors[:, 0], count), repeats)
    error = np.max(np.abs(np.stack([reorder(v, sizes) for v in np.asarray(products).T], 1) - theirs["products"]))
    scale = np.max(np.abs(theirs["products"]))
    best = min(theirs["one_by_one"], theirs["together"])
    print(
        f"{count} products, {operator.size} parameters, {n} examples: largest difference {error / scale:.1e} relative"
    )
    print(f"  curvlinops  one by one {theirs['one_by_one']:.3f} s, together {theirs['together']:.3f} s")
    print(f"  corollary   one by one {one:.3f} s, together {together:.3f} s (first call {first:.2f} s)")
    print(f"  ratio at their best, all at once: {best / min(one, together):.2f}")
    print(f"  in succession, each product of the one before (power iteration): corollary {chained:.3f} s, ", end="")
    print(f"ratio {theirs['one_by_one'] / chained:.2f}")

    first, ours, pairs = timed(lambda: operator.top(k, products=steps, basis=steps, tolerance=0.0), repeats)
    with jax.enable_x64(True):
        double = [(jnp.asarray(w, float), jnp.asarray(b, float)) for w, b in params]
        double = landscape.hessian(Network(apply, double), "cross_entropy", (x, y))
        exact = np.asarray(double.top(k, tolerance=1e-8).values)
    off = [np.max(np.abs(np.sort(v)[::-1] - exact)) / exact[0] for v in (np.asarray(pairs.values), theirs["values"])]
    print(f"Lanczos, {steps} steps, top {k}: relative error {off[0]:.1e} ours, {off[1]:.1e} theirs")
    print(f"  hessian-eigenthings {theirs['lanczos']:.3f} s, corollary {ours:.3f} s (first call {first:.2f} s)")
    print(f"  ratio {theirs['lanczos'] / ours:.2f}")


@eqx.filter_jit
def succession(operator, vector, count):
    """As many products, each of what the one before gave: the linear part is made once."""
    product = operator.linearised()
    return jax.lax.fori_loop(0, count, lambda _, v: product(v / jnp.linalg.norm(v)), vector)


def reorder(vector, sizes):
    """A flat vector of ours in PyTorch's order."""
    out, at = [], 0
    for a, b in itertools.pairwise(sizes):
        out += [vector[at : at + a * b].reshape(a, b).T.ravel(), vector[at + a * b : at + a * b + b]]
        at += a * b + b
    return np.concatenate(out)


def large(sizes, n, steps, batch):
    """Ours on a large network, with the fraction of the device's own rate of matrix products."""
    params = jax.tree.map(jnp.asarray, network(sizes))
    keys = jax.random.split(jax.random.key(0))
    x, y = jax.random.normal(keys[0], (n, sizes[0])), jax.random.randint(keys[1], (n,), 0, sizes[-1])
    operator = landscape.hessian(Network(apply, params), "cross_entropy", (x, y), batch_size=batch)
    side = 8192
    a = jax.random.normal(keys[0], (side, side))
    square = jax.jit(lambda a: a @ a)
    _, seconds, _ = timed(lambda: square(a), 10)
    rate = 2 * side**3 / seconds
    first, seconds, pairs = timed(lambda: operator.top(10, products=steps, basis=steps, tolerance=0.0), 2)
    weights = [w.size for w, _ in params]
    # a product of W with one example is 2|W| operations. Value and gradient: 2 of them for the first layer, 3 for the
    # others; their derivatives along a vector: 2 for the first layer (no derivative in the inputs), 6 for the others
    work = 2 * n * (4 * weights[0] + 9 * sum(weights[1:])) * int(pairs.products)
    print(f"{jax.devices()[0].device_kind}: {operator.size} parameters, {n} examples in batches of {batch}")
    print(f"  {int(pairs.products)} Lanczos steps in {seconds:.2f} s (first call {first:.2f} s)")
    print(f"  {work / seconds / 1e12:.1f} TFLOP/s of {rate / 1e12:.1f} measured in matrix products: ", end="")
    print(f"{work / seconds / rate:.2f}")
    print(f"  top eigenvalues {np.asarray(pairs.values)[:4]}, residuals {np.asarray(pairs.residuals)[:4]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[784, 256, 256, 10])
    parser.add_argument("--examples", type=int, default=2048)
    parser.add_argument("--vectors", type=int, default=20)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--top", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--gpu", action="store_true", help="ours alone, large")
    args = parser.parse_args()
    if args.gpu:
        large([784, 2500, 2500, 700, 10], 50_000, 100, 12_500)
    else:
        compare(args.sizes, args.examples, args.vectors, args.steps, args.top, args.repeats, args.threads)
