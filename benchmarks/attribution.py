"""Exact Shapley values against shap, and integrated gradients against captum, one after the other.

    pip install -e . && python benchmarks/attribution.py

A ReLU network with two hidden layers of 64 units, 12 features and 100 background rows: all 4,096 coalitions, for the
same weights, rows and background on both sides; results are compared before times are. shap's exact explainer is given
the network as a NumPy function and as a PyTorch module. Integrated gradients of the same network: captum takes a number
of nodes, ours a tolerance; printed is how far each is from adding up. Seconds per row, best of several repetitions; our
first call, with its compilation, is printed beside them. The peers live in an environment of their own under
benchmarks/.peers, installed when first needed. CPU_CLOCK=1 compares CPU time, which other work on the machine disturbs
less than the time on the wall.
"""

import argparse
import itertools
import os
import subprocess
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from _environment import environment

from corollary import Network
from corollary.attribution import integrated_gradients, shapley_values

CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter

# without dependencies, which would replace this build of torch by the newest one
PEERS = (
    ["torch==2.13.0"],
    [
        "numpy",
        "scipy",
        "scikit-learn",
        "pandas",
        "tqdm",
        "packaging",
        "slicer==0.0.8",
        "numba",
        "cloudpickle",
        "matplotlib",
    ],
    ["--no-deps", "shap==0.51.0", "captum==0.9.0"],
)


def network(sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=s) / s[0] ** 0.5, 0.1 * rng.normal(size=s[1])) for s in itertools.pairwise(sizes)]


def apply(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
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


def peers(params, x, background, repeats, threads):
    given = {f"{c}{i}": a for i, layer in enumerate(params) for c, a in zip("wb", layer, strict=True)}
    given |= dict(layers=len(params), x=x, background=background, repeats=repeats, threads=threads)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "in.npz", **given)
        script = Path(__file__).parent / "_peer_attribution.py"
        python = environment("attribution", *PEERS)
        subprocess.run([python, script, Path(folder) / "in.npz", Path(folder) / "out.npz"], check=True)
        return dict(np.load(Path(folder) / "out.npz"))


def main(features, width, rows, background, repeats, threads):
    rng = np.random.default_rng(1)
    params = network([features, width, width, 1])
    x, b = rng.normal(size=(rows, features)), rng.normal(size=(background, features))
    theirs = peers(params, x, b, repeats, threads)
    best = min(theirs["numpy"], theirs["torch"])
    print(f"{features} features, {background} background rows, network {features}-{width}-{width}-1, seconds per row:")
    print(f"  shap       NumPy {theirs['numpy']:.3f}, PyTorch {theirs['torch']:.3f}")
    for double in (False, True):
        with jax.enable_x64(double):
            ours = Network(apply, jax.tree.map(jnp.asarray, params))
            first, seconds, found = timed(lambda: shapley_values(ours, x, b).values, repeats)  # noqa: B023
            off = np.abs(np.asarray(found)[..., 0] - theirs["values"]).max()
            name = "float64" if double else "float32"
            print(f"  corollary  {name} {seconds / rows:.3f} (first call {first:.2f}), ", end="")
            print(f"ratio {best / seconds * rows:.1f}, largest difference {off:.1e}")
            if not double:
                _, integration, integrated = timed(lambda: integrated_gradients(ours, x, b[0]), repeats)  # noqa: B023
    print(f"integrated gradients of {rows} rows, float32, gap of the sum:")
    for steps in theirs["steps"]:
        print(f"  captum     {steps} nodes: {theirs[f'gap{steps}']:.1e}, {theirs[f'seconds{steps}']:.4f} s")
    nodes, gap = np.asarray(integrated.nodes), float(np.max(integrated.gap))
    print(f"  corollary  {nodes.min()} to {nodes.max()} nodes: {gap:.1e}, {integration:.4f} s")
    off = np.abs(np.asarray(integrated.values) - theirs["integrated"]).max()
    print(f"  largest difference from captum's with {theirs['steps'][-1]} nodes: {off:.1e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, default=12)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--background", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    main(args.features, args.width, args.rows, args.background, args.repeats, args.threads)
