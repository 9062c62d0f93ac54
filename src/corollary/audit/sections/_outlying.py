"""Do a few targets decide the loss? The share of their squared deviations that the most distant hundredth has."""

from functools import partial
from typing import NamedTuple

import numpy as np

from corollary.audit.action import Action
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._blind import blind_guess
from corollary.audit.sections._explained import listed
from corollary.audit.sections._first_steps import SOMEWHERE
from corollary.audit.sections._mends import without
from corollary.audit.sections._treatments import retraining

NAME = "most distant targets"
# A hundredth of the examples has 9 % of the squares under a normal law and 37 % under a log-normal one of σ = 1. Half
# is as much as all the others have, and nine tenths leave these next to nothing.
PART, LOOK, PROBLEM = 0.01, 0.5, 0.9
# fewer examples have no hundredth
FEWEST = 50
# a target further away than so many median deviations is named
FAR = 10.0
# examples that a sentence names
SHOWN = 5


class Outlying(NamedTuple):
    """The share of the squared deviations that the most distant hundredth of the targets has, their examples, the
    largest deviation in times of the median one, and whether training got to the targets all the same."""

    share: float
    rows: np.ndarray
    most: float
    somewhere: bool


def measure(subject) -> Outlying | None:
    """None where squares are not what is trained on, or are those of classes."""
    if subject.loss_name != "squared" or subject.classes is not None:
        return None
    y = np.asarray(subject.targets("train"), float)
    if len(y) < FEWEST:
        return None
    y = y.reshape(len(y), -1)
    squares = ((y - np.median(y, axis=0)) ** 2).sum(1)
    if not squares.sum() > 0:
        return None
    # the most distant hundredth
    far = np.argsort(-squares, kind="stable")[: max(1, round(PART * len(y)))]
    usual = float(np.median(squares))
    most = float(np.sqrt(squares.max() / usual)) if usual > 0 else np.inf
    share, rows = float(squares[far].sum() / squares.sum()), far[squares[far] > FAR**2 * usual]
    return Outlying(share, rows, most, subject.mean_loss() < (1 - SOMEWHERE) * blind_guess(subject))


def judge(found: Outlying) -> Finding:
    large = found.share > LOOK and len(found.rows) > 0
    text = f"The most distant hundredth of the targets has {short(100 * found.share)} % of their squared deviations. "
    if large and not found.somewhere:
        mark = "problem" if found.share > PROBLEM else "look"
        times = short(found.most) if np.isfinite(found.most) else "countless"
        text += (
            f"Those of the training examples {listed(found.rows, SHOWN)} are up to {times} times as far out as the "
            "median one: under the squared loss they alone are learned. Are they right? If so, train on their "
            "logarithms, or with the Huber loss."
        )
    else:
        mark = "fine"
        text += "Training has got to the others all the same." if large else "No few of them decide the squared loss."
    even = Premise("no few examples decide the loss", not large, f"{short(100 * found.share)} % in a hundredth")
    return Finding(
        NAME,
        mark,
        text,
        100 * found.share,
        exact=True,
        unit="% of the squares",
        theorem="Of all constants the mean has the least mean square, and one example moves it as far as it is out "
        "over their number: without a bound.",
        claim="foundations.bayes.conditional_expectation",
        premises=(even,),
        headline="A few targets decide the loss",
    )


def look_at_them(subject, finding) -> Action | None:
    """Training without these examples."""
    rows = measure(subject).rows
    what = f"look at the targets of these training examples, and train without: {listed(rows)}"
    quantity = "training loss" if subject.test is None else "test loss"
    return retraining(subject, what, finding.name, partial(without, rows=rows), quantity)
