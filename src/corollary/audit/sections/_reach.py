"""Can the outputs be what the targets are? Outputs that stop at one value where the targets go on."""

from typing import NamedTuple

import numpy as np

from corollary.audit._losses import DIFFERENCES
from corollary.audit.action import Action, Effect, by_hand
from corollary.audit.finding import Finding, Premise, short

NAME = "targets beyond the outputs"
# Outputs within a hundredth of their range from its end have stopped there. Of a law that goes on beyond it hardly any
# are: a tenth is a place where they gather.
END, GATHERED = 0.01, 0.1
# One number added to all of these would take so much off the mean square: there is none that training would have left,
# had the outputs been free.
LOOK, PROBLEM = 0.1, 0.25
# fewer examples have no range
FEWEST = 50


class Reach(NamedTuple):
    """The output at which it stops, the share of the outputs there, their mean target, and the share of the squared
    residuals that this alone makes; None for the first without such a place."""

    end: float | None
    share: float
    target: float
    owed: float


def measure(subject) -> Reach | None:
    """The worse end of the outputs; None where targets are no numbers to be met."""
    if subject.loss_name not in DIFFERENCES or subject.classes is not None:
        return None
    out, y = (np.asarray(a, float) for a in (subject.outputs("train"), subject.targets("train")))
    if len(out) < FEWEST:
        return None
    out, y = out.reshape(len(out), -1), y.reshape(len(y), -1)
    squares = ((y - out) ** 2).sum()
    found = Reach(None, 0.0, 0.0, 0.0)
    for o, t in zip(out.T, y.T, strict=True):
        for end, sign in ((o.min(), -1.0), (o.max(), 1.0)):
            there = np.abs(o - end) <= END * np.ptp(o)
            beyond = sign * float((t - o)[there].mean())
            owed = there.sum() * beyond**2 / squares if squares > 0 else 0.0
            if np.ptp(o) > 0 and there.mean() >= GATHERED and beyond > 0 and owed > found.owed:
                found = Reach(float(end), float(there.mean()), float(t[there].mean()), float(owed))
    return found


def judge(found: Reach) -> Finding:
    end, share, target, owed = found
    mark = "problem" if owed > PROBLEM else "look" if owed > LOOK else "fine"
    if end is None:
        text = "There is no value at which the outputs stop and the targets go on."
    else:
        text = f"{short(100 * share)} % of the outputs on training data stand at {short(end)}, the end of their range, "
        text += f"where the targets are {short(target)} on average: "
        text += f"that makes {short(100 * owed)} % of the squared residuals. "
        text += (
            "They do not reach further."
            if mark == "fine"
            else "The network cannot give what is asked for: does it end in a ReLU, a sigmoid or the like?"
        )
    return Finding(
        NAME,
        mark,
        text,
        100 * owed,
        exact=True,
        unit="% of the squared residuals",
        theorem="The best constant to add to the outputs on a set of examples is the mean residual there, and takes "
        "its square off the mean square: where outputs are free it is 0.",
        claim="foundations.bayes.conditional_expectation",
        premises=(Premise("measured on all training data", True),),
        headline="The outputs stop where the targets go on",
    )


def set_free(subject, finding) -> Action:
    """A person must change the network; what a constant there would take off is a bound on what is won."""
    now = _mean_square(subject)
    then = (1 - measure(subject).owed) * now
    effect = Effect("mean square of the residuals", now, then, (0.0, then), _mean_square)
    return Action("take the last nonlinearity off the outputs", NAME, effect, "theorem", by_hand)


def _mean_square(subject) -> float:
    out, y = (np.asarray(a, float) for a in (subject.outputs("train"), subject.targets("train")))
    return float(np.mean((out - y.reshape(out.shape)) ** 2))
