"""Are both parts labelled in one way? Classes that test data have more often than a network expects them."""

from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from corollary.audit.action import Action, Effect, by_hand
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._expected import LOOK, probabilities
from corollary.audit.sections._gap import learned_by_errors

NAME = "classes of the test data as often as it expects them"
# As much beyond chance, for any of the classes; and what is expected of both parts is the same to within half of LOOK.
CHANCE, SAME = 1e-3, 0.5
# fewer test examples have no shares
FEWEST = 32


class Labelled(NamedTuple):
    """Shares of the classes and mean probabilities of training and test data, how likely it is that a share is as far
    from what is expected, and whether the network has learned its training labels."""

    shares: tuple[np.ndarray, np.ndarray]
    expected: tuple[np.ndarray, np.ndarray]
    chance: float
    learned: bool


def measure(subject) -> Labelled | None:
    """None where examples have no class of their own, have weights, or are too few."""
    if subject.test is None or subject.loss_name != "cross_entropy" or subject.weighted:
        return None
    if np.asarray(subject.labels("train")).ndim > 1 or len(subject.labels("test")) < FEWEST:
        return None
    sure = [probabilities(subject, split) for split in ("train", "test")]
    hot = [np.eye(p.shape[1])[np.asarray(subject.labels(s), int)] for p, s in zip(sure, ("train", "test"), strict=True)]
    off = hot[1] - sure[1]
    error = off.std(0, ddof=1) / np.sqrt(len(off))
    far = np.abs(off.mean(0)) / np.where(error > 0, error, np.inf)
    chance = min(1.0, far.size * 2 * float(norm.sf(far.max())))
    return Labelled(
        (hot[0].mean(0), hot[1].mean(0)), (sure[0].mean(0), sure[1].mean(0)), chance, learned_by_errors(subject)
    )


def judge(found: Labelled) -> Finding:
    shares, expected = found.shares, found.expected
    apart = [_apart(a, b) for a, b in ((shares[1], expected[1]), (expected[0], expected[1]), (shares[0], expected[0]))]
    off, moved, astray = apart
    worst = int(np.argmax(shares[1] - expected[1]))
    numbers = [f"{short(100 * float(a[worst]))} %" for a in (shares[1], expected[1], expected[0])]
    text = f"{numbers[0]} of the test examples are of class {worst}, which it expects in {numbers[1]} of them, and in "
    text += f"{numbers[2]} of the training examples"
    marked = off > LOOK and max(moved, astray) < SAME * LOOK and found.chance < CHANCE and found.learned
    if marked:
        text += (
            ": the inputs of both parts are alike to it, and the labels are not. Were they given in one way, and in "
            f"training as well? There, some of class {worst} may have another label."
        )
    else:
        text += ": of no class are there more than that by much." if off <= LOOK else "."
    return Finding(
        NAME,
        "look" if marked else "fine",
        text,
        100 * off,
        exact=True,
        unit="% of the test examples",
        theorem="Where training has come to rest, mean probabilities on its data are the shares of the classes; on new "
        "data of the same law they are these shares too, up to what the network cannot tell.",
        claim="landscape.conditions.second_order_conditions",
        premises=(
            Premise("expected of both parts alike", moved < SAME * LOOK, f"{short(100 * moved)} % apart"),
            Premise("it has learned its training labels", found.learned),
        ),
        headline="Test labels were not given as the training labels were",
    )


def compare_labels(subject, finding) -> Action:
    """A person must find out how labels were given; what the right ones would do is not known."""
    found = measure(subject)
    worst = int(np.argmax(found.shares[1] - found.expected[1]))
    now = subject.error("test")
    what = f"find out how class {worst} was labelled in both parts"
    return Action(what, NAME, Effect("test error", now, now, (0.0, now)), "theorem", by_hand)


def _apart(a, b) -> float:
    return float(np.abs(a - b).sum() / 2)
