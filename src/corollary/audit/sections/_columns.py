"""A column of the inputs that gives the target away by itself."""

import jax
import numpy as np

from corollary.audit._sample import numbers_of
from corollary.audit.finding import Finding, Premise, short
from corollary.network.batches import count

# a column stands out that leaves less than 5 % of the target open where the next one leaves five times as much
OPEN, NEXT = 0.05, 5.0
# how many numbers are sorted, the fewest examples that say something, and the most numbers of one target
SORTED, LEAST, MOST = 2**23, 50, 64


def finding(subject) -> Finding | None:
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
    least, following = float(left[best]), float(np.delete(left, best).min())
    if least <= OPEN and following >= NEXT * least:
        mark = "look"
        text = (
            f"Column {best} alone leaves {short(100 * least)} % of the target open, the next best one "
            f"{short(100 * following)} %: is it known at the time of the prediction, or was it made from the target?"
        )
    else:
        mark = "fine"
        text = (
            f"No column stands out as giving the target away: the best, number {best}, leaves {short(100 * least)} % "
        )
        text += "of its variance open."
    total = subject.count()
    return Finding(
        "what the best column alone leaves open",
        mark,
        text,
        100 * least,
        exact=True,
        unit="% of the variance",
        theorem="No predictor has a smaller expected squared error than the variance of the target given its inputs; "
        "the targets of two examples with equal inputs differ by twice that on average.",
        claim="generalization.bias_variance.decomposition",
        premises=(Premise("measured on all training data", len(table) == total, f"{len(table)} of {total} examples"),),
    )


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
