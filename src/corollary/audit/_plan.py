"""How many examples, products, vectors and outputs a section takes, so that it stays within its budget.

The work of a section is that of its passes through the network, counted in `_cost`; its memory that of vectors as long
as the parameters, and of the values on the way through a batch. Small networks are measured on all that the budget
names; of large ones fewer examples are taken, then fewer products, then fewer directions, and the findings say so.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from corollary.audit._sample import some
from corollary.network.apart import FEW
from corollary.network.batches import count

# a gradient is a forward pass and twice its work on the way back; a product with the Hessian differentiates both
GRADIENT, PRODUCT = 3, 6
# derivatives keep about so many numbers for each that the forward pass makes
KEPT = 8
# What is taken at the least, whatever it costs. As many examples as a network is tried out on: a program for fewer
# would have to be compiled for nothing else.
FEWEST, LEAST_PRODUCTS, LEAST_STEPS = FEW, 12, 4
# so many examples are worth a multiple of the work to a curvature; beyond that two have to do
PATIENCE, TWO = 4, 2
# examples of a curvature that are given up only after the number of products has come down
USUAL = 64
# kernels cost one backward pass per example and output: with many outputs fewer examples are taken
OUTPUTS, KERNEL_EXAMPLES = 32, 16


class Curvature(NamedTuple):
    """Data, and how products with a Hessian on them are spent; `basis` None is Lanczos' own choice."""

    data: Any
    products: int
    basis: int | None
    batch_size: int
    steps: int  # of each of the four runs that give the spectral density
    probes: int  # of the trace
    method: str  # of the trace


def forward(subject) -> float:
    """The operations of a forward pass of one example; every parameter is multiplied and added at least once."""
    return max(subject.cost.operations, 2.0 * subject.size)


def examples_for(subject, budget, passes: float, most: int | None = None, least: int = FEWEST) -> int:
    """So many examples that `passes` forward passes of each stay within the budget's work."""
    most = budget.examples if most is None else most
    return int(min(most, max(least, budget.work / (passes * forward(subject)))))


def batch_of(subject, budget, most: int) -> int:
    """So many examples at once that the values which derivatives keep of them fit."""
    return int(max(1, min(most, budget.memory / (KEPT * max(subject.cost.numbers, 1)))))


def vectors(subject, budget) -> int:
    """How many vectors as long as the parameters are held at once."""
    return int(budget.memory // subject.size)


def gradients_at_once(subject, budget) -> int:
    """How many examples' gradients are held at once; beyond a few more would not be quicker."""
    # a thirty-second part of the memory: gradients of a batch are made from several times as much
    return max(1, min(batch_of(subject, budget, 64), budget.memory // 32 // subject.size))


def curvature(subject, budget, key) -> Curvature:
    """Examples and products of one Lanczos run within the budget's work."""
    affordable = budget.work / (PRODUCT * forward(subject))
    products = int(min(budget.products, max(LEAST_PRODUCTS, affordable // USUAL)))
    patient = min(FEWEST, PATIENCE * affordable // products)
    examples = int(min(budget.examples, max(TWO, patient, affordable // products)))
    share = products / budget.products
    room = vectors(subject, budget)
    steps = int(max(LEAST_STEPS, min(48 * share, room - 4, 48)))
    probes = int(max(6, round(24 * share)))
    return Curvature(
        some(subject.train, examples, key),
        products,
        # two pairs are sought among 2k + 24 vectors, beside a few for the products
        None if room >= 32 else max(4, room - 2),
        batch_of(subject, budget, 1024),
        steps,
        probes,
        "hutch++" if 2 * probes <= room else "hutchinson",
    )


def kernel(subject, budget, key) -> tuple[int, np.ndarray | None]:
    """How many examples a tangent kernel takes, and of which outputs: None for all of them."""
    row = int(np.prod(subject.outputs("train").shape[1:]))
    # of the training and the test examples, at the start and at the end
    kernels = (1 + (subject.test is not None)) * (1 + (subject.initial_params is not None))
    passes = budget.work / (kernels * GRADIENT * forward(subject))
    usual = max(KERNEL_EXAMPLES, budget.kernel * OUTPUTS // max(row, OUTPUTS))
    if usual * row <= passes:
        return usual, None
    if KERNEL_EXAMPLES * row <= passes:
        return int(passes // row), None
    few = int(max(1, passes // KERNEL_EXAMPLES))
    if few >= row:
        return KERNEL_EXAMPLES, None
    examples = int(min(KERNEL_EXAMPLES, max(FEWEST, passes)))
    return examples, np.sort(np.asarray(jax.random.permutation(key, row)[:few]))


def too_long(subject, budget) -> str | None:
    """The sentence for what is left out of a program that takes long to compile; None for any other.

    Left out is all that needs derivatives: XLA's time for their programs grows with the square of the steps.
    """
    if subject.cost.steps <= budget.steps:
        return None
    return (
        f"This was left out: the network is a program of {subject.cost.steps:,} steps, and compiling what this needs "
        "takes minutes. --budget full measures it."
    )


def looked_at(subject, data) -> tuple[int, int]:
    """How many examples `data` has, and how many training examples there are."""
    return count(data), subject.count()
