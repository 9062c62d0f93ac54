"""Do several labels at once mean the same in both parts? Labels that changed places, or yes for no."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import binomtest

from corollary.audit._sample import exact_interval
from corollary.audit.action import Action, Effect
from corollary.audit.finding import Finding, Premise
from corollary.audit.sections._named import BETTER, CHANCE, FACTS, FEWEST, SHOWN

NAME = "meaning of the labels in the test data"


class Tags(NamedTuple):
    """Label j of the test data is output `to[j]`, or its opposite where `turned[j]`, as one half of the data says.

    On the other half, `now` and `then` are the errors, and `sure` says of which labels that is certain: they are right
    there on many more examples, beyond chance, and in training as they are.
    """

    to: np.ndarray
    turned: np.ndarray
    sure: np.ndarray
    now: float
    then: float
    n: int


def measure(subject) -> Tags | None:
    """None but for several labels of each example, and for too few test examples."""
    if subject.test is None or subject.loss_name != "binary_cross_entropy" or subject.classes is None:
        return None
    ours, theirs = (np.asarray(subject.labels(s)) for s in ("train", "test"))
    if theirs.ndim != 2 or len(theirs) < FEWEST:
        return None
    told, said = (np.asarray(subject.predict(s)).reshape(len(y), -1) for s, y in (("train", ours), ("test", theirs)))
    chosen, kept = np.array_split(np.random.default_rng(0).permutation(len(theirs)), 2)
    same = np.stack([(said[chosen] == y[:, None]).mean(0) for y in theirs[chosen].T])
    # of places that are as good, the ones there are
    to = linear_sum_assignment(np.maximum(same, 1 - same) + 1e-6 * np.eye(len(same)), maximize=True)[1]
    turned = same[np.arange(len(to)), to] < 0.5

    def right(outputs, labels, place, turn):
        return (outputs[:, place] != turn) == labels

    places = np.arange(len(to))
    plain = np.zeros(len(to), bool)
    before, after = right(said[kept], theirs[kept], places, plain), right(said[kept], theirs[kept], to, turned)
    at_home = right(told, ours, places, plain).mean(0) > right(told, ours, to, turned).mean(0)
    won, lost = (after & ~before).sum(0), (before & ~after).sum(0)
    by_chance = np.array(
        [binomtest(int(a), int(max(1, a + b)), 0.5, "greater").pvalue for a, b in zip(won, lost, strict=True)]
    )
    sure = at_home & ((won - lost) / len(kept) > BETTER) & (by_chance < CHANCE / len(to))
    then = np.where(sure, after, before)
    return Tags(to, turned, sure, float(np.mean(~before)), float(np.mean(~then)), len(kept))


def judge(found: Tags) -> Finding:
    which = np.flatnonzero(found.sure)
    if len(which):
        said = ", ".join(_called(found, j) for j in which[:SHOWN])
        said += f" and {len(which) - SHOWN} more" if len(which) > SHOWN else ""
        text = (
            f"Labels mean something else in the test data ({said}): read so, it errs on {100 * found.then:.3g} % "
            f"of the labels of {found.n} test examples by which that was not chosen, and on {100 * found.now:.3g} % as "
            "they are given. Prepare the labels of both parts alike."
        )
    else:
        text = "No other reading of the labels makes it right on many more of them: they mean the same in both parts."
    sure = Premise("the reading is judged by examples that did not choose it", True, f"{found.n} test examples")
    gained = 100 * (found.now - found.then)
    mark = "problem" if len(which) else "fine"
    headline = "Labels of the test data mean something else"
    return Finding(NAME, mark, text, gained, unit="% more right", premises=(sure,), headline=headline, **FACTS)


def _called(found: Tags, j: int) -> str:
    opposite = "the opposite of " if found.turned[j] else ""
    return f"label {j} is {opposite}{'what it is' if found.to[j] == j else f'label {found.to[j]}'} in training"


def read_so(subject, finding) -> Action | None:
    """The test data with labels that mean what those of the training data mean."""
    found = measure(subject)
    # labels of one example are no independent trials: the interval is that of as many trials as there are examples
    low, high = exact_interval(round(found.then * found.n), found.n)
    effect = Effect("test error", subject.error("test"), found.then, (min(low, found.then), max(high, found.then)))
    what = "give the labels of the test data the meaning that they have in training"
    return Action(what, NAME, effect, "short run", _read, 0.1)


def _read(subject, *, key):
    found = measure(subject)
    x, target = subject.test
    y, rest = (target[0], target[1:]) if subject.weighted else (target, ())
    new = np.array(y)
    for j in np.flatnonzero(found.sure):
        column = 1 - np.asarray(y)[:, j] if found.turned[j] else np.asarray(y)[:, j]
        new[:, found.to[j]] = column
    new = jnp.asarray(new, y.dtype)
    return subject.replaced(test=(x, (new, *rest) if subject.weighted else new))
