"""One look of a watch at everything against a step of Cockpit with its configurations, one after the other.

    pip install -e . && python benchmarks/audit.py
    CPU_CLOCK=1 python benchmarks/audit.py          # CPU time, on a machine that has other work

Network 784-256-256-10 with ReLU, cross-entropy on a batch of 128, float32, the same weights and batch on both sides;
what both measure is compared before times are. A step of Cockpit is the training step with what it adds; what a plain
step takes is subtracted. Its full configuration has step length, distance, histograms of one and two dimensions, the
norms and tests of the gradient, the size of the update, TIC, trace and largest eigenvalue of the Hessian; our look has
these (TIC as the ratio of traces) and early stopping, curvature along the step and signal to noise. Best of several.
Cockpit lives in an environment of its own under benchmarks/.peers, installed when first needed.
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
from corollary.audit import Subject, _looks

CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter
PEERS = (["torch==2.13.0"], ["setuptools<81", "cockpit-for-pytorch==1.0.2", "backpack-for-pytorch==1.7.1"])


def apply(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def compare(sizes, batch, repeats, threads):
    rng = np.random.default_rng(0)
    weights = [(rng.normal(size=s) * (2 / s[0]) ** 0.5).astype(np.float32) for s in itertools.pairwise(sizes)]
    params = [(w, np.zeros(w.shape[1], np.float32)) for w in weights]
    x = rng.normal(size=(batch, sizes[0])).astype(np.float32)
    y = rng.integers(sizes[-1], size=batch)
    rate = 0.01
    given = {f"{c}{i}": a for i, layer in enumerate(params) for c, a in zip("wb", layer, strict=True)}
    given |= dict(layers=len(params), x=x, y=y, batch=batch, repeats=repeats, threads=threads, rate=rate)
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(paths[0], **given)
        peer = environment("cockpit", *PEERS)
        subprocess.run([peer, Path(__file__).parent / "_peer_cockpit.py", *paths], check=True)
        theirs = {name: float(a) for name, a in np.load(paths[1]).items()}

    network = Network(apply, jax.tree.map(jnp.asarray, params))
    looks = _looks.looks(Subject(network, "cross_entropy", (x, y), batch_size=batch))
    before = jax.tree.map(lambda a: 0.999 * a, looks.arrays)
    times = []
    for i in range(repeats + 1):
        began = CLOCK()
        ours = jax.device_get(_looks.everything(looks, looks.arrays, before, np.arange(batch), jax.random.key(i)))
        times.append(CLOCK() - began)
    pairs = {"Loss": "loss", "GradNorm": "gradient_norm", "NormTest": "norm", "InnerTest": "inner_product"}
    pairs |= {"OrthoTest": "orthogonality", "HessMaxEV": "sharpness", "HessTrace": "hessian_trace"}
    for name, own in pairs.items():
        # its tests are roots of ours
        value = float(ours[own]) ** 0.5 if name.endswith("Test") else float(ours[own])
        error = f" ± {ours['hessian_trace_error']:.2g}" if name == "HessTrace" else ""
        print(f"  {name}: {theirs[name]:.5g} theirs, {value:.5g}{error} ours")
    best = min(times[1:])
    unit = "CPU" if os.environ.get("CPU_CLOCK") else "wall"
    print(f"a plain step of PyTorch {1e3 * theirs['none']:.1f} ms, {unit} time on {threads} threads")
    for label in ("economy", "business", "full"):
        added = theirs[label] - theirs["none"]
        print(f"  Cockpit {label}: adds {1e3 * added:.0f} ms; our look {1e3 * best:.0f} ms: ratio {added / best:.1f}")
    print(f"  our first look, with compilation, {times[0]:.1f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[784, 256, 256, 10])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    compare(args.sizes, args.batch, args.repeats, args.threads)
