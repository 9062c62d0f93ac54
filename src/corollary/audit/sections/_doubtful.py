"""Training examples whose label most likely is wrong, and test examples that are training examples."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections import _rows
from corollary.audit.sections._blamed import Blamed
from corollary.audit.sections._explained import listed, losses_of

TORN = "equal inputs with different labels"
LABELS, COPIED = "labels most likely wrong", "test examples that are training examples"
# Left out, an example with such a loss would have had a probability below 5 % for its label.
SURPRISE = float(np.log(20))
# So many are named when they are at least 0.5 % of the examples, three or more, and twice as many as among the test
# examples, which are left out too: a hard task surprises everywhere, wrong labels where they are. Test examples are
# counted by Laplace's rule, one more of two more.
SHARE, FEWEST, TWICE = 0.005, 3, 2.0
# Rows repeat by themselves where fewer than a third of them differ.
REPEATS = 1 / 3
# Where one Newton step would still take off more than this of what training has, labels are not learned yet.
UNLEARNED = 0.1


class Doubts(NamedTuple):
    """Training examples in the order of the loss that each would have if it were left out, and these losses.

    `surprising` is how many of them lie above `SURPRISE`, None where losses are no logarithms of probabilities; `usual`
    the share of the test examples that do, by Laplace's rule of succession (0 without test data).
    """

    order: np.ndarray
    losses: np.ndarray
    surprising: int | None
    usual: float
    total: int


def measure_doubts(subject, numbers: Blamed | str) -> Doubts | str:
    if isinstance(numbers, str):
        return numbers
    if (numbers.unfinished or 0.0) > UNLEARNED:
        return "Training was stopped so early that the losses do not tell wrong labels from those not learned yet."
    losses = losses_of(subject, "train")[numbers.rows] + numbers.own
    order = np.argsort(-losses, kind="stable")
    surprising, usual = None, 0.0
    if subject.loss_name == "cross_entropy" and not subject.weighted:
        surprising = int(np.sum(losses >= SURPRISE))
        if subject.test is not None:
            tests = losses_of(subject, "test")
            usual = float((np.sum(tests >= SURPRISE) + 1) / (len(tests) + 2))
    return Doubts(numbers.rows[order], losses[order], surprising, usual, len(order))


def suspects(numbers: Doubts) -> np.ndarray:
    """The training examples to be named, worst first; none where there are no more than is usual."""
    n = numbers.surprising or 0
    named = n >= FEWEST and n >= SHARE * numbers.total and n >= TWICE * numbers.usual * numbers.total
    return numbers.order[: n if named else 0]


def judge_doubts(numbers: Doubts | str) -> Finding:
    facts = dict(
        theorem="The influence of an example on its own loss is what the loss grows by when it is left out: large "
        "where it was learned by heart, as a wrong label must be.",
        claim="attribution.retraining.influence_over_one_minus_leverage",
    )
    if isinstance(numbers, str):
        return Finding(LABELS, "not applicable", numbers, **facts)
    named = suspects(numbers)
    first = (
        f"the training examples {listed(numbers.order[:5])} would have the largest losses, {short(numbers.losses[0])} "
    )
    first += "and less"
    if len(named):
        mark, share = "look", len(named) / numbers.total
        text = (
            f"If left out, {len(named)} training examples ({short(100 * share)} %) would get less than 5 % for their "
            f"own label, more than test examples do: look at the labels of {listed(named)}."
        )
    elif numbers.surprising is None:
        mark, text = "fine", f"If left out, {first}. What is a wrong target and what a rare one is not told apart."
    else:
        mark = "fine"
        text = f"If left out, {first}; {numbers.surprising:,} of {numbers.total:,} would get less than 5 % for their "
        text += "own label, no more than is usual."
    value = float(numbers.losses[0]) if numbers.surprising is None else float(numbers.surprising)
    unit = "loss if left out" if numbers.surprising is None else "examples"
    headline = f"{len(named)} labels are most likely wrong"
    return Finding(LABELS, mark, text, value, exact=True, unit=unit, headline=headline, **facts)


class Torn(NamedTuple):
    """Training examples with the input of another one and another label, the least number of errors that this leaves
    to any function of the input, of all, and how many inputs differ."""

    rows: np.ndarray
    least: int
    total: int
    different: int


def measure_torn(subject) -> Torn | None:
    """None without one class for each example."""
    if subject.classes is None or subject.labels("train").ndim > 1:
        return None
    labels = np.asarray(subject.labels("train"), int)
    _, group, sizes = np.unique(_rows.digests(subject.train[0]), return_inverse=True, return_counts=True)
    counts = np.zeros((len(sizes), subject.classes), int)
    np.add.at(counts, (group, labels), 1)
    most = counts.max(axis=1)
    return Torn(np.flatnonzero((most < sizes)[group]), int((sizes - most).sum()), len(labels), len(sizes))


def judge_torn(found: Torn) -> Finding:
    share = 100 * found.least / found.total
    # a table of few values has equal rows by itself, and their labels are the noise of the task
    rare = found.different >= REPEATS * found.total
    mark = "look" if rare and found.least >= max(FEWEST, SHARE * found.total) else "fine"
    if not len(found.rows):
        text = "No two training examples have one input and different labels."
    else:
        text = (
            f"{len(found.rows)} training examples have the input of another one and a different label "
            f"({listed(found.rows[:4])}{' and more' if len(found.rows) > 4 else ''}): no function of the input errs on "
            f"less than {short(share)} % of them all. "
        )
        text += "Which of the labels is right?" if mark == "look" else "Such inputs are usual, or these few, here."
    return Finding(
        TORN,
        mark,
        text,
        share,
        exact=True,
        unit="% errors at least",
        headline="Equal inputs have different labels",
        theorem="Of all functions of the input the one that gives the commonest label of each has the least error.",
        claim="foundations.bayes.vote_at_one_half",
    )


class Copied(NamedTuple):
    """Test examples and the training examples that they are; whether such copies are usual within the training data."""

    test: np.ndarray
    train: np.ndarray
    usual: bool


def measure_copied(subject) -> Copied | None:
    """Exact copies; None without test data, or where inputs are whole numbers that repeat by themselves."""
    x = subject.train[0]
    if subject.test is None or not any(jnp.issubdtype(a.dtype, np.floating) for a in jax.tree.leaves(x)):
        return None
    ours, theirs = (_rows.digests(data[0]) for data in (subject.train, subject.test))
    known, where, times = np.unique(ours, return_index=True, return_counts=True)
    places = np.searchsorted(known, theirs).clip(max=len(known) - 1)
    test = np.flatnonzero(known[places] == theirs)
    return Copied(test, where[places[test]], bool((times > 1).any()))


def judge_copied(found: Copied | None, blamed: Blamed | str) -> Finding:
    facts = dict(
        theorem="The influence of a training example on a copy of itself is that on its own loss: the copy is "
        "predicted as well as what was learned by heart.",
        claim="attribution.retraining.influence_over_one_minus_leverage",
    )
    if found is None:
        why = "There are no test data, or inputs that repeat by themselves, such as words."
        return Finding(COPIED, "not applicable", why, **facts)
    n = len(found.test)
    if not n or found.usual:
        text = (
            "No test example is a training example." if not n else f"{n} test examples are training examples; training "
        )
        text += "" if not n else "examples repeat each other too."
        return Finding(COPIED, "fine", text, float(n), exact=True, unit="test examples", **facts)
    text = f"{n:,} test examples are training examples" if n > 1 else "One test example is a training example"
    text += f": test example {found.test[0]} is training example {found.train[0]}"
    text += f", and {n - 1:,} more." if n > 1 else "."
    place = None if isinstance(blamed, str) else np.flatnonzero(blamed.rows == found.train[0])
    if place is not None and len(place):
        grown = short(float(blamed.own[place[0]]))
        text += f" Without that training example its copy's loss is predicted to grow by {grown}."
    text += " A test should know nothing of the training: take the copies out of the training data."
    seen = Premise("training examples do not repeat each other", True)
    given = dict(unit="test examples", premises=(seen,), headline="Test examples are training examples")
    return Finding(COPIED, "look", text, float(n), exact=True, **given, **facts)
