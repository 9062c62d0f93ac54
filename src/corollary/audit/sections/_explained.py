"""Which predictions are explained: the five with the largest losses, and five as the network usually makes them."""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np

from corollary.audit._names import spelled
from corollary.network.losses import IGNORED

EACH = 5


class Explained(NamedTuple):
    """`rows` of a `split`: the first `worst` of them have the largest losses, the others are about the median one.

    `losses` are those of all examples of the split; `wrong` says how many of the worst are classified wrongly, None
    where there are no classes.
    """

    split: str
    rows: np.ndarray
    worst: int
    losses: np.ndarray
    wrong: int | None


def explained(subject) -> Explained:
    """Examples of the test data, or of the training data where there are none."""
    split = subject.splits[-1]
    losses = losses_of(subject, split)
    order = np.argsort(-losses, kind="stable")
    # few examples are divided between the two
    each = max(1, min(EACH, len(order) // 2))
    middle = max(each, (len(order) - each) // 2)
    rows = np.concatenate([order[:each], order[middle : middle + each]])
    wrong = None
    if subject.classes is not None:
        labels = np.asarray(subject.labels(split))[rows[:each]]
        missed = (np.asarray(subject.predict(split))[rows[:each]] != labels) & (labels != IGNORED)
        wrong = int(missed.reshape(each, -1).any(1).sum())
    return Explained(split, rows, each, losses, wrong)


def losses_of(subject, split) -> np.ndarray:
    """The loss of every example."""
    return np.asarray(_losses(subject.loss.function, subject.outputs(split), subject.data(split)[1]), float)


@eqx.filter_jit
def _losses(loss, outputs, y):
    return jax.vmap(loss)(outputs, y)


def named(subject, found: Explained, place: int) -> str:
    """One of the examples in words: its number, and what was taken for what."""
    row = int(found.rows[place])
    name = f"{found.split} {row}"
    if subject.classes is None or np.ndim(subject.labels(found.split)) > 1:
        return name
    label, said = (int(np.asarray(a)[row]) for a in (subject.labels(found.split), subject.predict(found.split)))
    return f"{name}: class {label}" if label == said else f"{name}: {label} taken for {said}"


def listed(numbers, most: int = 10, names=None) -> str:
    """Numbers, or the names that they stand for, as a list that a person reads."""
    shown = ", ".join(spelled(names, n) for n in numbers[:most])
    return shown if len(numbers) <= most else f"{shown} and {len(numbers) - most} more"
