"""Influence of training digits on test digits against captum's Arnoldi iteration, one after the other.

    pip install -e . && python benchmarks/influence.py
    python benchmarks/influence.py --conjugate    # against dattri's and pyDVL's conjugate gradients, 10 test digits
    python benchmarks/influence.py --projected    # against traker's projections

A tanh network on scikit-learn's digits (8 by 8), trained by us, float32, the same weights and data on both sides: 1,000
training digits, 100 test digits, 20 products with the Hessian, with the 10 largest eigenpairs kept.
Scores are compared before times are, also with those of the whole Hessian's leading eigenpairs. captum does not export
its class; it is taken from where it is, in both of its ways to make gradients of single examples. The time is that of
everything from the network to the scores; our first compilation is printed beside it. traker scores margins by their
projected gradients, ours the loss by its Hessian on a random subspace of that dimension: another quantity, and what is
compared is how each ranks the training digits beside conjugate gradients. The peers live in environments of their own
under benchmarks/.peers, installed when first needed.
"""

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _environment import environment
from scipy import stats
from sklearn.datasets import load_digits

from corollary import attribution, nets

# other work on the machine disturbs CPU time less than the time on the wall: CPU_CLOCK=1 compares that
CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter

PEERS = (
    ["torch==2.13.0"],
    ["numpy", "matplotlib", "packaging", "tqdm"],
    # without its dependencies, which would replace this build of torch by the newest one
    ["--no-deps", "captum==0.9.0"],
)


DATTRI = (["torch==2.13.0"], ["dattri==0.3.0"])
PYDVL = (["torch==2.13.0"], ["pyDVL[influence]==0.10.0"])
TRAKER = (["torch==2.13.0"], ["traker==0.3.2"])
OTHERS = "_peer_influence_others.py"


def trained(sizes, train, steps):
    network = nets.MLP(sizes, nets.tanh, key=jax.random.key(0))
    return nets.fit(network, "cross_entropy", train, optax.adam(1e-3), steps=steps, progress=False).network


def timed(function, repeats):
    """First call, best of the later ones, result."""
    times = []
    for _ in range(repeats + 1):
        began = CLOCK()
        result = jax.block_until_ready(function())
        times.append(CLOCK() - began)
    return times[0], min(times[1:]), result


def peer(script, python, network, train, test, **options):
    weights = {f"w{i}": np.asarray(layer.weight).T for i, layer in enumerate(network.layers)}
    weights |= {f"b{i}": np.asarray(layer.bias) for i, layer in enumerate(network.layers)}
    arrays = {"x": train[0], "y": train[1], "z": test[0], "t": test[1]}
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(files[0], layers=len(network.layers), **weights, **arrays, **options)
        subprocess.run([python, Path(__file__).parent / script, *files], check=True)
        return dict(np.load(files[1]))


def correlation(a, b):
    return float(np.corrcoef(np.ravel(a), np.ravel(b))[0, 1])


def subject(sizes, n, tests):
    """A trained network, and digits on both sides."""
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    train, test = (x[:n], y[:n]), (x[n : n + tests], y[n : n + tests])
    return trained(sizes, (jnp.asarray(train[0]), jnp.asarray(train[1])), 300), train, test


def conjugate(sizes, n, steps, repeats, threads, tests=10, damping=0.1):
    network, train, test = subject(sizes, n, tests)
    options = {"steps": steps, "damping": damping, "threads": threads, "peer": "pydvl"}
    theirs = {"dattri": peer("_peer_influence_cg.py", environment("dattri", *DATTRI), network, train, test, **options)}
    python = environment("pydvl", *PYDVL)
    for name, together in (("pyDVL", False), ("pyDVL, together", True)):
        theirs[name] = peer(OTHERS, python, network, train, test, together=together, repeats=repeats, **options)
    solver = attribution.Solver("cg", products=steps, tolerance=1e-7)
    ask = lambda: attribution.influence(  # noqa: E731
        network, "cross_entropy", train, test, solver=solver, damping=damping, batch_size=n
    )
    first, seconds, found = timed(ask, repeats)
    print(f"{nets.parameter_count(network):,} parameters, {n} training and {tests} test digits, ", end="")
    print(f"{steps} conjugate gradients each, damping {damping}")
    print(f"  corollary        {seconds:.2f} s (first call {first:.2f} s)")
    for name, other in theirs.items():
        scores = other["scores"] if other["scores"].shape == found.scores.shape else other["scores"].T
        print(f"  {name:15}  {other['seconds']:.2f} s, ratio {other['seconds'] / seconds:.2f}, ", end="")
        print(f"correlation of the scores {correlation(found.scores, scores):.6f}")


def projected(sizes, n, tests, repeats, threads, rank=256, damping=1e-2):
    network, train, test = subject(sizes, n, tests)
    python = environment("traker", *TRAKER)
    options = {"rank": rank, "repeats": repeats, "threads": threads, "peer": "trak"}
    theirs = peer(OTHERS, python, network, train, test, **options)
    options = {"damping": damping, "batch_size": n}
    solver = attribution.Solver("projected", rank=rank)
    ask = lambda: attribution.influence(network, "cross_entropy", train, test, solver=solver, **options)  # noqa: E731
    first, seconds, found = timed(ask, repeats)
    solver = attribution.Solver("cg", products=50, tolerance=1e-4)
    whole = attribution.influence(network, "cross_entropy", train, test, solver=solver, **options).scores
    scores = theirs["scores"] if theirs["scores"].shape == found.scores.shape else theirs["scores"].T
    print(f"{nets.parameter_count(network):,} parameters, {n} training and {tests} test digits, dimension {rank}")
    print("                 seconds    rank correlation with conjugate gradients, mean over test digits")
    for name, time_of, some in (("corollary", seconds, found.scores), ("traker", theirs["seconds"], scores)):
        print(f"  {name:15} {time_of:7.2f}    {ranks(some, whole):.3f}")
    print(f"  ratio {theirs['seconds'] / seconds:.2f}, our first call {first:.2f} s")


def ranks(a, b):
    """The rank correlation of two scores of the training points (rows), for each test point; its mean."""
    columns = zip(np.asarray(a).T, np.asarray(b).T, strict=True)
    return float(np.mean([stats.spearmanr(p, q).statistic for p, q in columns]))


def main(sizes, n, tests, steps, rank, damping, repeats, threads):
    network, train, test = subject(sizes, n, tests)
    options = {"steps": steps, "rank": rank, "damping": damping, "repeats": repeats, "threads": threads}
    theirs = peer("_peer_influence.py", environment("influence", *PEERS), network, train, test, **options)

    def ours(products):
        solver = attribution.Solver("lanczos", rank=rank, products=products)
        return attribution.influence(
            network, "cross_entropy", train, test, solver=solver, damping=damping, batch_size=n
        )

    first, seconds, found = timed(lambda: ours(steps), repeats)
    exact = ours(2000)
    print(f"{nets.parameter_count(network):,} parameters, {n} training and {tests} test digits, ", end="")
    print(f"{steps} products, rank {rank}")
    print(f"  captum     gradients together {theirs['together']:.2f} s, one by one {theirs['apart']:.2f} s")
    print(f"  corollary  {seconds:.2f} s (first call {first:.2f} s)")
    best = min(("together", "apart"), key=lambda name: float(theirs[name]))
    print(f"  ratio at their best: {theirs[best] / seconds:.2f}")
    scores = theirs[f"{best}_scores"].T
    print(f"  correlation of the scores: {correlation(found.scores, scores):.4f}")
    print(f"  with converged eigenpairs: {correlation(found.scores, exact.scores):.4f} ours, ", end="")
    print(f"{correlation(scores, exact.scores):.4f} theirs")
    print(f"  {found.premises!r}, largest residual {float(found.residual.max()):.2g}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 280, 270, 10])
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--tests", type=int, default=100)
    parser.add_argument("--steps", type=int, default=20, help="products with the Hessian")
    parser.add_argument("--rank", type=int, default=10, help="eigenpairs that are kept")
    parser.add_argument("--damping", type=float, default=1e-3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--conjugate", action="store_true", help="against conjugate gradients of dattri and pyDVL")
    parser.add_argument("--projected", action="store_true", help="against traker's projections")
    args = parser.parse_args()
    if args.projected:
        projected(args.sizes, args.examples, args.tests, args.repeats, args.threads)
        raise SystemExit
    if args.conjugate:
        conjugate(args.sizes, args.examples, args.steps, args.repeats, args.threads)
        raise SystemExit
    main(args.sizes, args.examples, args.tests, args.steps, args.rank, args.damping, args.repeats, args.threads)
