"""A column of the inputs that gives the target away by itself."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit._names import spelled
from corollary.audit._sample import numbers_of
from corollary.audit.action import FLATTERED, Action
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._treatments import retraining
from corollary.network.batches import count

NAME = "what the best column alone leaves open"
# a column stands out that leaves less than 5 % of the target open where the next one leaves five times as much
OPEN, NEXT = 0.05, 5.0
# how many numbers are sorted, the fewest examples that say something, and the most numbers of one target
SORTED, LEAST, MOST = 2**23, 50, 64


class Columns(NamedTuple):
    """The column that leaves least of the target open, how much that is, what the next one leaves, on how many rows."""

    best: int
    least: float
    following: float
    examples: int


def measure(subject) -> Columns | None:
    """What the best column leaves open, by the targets of neighbours in its order; None where that says nothing."""
    x, y = subject.train[0], _targets(subject)
    table = numbers_of((np.arange(count(x), dtype=float), x), SORTED)
    if y is None or table.shape[1] < 3 or len(table) < LEAST:
        return None
    rows, table = table[:, 0].astype(int), table[:, 1:]
    left = _left_open(table, y[rows])
    if left is None:
        return None
    best = int(left.argmin())
    return Columns(best, float(left[best]), float(np.delete(left, best).min()), len(table))


def finding(subject) -> Finding | None:
    found = measure(subject)
    return None if found is None else judge(found, subject.count(), subject.columns)


def judge(found: Columns, total: int, names=None) -> Finding:
    least, following, n = found[1:]
    best = spelled(names, found.best)
    if least <= OPEN and following >= NEXT * least:
        mark = "look"
        text = (
            f"Column {best} alone all but gives the target away: it leaves {short(100 * least)} % of it open, the next "
            f"best one {short(100 * following)} %. Is it known at the time of the prediction, or was it made from the "
            "target?"
        )
    else:
        mark = "fine"
        text = (
            f"No column stands out as giving the target away: the best, number {best}, leaves {short(100 * least)} % "
        )
        text += "of its variance open."
    return Finding(
        NAME,
        mark,
        text,
        100 * least,
        exact=True,
        unit="% of the variance",
        theorem="No predictor has a smaller expected squared error than the variance of the target given its inputs; "
        "the targets of two examples with equal inputs differ by twice that on average.",
        claim="generalization.bias_variance.decomposition",
        premises=(Premise("measured on all training data", n == total, f"{n:,} of {total:,} examples"),),
        headline=f"Column {best} alone gives the target away",
    )


def drop(subject, finding) -> Action | None:
    """Training without the column: it is put to its mean, in both sets."""
    column = measure(subject).best
    quantity = "test error" if subject.test is not None and subject.classes is not None else "training loss"
    what = f"drop column {spelled(subject.columns, column)}"
    found = retraining(subject, what, NAME, partial(without, column=column), quantity)
    return found if found is None or quantity != "test error" else replace(found, note=FLATTERED)


def without(subject, column: int):
    """The subject with a column, counted over all floating-point inputs, at its mean over the training data."""

    def levelled(x):
        place, out = column, []
        leaves, form = jax.tree.flatten(x)
        for a, known in zip(leaves, jax.tree.leaves(subject.train[0]), strict=True):
            width = a[0].size
            if jnp.issubdtype(a.dtype, np.floating):
                if 0 <= place < width:
                    mean = known.reshape(len(known), -1)[:, place].mean()
                    a = a.reshape(len(a), -1).at[:, place].set(mean).reshape(a.shape)
                place -= width
            out.append(a)
        return form.unflatten(out)

    data = {split: (levelled(subject.data(split)[0]), subject.data(split)[1]) for split in subject.splits}
    return subject.replaced(**data)


def _left_open(table, y):
    """For each column, how much neighbours differ in the target, relative to any two examples; None if none do."""
    order = np.argsort(table, axis=0, kind="stable")
    if y.ndim == 1:
        shares = np.unique(y, return_counts=True)[1] / len(y)
        apart, between = (1 - np.sum(shares**2)), np.mean(y[order[1:]] != y[order[:-1]], axis=0)
    else:
        apart = 2 * y.var(0).sum()
        between = sum(np.mean((goal[order[1:]] - goal[order[:-1]]) ** 2, axis=0) for goal in y.T)
    return between / apart if apart > 0 else None


def _targets(subject):
    """Labels (n,), or targets that are numbers (n, k); None for others."""
    if subject.classes is not None:
        labels = np.asarray(subject.labels("train"))
        return labels if labels.ndim == 1 else None
    y = subject.targets("train")
    if not isinstance(y, jax.Array) or y.size > MOST * len(y):
        return None
    return np.asarray(y, float).reshape(len(y), -1)
