"""Does it expect each class as often as it is there? Mean probabilities on the training data against shares."""

from typing import NamedTuple

import jax
import numpy as np

from corollary.audit.action import Action
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.retrain import steps_of
from corollary.audit.sections._blind import blind_guess
from corollary.audit.sections._gap import GAINED
from corollary.audit.sections._treatments import knows_start, retraining

NAME = "classes as often as it expects them"
# Small batches move the bias of the last layer by some hundredths to and fro. In a tenth of all examples no training
# that saw them as often as they are would expect another class.
LOOK = 0.1


class Expected(NamedTuple):
    """For each class its share of the training examples and its mean probability, and whether anything was learned."""

    shares: np.ndarray
    expected: np.ndarray
    learned: bool


def measure(subject) -> Expected | None:
    """None where examples have no class of their own, or outputs are no log-odds."""
    if subject.loss_name != "cross_entropy" or np.asarray(subject.labels("train")).ndim > 1:
        return None
    labels = np.asarray(subject.labels("train"), int)
    weights = np.asarray(subject.train[1][1], float) if subject.weighted else np.ones(len(labels))
    sure = probabilities(subject, "train")
    shares = np.bincount(labels, weights=weights, minlength=sure.shape[1]) / weights.sum()
    learned = subject.mean_loss() < (1 - GAINED) * blind_guess(subject)
    return Expected(shares, (weights[:, None] * sure).sum(0) / weights.sum(), learned)


def probabilities(subject, split: str) -> np.ndarray:
    """The probability of each class for each example."""
    out = subject.outputs(split)
    if subject.class_axis is None:
        yes = np.asarray(jax.nn.sigmoid(out), float).reshape(-1)
        return np.stack([1 - yes, yes], 1)
    return np.asarray(jax.nn.softmax(out, -1), float)


def judge(found: Expected) -> Finding:
    shares, expected, learned = found
    off = float(np.abs(expected - shares).sum() / 2)
    worst = int(np.argmax(np.abs(expected - shares)))
    said = f"It expects class {worst} in {short(100 * expected[worst])} % of the training examples, on average, and "
    said += f"{short(100 * shares[worst])} % are of it"
    if off > LOOK and learned:
        mark = "look"
        said += ": training saw the classes in another proportion, by the order of its examples, by sampling or by "
        said += "weights, or it ended while still on its way."
    else:
        mark = "fine"
        said += ": of no class is it much further off." if learned else ", before it has learned to tell them apart."
    return Finding(
        NAME,
        mark,
        said,
        100 * off,
        exact=True,
        unit="% of all examples",
        theorem="The slope of the mean log loss along the bias of a class is its mean probability less its share: both "
        "are equal wherever training comes to rest.",
        claim="landscape.conditions.second_order_conditions",
        premises=(Premise("the last layer has a bias", None), Premise("weights of examples are those given", None)),
        headline="Training saw the classes in another proportion",
    )


def shuffled(subject, finding) -> Action | None:
    """The training there was, with examples in a random order."""
    if not knows_start(subject):
        return None
    what = f"train it again from its start, for {steps_of(subject)} steps, with the examples in a random order"
    return retraining(subject, what, finding.name, lambda s: s)
