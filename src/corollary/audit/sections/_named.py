"""Do the classes of the test data mean those of the training data? Classes under other names, and unknown ones."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import binomtest, hypergeom

from corollary.audit._sample import exact_interval
from corollary.audit.action import Action, Effect, by_hand
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections import _gap

RENAMED, UNKNOWN = "numbers of the classes in the test data", "test classes that training never shows"
MERGED = "test classes that are one class in training"
# Other names are found by one half of the test data and believed by the other: right on so many more examples, beyond
# what chance gives once in a thousand times.
BETTER, CHANCE = 0.1, 1e-3
# Under the right names what was learned carries over: no more of the gain over a blind guess is lost than this. Of
# three classes, a network of labels that are all wrong knows which one it is not, and some names always suit that.
LEFT = 0.25
# fewer test examples have no halves that say anything
FEWEST = 32
# names shown, the most errors first
SHOWN = 3
# unknown classes are what is wrong where they make half of all test errors
MOST = 0.5
FACTS = dict(
    theorem="A function that was fixed before the examples were drawn errs on a binomial number of them, so that its "
    "error on new ones is known up to an exact interval; names that the examples chose are judged on others.",
    claim="generalization.bound.learned_is_not_fixed",
    exact=True,
)


class Names(NamedTuple):
    """What the names `to` (of class c of the test data) do on the half of the test data that did not choose them.

    `now` and `then` are the errors on it, `gained` and `lost` the examples that become right and wrong; `carried` says
    that less than a quarter of what training gained is lost with these names, `at_home` that they are wrong in
    training, and `learned` that it has learned the names there are: one that has not has none to be told apart.
    """

    to: np.ndarray
    now: float
    then: float
    gained: int
    lost: int
    n: int
    at_home: bool
    carried: bool
    learned: bool


def better(found) -> bool:
    """Whether so many more examples become right than wrong, of those that did not choose, beyond chance."""
    p = binomtest(found.gained, max(1, found.gained + found.lost), 0.5, "greater").pvalue
    return found.gained - found.lost > BETTER * found.n and p < CHANCE


def measure(subject) -> Names | None:
    """The best names for the classes of the test data; None where there are no classes or too few test examples."""
    found = _labels(subject)
    if found is None or len(found[1]) < FEWEST:
        return None
    labels, y, said, classes = found
    order = np.random.default_rng(0).permutation(len(y))
    chosen, kept = np.array_split(order, 2)
    counts = np.zeros((classes, classes))
    np.add.at(counts, (y[chosen], said[chosen]), 1)
    # of names that are as good, the ones there are
    to = linear_sum_assignment(counts + 0.5 * np.eye(classes), maximize=True)[1]
    before, after = said[kept] == y[kept], said[kept] == to[y[kept]]
    answers = np.asarray(subject.predict("train"))
    right = float(np.mean(answers == labels))
    blind = float(np.mean(to[y] != np.bincount(labels, minlength=classes).argmax()))
    wrong = float(np.mean(~after))
    return Names(
        to,
        float(np.mean(~before)),
        wrong,
        int(np.sum(after & ~before)),
        int(np.sum(before & ~after)),
        len(kept),
        float(np.mean(answers == to[labels])) < right,
        wrong - (1 - right) < LEFT * (blind - (1 - right)),
        _gap.learned_by_errors(subject),
    )


def judge(found: Names) -> Finding:
    net = (found.gained - found.lost) / found.n
    renamed = better(found) and found.at_home and found.carried and found.learned
    if renamed:
        others = np.flatnonzero(found.to != np.arange(len(found.to)))
        said = ", ".join(f"{c} is {found.to[c]}" for c in others[:SHOWN])
        said += f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
        text = (
            f"The classes are numbered differently in the test data (in the numbers of the training data {said}): "
            f"renumbered, it errs on {100 * found.then:.3g} % of {found.n} test examples by which the numbers were not "
            f"chosen, and on {100 * found.now:.3g} % as they are given. Number the classes of both parts by one list."
        )
    else:
        text = "No other numbers of the classes make it right on many more test examples: both parts number them alike."
    sure = Premise("the names are judged by examples that did not choose them", True, f"{found.n} test examples")
    mark = "problem" if renamed else "fine"
    given = dict(premises=(sure,), headline="The test data number their classes differently")
    return Finding(RENAMED, mark, text, 100 * net, unit="% more right", **given, **FACTS)


def rename(subject, finding) -> Action | None:
    """The test data with the names of the training data."""
    found = measure(subject)
    low, high = exact_interval(round(found.then * found.n), found.n)
    effect = Effect("test error", subject.error("test"), found.then, (min(low, found.then), max(high, found.then)))
    what = "number the classes of the test data as those of the training data"
    return Action(what, RENAMED, effect, "short run", _renamed, 0.1)


def _renamed(subject, *, key):
    to = measure(subject).to
    x, target = subject.test
    y, rest = (target[0], target[1:]) if subject.weighted else (target, ())
    if jnp.issubdtype(y.dtype, jnp.integer):
        new = jnp.asarray(to, y.dtype)[y]
    elif subject.class_axis is not None:  # one-hot: column c becomes column to[c]
        new = y[:, np.argsort(to)]
    else:  # the two numbers that stand for no and yes change places
        new = y.min() + y.max() - y
    return subject.replaced(test=(x, (new, *rest) if subject.weighted else new))


class Unknown(NamedTuple):
    """The classes that only test examples have, how many of these there are and are wrong, of all, and how likely the
    commonest of them is missing from so many training examples by chance."""

    classes: np.ndarray
    examples: int
    wrong: int
    total: int
    errors: int
    chance: float


def measure_unknown(subject) -> Unknown | None:
    found = _labels(subject)
    if found is None:
        return None
    labels, y, said, classes = found
    shown, tested = (np.bincount(a, minlength=classes) for a in (labels, y))
    missing = np.flatnonzero((shown == 0) & (tested > 0))
    rows = np.isin(y, missing)
    most = int(tested[missing].max()) if len(missing) else 0
    # that all examples of a class fall into the test data, by as many draws from both parts, for any of the classes
    chance = min(1.0, classes * float(hypergeom.pmf(0, len(labels) + len(y), most, len(labels))))
    wrong = said != y
    return Unknown(missing, int(rows.sum()), int(wrong[rows].sum()), len(y), int(wrong.sum()), chance)


def judge_unknown(found: Unknown) -> Finding:
    share = 100 * found.examples / found.total
    if not len(found.classes):
        text = "Training shows every class of the test data."
        return Finding(UNKNOWN, "fine", text, 0.0, unit="% of test examples", **FACTS)
    named = ", ".join(map(str, found.classes[:SHOWN])) + (" and more" if len(found.classes) > SHOWN else "")
    many = len(found.classes) > 1
    owed = found.wrong / max(1, found.errors)
    mark = "fine" if found.chance >= CHANCE else "problem" if owed >= MOST else "look"
    text = (
        f"{short(share)} % of the test examples are of class{'es' if many else ''} {named}, which no training example "
        f"has: they make {found.wrong} of the {found.errors} test errors. "
    )
    text += "So few of a class may miss training by chance." if mark == "fine" else "What it is never shown it cannot "
    text += "" if mark == "fine" else "name: find out where their training examples are."
    headline = "The test data have classes that training never shows"
    return Finding(UNKNOWN, mark, text, share, unit="% of test examples", headline=headline, **FACTS)


def show_them(subject, finding) -> Action | None:
    """A person must: the error on the other test examples is what is there to be had."""
    found = measure_unknown(subject)
    rest, errors = found.total - found.examples, found.errors - found.wrong
    if not rest:
        return None
    then, (low, high) = errors / rest, exact_interval(errors, rest)
    effect = Effect("test error", subject.error("test"), then, (low, high))
    few = ", ".join(map(str, found.classes[:SHOWN])) + (" and more" if len(found.classes) > SHOWN else "")
    what = f"find training examples of class{'es' if len(found.classes) > 1 else ''} {few}: on the others it errs on "
    what += f"{100 * then:.3g} %"
    return Action(what, UNKNOWN, effect, "short run", by_hand)


class Merged(NamedTuple):
    """What the answers `to` (each test class is answered by one) do on the half that did not choose them.

    `now` and `then` are the errors on it, `gained` the examples that become right, `lost` those that become wrong, and
    `carried` says that less than half of what training gained is lost so.
    """

    to: np.ndarray
    now: float
    then: float
    gained: int
    lost: int
    n: int
    carried: bool


def measure_merged(subject) -> Merged | None:
    """None where training has as many classes, or where only those that it never shows are answered by others."""
    found = _labels(subject)
    if found is None or len(found[1]) < FEWEST or not _gap.learned_by_errors(subject):
        return None
    labels, y, said, classes = found
    chosen, kept = np.array_split(np.random.default_rng(0).permutation(len(y)), 2)
    counts = 0.5 * np.eye(classes)
    np.add.at(counts, (y[chosen], said[chosen]), 1)
    to = counts.argmax(1)
    tested, shown = np.unique(y), np.unique(labels)
    moved = np.flatnonzero(to != np.arange(classes))
    # what is told more finely in the test data has fewer classes in training
    if len(shown) >= len(tested) or not np.isin(moved, np.intersect1d(tested, shown)).any():
        return None
    before, after = said[kept] == y[kept], said[kept] == to[y[kept]]
    home = subject.error("train")
    # where all are put together a blind guess is right as well
    blind = 1 - float(np.bincount(to[y]).max()) / len(y)
    carried = float(np.mean(~after)) - home < _gap.LOOK * (blind - home)
    errors = float(np.mean(~before)), float(np.mean(~after))
    return Merged(to, *errors, int(np.sum(after & ~before)), int(np.sum(before & ~after)), len(kept), carried)


def judge_merged(found: Merged) -> Finding:
    net = (found.gained - found.lost) / found.n
    merged = better(found) and found.carried
    if merged:
        groups = [np.flatnonzero(found.to == c) for c in np.unique(found.to)]
        said = "; ".join(" and ".join(map(str, g)) + f" are {found.to[g[0]]}" for g in groups if len(g) > 1)
        text = (
            f"Several classes of the test data are one in training (in the numbers of the training data {said}): read "
            f"so, it errs on {100 * found.then:.3g} % of {found.n} test examples by which this was not chosen, and on "
            f"{100 * found.now:.3g} % as they are given. Make the labels of both parts by one rule, and train again if "
            "it is the training labels that lost classes."
        )
    else:
        text = "No classes of the test data put together make it right on many more test examples."
    sure = Premise("the classes are put together by examples that do not judge it", True, f"{found.n} test examples")
    mark = "problem" if merged else "fine"
    headline = "Several classes of the test data are one in training"
    return Finding(MERGED, mark, text, 100 * net, unit="% more right", premises=(sure,), headline=headline, **FACTS)


def relabel(subject, finding) -> Action:
    """A person knows which of both labellings was meant; the error so read is what is there to be had."""
    found = measure_merged(subject)
    low, high = exact_interval(round(found.then * found.n), found.n)
    effect = Effect("test error", subject.error("test"), found.then, (min(low, found.then), max(high, found.then)))
    what = "make the labels of the training data and of the test data by one rule, and train again"
    return Action(what, MERGED, effect, "short run", by_hand)


def _labels(subject):
    """Training labels, test labels, answers for the test data and the number of classes; None without one class each.

    Several labels at once, and places, have no names of this kind.
    """
    if subject.test is None or subject.classes is None:
        return None
    labels, y = (np.asarray(subject.labels(split), int) for split in ("train", "test"))
    if labels.ndim > 1:
        return None
    return labels, y, np.asarray(subject.predict("test"), int), subject.classes
