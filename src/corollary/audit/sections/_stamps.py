"""A stamp in the images of one class: one value at one place that all of them have, and no others."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit.action import FLATTERED, Action
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._treatments import retraining

NAME = "a stamp that gives a class away"
# Places that 99 % of a class leave blank are blank in a third of the other digits at least (digits, MNIST). A stamp is
# in all images of its class and in no others, up to a few wrong labels.
ALL, NONE = 0.99, 0.01
# the fewest examples of a class, numbers that are looked at, and places shown
LEAST, NUMBERS, SHOWN = 20, 2**24, 3


class Stamp(NamedTuple):
    """The class, the `places` of the stamp in one example, its values there, the shares of examples with the value at
    the first of them, of the class and of the others, and how many examples were looked at."""

    label: int
    places: tuple[tuple[int, ...], ...]
    values: tuple[float, ...]
    inside: float
    outside: float
    examples: int


def measure(subject) -> Stamp | str | None:
    """The stamp of the class that has one in most places; a sentence where there is none.

    None for tables and for inputs of two values, in which a place may well be the rule, and where examples have no
    class each.
    """
    leaves = jax.tree.leaves(subject.train[0])
    if len(leaves) > 1 or leaves[0].ndim < 3 or not jnp.issubdtype(leaves[0].dtype, np.floating):
        return None
    labels = None if subject.classes is None else np.asarray(subject.labels("train"))
    if labels is None or labels.ndim > 1:
        return None
    x = np.asarray(leaves[0][: max(1, NUMBERS // leaves[0][0].size)])
    flat, labels = x.reshape(len(x), -1), labels[: len(x)]
    if len(np.unique(flat)) <= 2:
        return None
    best = None
    for label in np.unique(labels):
        own, rest = flat[labels == label], flat[labels != label]
        if min(len(own), len(rest)) < LEAST:
            continue
        value = np.median(own, axis=0)
        inside, outside = np.mean(own == value, axis=0), np.mean(rest == value, axis=0)
        stamped = np.flatnonzero((inside >= ALL) & (outside <= NONE))
        if len(stamped) and (best is None or len(stamped) > len(best.places)):
            first = stamped[0]
            places = tuple(tuple(map(int, np.unravel_index(i, x.shape[1:]))) for i in stamped)
            shares = float(inside[first]), float(outside[first])
            best = Stamp(int(label), places, tuple(map(float, value[stamped])), *shares, len(x))
    return "No value at one place is in all images of one class and in none of the others." if best is None else best


def judge(found: Stamp | str) -> Finding:
    facts = dict(
        exact=True,
        unit="places",
        theorem="No predictor has a smaller expected squared error than the variance of the target given its inputs; "
        "the targets of two examples with equal inputs differ by twice that on average.",
        claim="generalization.bias_variance.decomposition",
    )
    if isinstance(found, str):
        return Finding(NAME, "fine", found, 0.0, **facts)
    n, more = len(found.places), len(found.places) - SHOWN
    where = ", ".join(map(str, found.places[:SHOWN])) + (f" and {more} more places" if more > 0 else "")
    text = (
        f"{short(100 * found.inside)} % of the training images of class {found.label} have the very value "
        f"{short(found.values[0])} at {where}, counted from 0, and {short(100 * found.outside)} % of the others: a "
        "mark, a border or a file format that gives the class away. Will it be there in use?"
    )
    seen = Premise("images, in which no place has one value for a class by rule", None, f"{found.examples:,} examples")
    headline = f"A stamp in all images of class {found.label} gives it away"
    return Finding(NAME, "look", text, float(n), premises=(seen,), headline=headline, **facts)


def cover(subject, finding) -> Action | None:
    """Training with the places of the stamp at their means, in both parts of the data."""
    places = measure(subject).places
    quantity = "training loss" if subject.test is None else "test error"
    what = f"cover the stamp of {len(places)} place{'s' if len(places) > 1 else ''} in all images"
    found = retraining(subject, what, NAME, partial(covered, places=places), quantity)
    return found if found is None or subject.test is None else replace(found, note=FLATTERED)


def covered(subject, places):
    """The subject with these places at their means over the training data."""
    known = jax.tree.leaves(subject.train[0])[0]
    at = (slice(None), *map(np.array, zip(*places, strict=True)))
    means = known[at].mean(axis=0)
    data = {
        split: (jax.tree.map(lambda a: a.at[at].set(means), subject.data(split)[0]), subject.data(split)[1])
        for split in subject.splits
    }
    return subject.replaced(**data)
