"""Does the decay outweigh the data? What it takes off the weights over the training, and what is left of them."""

import math
from typing import NamedTuple

import jax
import numpy as np

from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._blind import blind_guess
from corollary.audit.sections._first_steps import SOMEWHERE

NAME = "pull of the weight decay"
# weights that have less than half of the norm they started with, though training has to build something up
LEFT = 0.5
# a decay divided by so much is one that does not decide
LESS = 100


class Pull(NamedTuple):
    """The decay, the share that it leaves of what the loss does not hold up, the norm of the weights over that at the
    start, and whether training got somewhere."""

    decay: float
    leaves: float
    norm: float
    somewhere: bool


def measure(subject) -> Pull | None:
    """None where the decay, the step, the steps or the start are not known."""
    known = subject.weight_decay, subject.learning_rate, subject.steps, subject.initial_params
    if any(a is None for a in known) or not subject.weight_decay or (blind := blind_guess(subject)) is None:
        return None
    sizes = [_norm(params) for params in (subject.params, subject.initial_params)]
    if not sizes[1] > 0:
        return None
    leaves = math.exp(-subject.weight_decay * subject.learning_rate * subject.steps)
    return Pull(subject.weight_decay, leaves, sizes[0] / sizes[1], subject.mean_loss() < (1 - SOMEWHERE) * blind)


def _norm(params) -> float:
    return math.sqrt(sum(float(np.sum(np.asarray(a, float) ** 2)) for a in jax.tree.leaves(params)))


def judge(found: Pull) -> Finding:
    text = (
        f"Over the training a decay of {short(found.decay)} shrinks what the loss does not hold up to "
        f"{short(found.leaves)} of its size, and the weights have {short(found.norm)} of the norm they started with. "
    )
    won = not found.somewhere and found.norm < LEFT and found.leaves < LEFT
    text += "It outweighs the data: nothing was learned against it." if won else "It does not outweigh the data."
    return Finding(
        NAME,
        "problem" if won else "fine",
        text,
        found.norm,
        exact=True,
        unit="of the norm at the start",
        theorem="A decay λ is a penalty λ|θ|²/2: along a direction of curvature h what is learned is h/(h + λ) of what "
        "the loss alone would learn, and after t steps of size η what the loss does not hold up is (1 − ηλ)ᵗ.",
        claim="optimization.quadratics.dynamics",
        premises=(Premise("training got somewhere", found.somewhere),),
        headline="The weight decay outweighs the data",
    )
