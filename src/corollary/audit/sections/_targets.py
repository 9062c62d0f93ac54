"""Are the targets at a scale that outputs reach? Their mean square, where training did not get to them."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import numpy as np

from corollary.audit._losses import DIFFERENCES
from corollary.audit.action import Action
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._blind import blind_guess
from corollary.audit.sections._first_steps import SOMEWHERE
from corollary.audit.sections._inputs import LOOK, PROBLEM
from corollary.audit.sections._treatments import retraining
from corollary.network import Network

NAME = "scale of the targets"


class Targets(NamedTuple):
    """Mean and standard deviation of all numbers of the targets, the mean square, and whether training got to them."""

    mean: float
    spread: float
    size: float
    somewhere: bool


def measure(subject) -> Targets | None:
    """None where targets are no numbers to be met, or are classes."""
    if subject.loss_name not in DIFFERENCES or subject.classes is not None:
        return None
    y = np.asarray(subject.targets("train"), float)
    somewhere = subject.mean_loss() < (1 - SOMEWHERE) * blind_guess(subject)
    return Targets(float(y.mean()), float(y.std()), float(np.mean(y**2)), somewhere)


def judge(found: Targets) -> Finding:
    text = f"The targets have mean {short(found.mean)} and standard deviation {short(found.spread)}. "
    if found.size <= LOOK:
        mark, end = "fine", "Outputs, which start at the order of 1, are not far from them."
    elif found.somewhere:
        mark, end = "fine", "That is far from the outputs at a usual start, and training has got there."
    else:
        mark = "problem" if found.size > PROBLEM else "look"
        end = "Outputs start at the order of 1, and training did not get to them from there: standardise the targets."
    near = Premise("targets of mean square near 1", found.size <= LOOK, short(found.size))
    return Finding(
        NAME,
        mark,
        text + end,
        found.size,
        exact=True,
        theorem="The gradient of the squared loss is the residual times the slope of the outputs: targets c times as "
        "large make the first residuals and steps so much larger, and the step that is stable no longer.",
        claim="linear.scoring.conditioning",
        premises=(near,),
        headline="The targets are too large",
    )


def standardise(subject, finding) -> Action | None:
    """The network plus the mean of the targets, times their spread: its own outputs meet standardised targets."""
    what = "standardise the targets, and give the outputs their mean and spread again, with the step in the new units"
    return retraining(subject, what, finding.name, partial(_standardised, measure(subject)))


def _standardised(found: Targets, subject):
    buffers, rest = eqx.partition(subject.apply.fixed, eqx.is_array)

    def apply(params, buffers, x):
        return found.mean + found.spread * eqx.combine(params, buffers, rest)(x)

    step = subject.learning_rate
    treated = subject.with_network(Network(apply, subject.params, buffers))
    # an optimiser of one's own may not mind the scale of the loss, plain descent does, by the square of the unit
    if step is None or subject.optimiser is not None or not found.spread > 0:
        return treated
    return treated.replaced(learning_rate=step / found.spread**2)
