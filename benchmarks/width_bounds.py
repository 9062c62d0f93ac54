"""Bounds against the width of a network, 10 to 8,192 units: the VC bound grows with it, the certificate hardly.

    python benchmarks/width_bounds.py            # minutes on a GPU
    python benchmarks/width_bounds.py --small    # a minute on a CPU

One hidden layer on MNIST, 0 to 4 against 5 to 9 (B09.09). Each width: the bound by the VC dimension (an upper bound of
it, which counts parameters), the PAC-Bayes certificate with the prior at the initialisation, both at confidence .965,
and the errors of the stochastic network on the sample and on the test images. As in the claim
`generalization.pac_bayes_recipe.widths` every VC bound is above 1 and they grow, every certificate is below one half
and above the error on the test images, and the largest is fewer times the least than among the VC bounds.
"""

import argparse
import time
from itertools import pairwise
from typing import NamedTuple

import jax
import optax
from certificates import images

from corollary.generalization import pac_bayes, relu_vc_upper, vc
from corollary.nets import MLP, relu, train

DELTA, DELTA_DRAWS = 0.025, 0.01


class Size(NamedTuple):
    """How much is trained, on what."""

    widths: tuple[int, ...]
    n: int
    tests: int
    before: int  # steps of ordinary training, from which the posterior starts
    steps: int
    draws: int


FULL = Size((10, 32, 100, 316, 1000, 2048, 4096, 8192), 55_000, 10_000, 500, 10_000, 20)
SMALL = Size((10, 32, 100), 10_000, 2000, 200, 500, 2)


class Bounds(NamedTuple):
    """At one width."""

    vc: float
    certificate: float
    inside: float
    outside: float
    kl: float


def measured(width: int, size: Size, data, new) -> Bounds:
    """Train and certify one network."""
    start_key, train_key, key = jax.random.split(jax.random.key(0), 3)
    sizes = (data[0].shape[1], width, 1)
    initial = MLP(sizes, relu, key=start_key)
    optimiser = optax.adam(optax.cosine_decay_schedule(2e-3, size.before))
    options = {"steps": size.before, "batch_size": 250, "key": train_key}
    network = train(initial, "cross_entropy", data, optimiser, **options).network
    options = {"delta": DELTA, "delta_draws": DELTA_DRAWS, "steps": size.steps, "draws": size.draws, "key": key}
    made = pac_bayes(network, "cross_entropy", data, initial=initial, **options)
    outside = int(made.posterior.errors(new, draws=size.draws, key=key)) / (size.draws * len(new[1]))
    classical = vc(len(data[1]), DELTA + DELTA_DRAWS, dimension=relu_vc_upper(sizes), form="printed").value
    return Bounds(*map(float, (classical, made.value, made.terms["training error"], outside, made.kl)))


def main(size: Size) -> bool:
    began = time.perf_counter()
    data, new = images("train", size.n, "true"), images("test", size.tests, "true")
    print(f"{size.n} images, confidence {1 - DELTA - DELTA_DRAWS:g}: {jax.devices()[0]}")
    print("width   parameters   VC bound   certificate   errors: sample     test       KL")
    rows = []
    for width in size.widths:
        start = time.perf_counter()
        rows.append(found := measured(width, size, data, new))
        parameters = (data[0].shape[1] + 1) * width + width + 1
        print(
            f"{width:5} {parameters:12,} {found.vc:10.2f} {found.certificate:13.4f} {found.inside:16.4f} "
            f"{found.outside:8.4f} {found.kl:8,.0f}   ({time.perf_counter() - start:.1f} s)",
            flush=True,
        )
    growth, spread = (max(column) / min(column) for column in list(zip(*rows, strict=True))[:2])
    print(f"largest over least: VC {growth:.1f}, certificate {spread:.2f}; {time.perf_counter() - began:.0f} s")
    return (
        all(a.vc < b.vc for a, b in pairwise(rows))
        and all(r.vc > 1 and r.outside < r.certificate < 0.5 for r in rows)
        and spread < growth
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="fewer images, widths and steps, for a CPU")
    good = main(SMALL if parser.parse_args().small else FULL)
    raise SystemExit(0 if good else "The bounds are not in the order that they should be in.")
