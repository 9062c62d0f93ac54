"""Test examples that were made from the same original as training examples, before the data were split.

Copies with a little noise are far nearer to each other than the density of the data explains; windows cut from one
sequence, and images moved by a few rows, agree in all that they share. Among the training examples there are as many,
so that copies within these are no measure of what is usual.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import fisher_exact

from corollary.audit._sample import exact_interval, some
from corollary.audit.action import FLATTERED, QUANTITIES, Action, Effect, by_hand
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._copies import FACTS, ROWS, error_of
from corollary.audit.sections._rows import digests, distances, measured, sketches
from corollary.network.batches import count

NAME = "examples made from one original"

# The density is that which the distances to these neighbours say; siblings of one original are fewer than the first.
NEIGHBOUR, FARTHER = 8, 32
# Where the density is even the nearest of eight neighbours lies within the share r of the distance of the eighth with
# probability 1 - (1 - r^D)^7 in D dimensions: by chance one example in twenty has one as near as this.
UNLIKELY = 0.007
# Tables, images and manifolds of uneven density come to no more: digits to 2 %, MNIST to 3 %, a line to 4 %. Twice that
# is none of theirs.
SHARE = 0.1
# how likely as many agree when moved as when not, by chance and over all moves; windows that share less than half are
# as good as apart
CHANCE, MOVED = 1e-3, 0.5
# the fewest places of an axis along which examples may have been moved, the numbers that are compared, and how many
# moves are tried
PLACES, NUMBERS, STEPS = 6, 2**24, 32
# any odd number has an inverse among whole numbers of 64 bits
FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Siblings(NamedTuple):
    """Of the test examples `rows` those that have a sibling among the training examples, and what shows it."""

    rows: np.ndarray
    have: np.ndarray
    shows: str

    @property
    def many(self) -> bool:
        """Whether more have one than any density of the data is known to give."""
        return exact_interval(int(self.have.sum()), len(self.have))[0] > SHARE


def measure(subject, key) -> Siblings | None:
    """Siblings among test and training examples; None where there are none to speak of."""
    return siblings(subject.train[0], subject.test[0], key)


def siblings(train, test, key) -> Siblings | None:
    """By distances or by what agrees when it is moved, whichever shows more."""
    rows = some(np.arange(count(test)), ROWS, key)
    found = [moved(train, test, rows)]
    if measured(train) and count(train) > 2 * FARTHER:
        ours, theirs = sketches(train, test)
        own = some(np.arange(len(ours)), ROWS, key)
        near = distances(ours[own], ours, own, FARTHER), distances(theirs[rows], ours, k=FARTHER)
        found.append(close(*near, rows, np.isin(digests(test)[rows], digests(train))))
    found = [s for s in found if s is not None and s.many]
    return max(found, key=lambda s: s.have.mean(), default=None)


def apart(subject, found: Siblings) -> float | None:
    """The test error on the examples without a sibling."""
    return error_of(subject, found.rows[~found.have])


def judge(found: Siblings, error: float | None) -> Finding:
    """`error` is that on the test examples without a sibling."""
    n, total = int(found.have.sum()), len(found.have)
    text = (
        f"{short(100 * n / total)} % of {total:,} test examples have {found.shows}, and so have training examples "
        "among each other: were copies, windows or repeated measurements made of one original before the data were "
        "split? Then the network was trained on what it is tested by: split the originals first."
    )
    if error is not None:
        text += f" On the other {total - n:,} test examples the error is {short(100 * error)} %."
    low, high = exact_interval(n, total)
    return Finding(
        NAME,
        "look",
        text,
        100 * n / total,
        (100 * low, 100 * high),
        unit="% of test examples",
        **FACTS,
        premises=(Premise("test examples are independent of the training examples", False),),
        headline="Test examples were made from the same originals as training examples",
    )


def split_originals(subject, finding) -> Action:
    """A person must split them: which originals there were is not known, nor the error then."""
    quantity = "test loss" if subject.classes is None else "test error"
    now = QUANTITIES[quantity](subject)
    effect = Effect(quantity, now, now, (now, np.inf if subject.classes is None else 1.0))
    what = "split the originals first, make copies and windows of each part by itself, and train again"
    return Action(what, NAME, effect, "theorem", by_hand, note=FLATTERED)


def close(own: np.ndarray, other: np.ndarray, rows, known) -> Siblings | None:
    """By distances, in rising order, of training examples (own) and test examples to their nearest training examples.

    `known` test examples are exact copies, and no siblings. None where there are no distances to tell a density by.
    """
    if own.shape[1] < FARTHER or not np.all(np.isfinite(own)) or not np.all(np.isfinite(other)):
        return None
    some = own[own[:, NEIGHBOUR - 1] > 0]
    growth = np.log(some[:, -1] / some[:, NEIGHBOUR - 1]) if len(some) else np.zeros(1)
    if not growth.mean() > 0:
        return None
    dimension = np.log(FARTHER / NEIGHBOUR) / growth.mean()
    near, next_ones = other[:, 0], other[:, NEIGHBOUR - 1]
    ratio = np.divide(near, next_ones, out=np.ones(len(near)), where=next_ones > 0)
    have = (ratio**dimension < UNLIKELY) & ~known
    shown = f"{short(float(np.median(ratio[have])))} of the distance to its eighth neighbour" if have.any() else ""
    return Siblings(np.asarray(rows), have, f"a training example within {shown}, far nearer than their density gives")


def moved(train, test, rows) -> Siblings | None:
    """By what agrees exactly once test examples are moved along an axis; None for inputs of several arrays."""
    leaves = jax.tree.leaves(train)
    if len(leaves) != 1:
        return None
    ours, theirs = np.asarray(leaves[0]), np.asarray(jax.tree.leaves(test)[0])[rows]
    if ours.size > NUMBERS:
        ours = ours[: max(1, NUMBERS // ours[0].size)]
    best, tries = None, 0
    for axis in range(1, ours.ndim):
        if (n := ours.shape[axis]) < PLACES:
            continue
        there, given = (_Places.along(x, axis) for x in (ours, theirs))
        for by in _moves(n):
            for first, second in (((by, n), (0, n - by)), ((0, n - by), (by, n))):
                block = given.block(*first)
                found, still = (_among(block, there.block(*ends)) for ends in (second, first))
                tries += 1
                more = int(found.sum()) - int(still.sum())
                if best is None or more > best[0]:
                    best = more, found, still, by
    if best is None:
        return None
    more, found, still, by = best
    n = len(found)
    table = [[int(found.sum()), n - int(found.sum())], [int(still.sum()), n - int(still.sum())]]
    if not (more > SHARE * n and tries * float(fisher_exact(table, "greater").pvalue) < CHANCE):
        found = np.zeros(n, bool)
    return Siblings(np.asarray(rows), found, f"all but {by} place{'s' if by > 1 else ''} in common with a training one")


def _moves(places: int) -> list[int]:
    """How far examples are moved: by little, and by what parts of their length windows are usually cut at."""
    few = np.arange(1, STEPS + 1)
    every = np.unique(np.concatenate([few, places // (few + 1)]))
    return [int(by) for by in every if 0 < by <= MOVED * places]


class _Places(NamedTuple):
    """Of each example sums over its first places, from which any block is told, and how often neighbours differ."""

    sums: np.ndarray
    changes: np.ndarray

    @classmethod
    def along(cls, x: np.ndarray, axis: int) -> "_Places":
        words = np.ascontiguousarray(np.moveaxis(x, axis, 1)).reshape(count(x), x.shape[axis], -1)
        words = words.astype(np.float64 if jnp.issubdtype(x.dtype, np.floating) else np.int64) + 0
        factors = np.random.default_rng(0).integers(0, 2**63, words.shape[2], dtype=np.uint64) | np.uint64(1)
        mixed = words.view(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(29))) @ factors
        mixed ^= mixed >> np.uint64(31)
        powers = np.cumprod(np.full(x.shape[axis], FACTOR, np.uint64), dtype=np.uint64)
        ahead = np.zeros((count(x), 1), np.uint64)
        differ = np.cumsum(mixed[:, 1:] != mixed[:, :-1], axis=1)
        return cls(np.hstack([ahead, np.cumsum(mixed * powers, axis=1, dtype=np.uint64)]), np.hstack([ahead, differ]))

    def block(self, first: int, last: int) -> np.ndarray:
        """A whole number for the places from `first` to before `last`, wherever they are; 0 where most are alike.

        Padding and blank paper agree with any of their like.
        """
        back = pow(int(FACTOR), -first, 2**64)
        values = (self.sums[:, last] - self.sums[:, first]) * np.uint64(back)
        varied = self.changes[:, last - 1] - self.changes[:, first] >= MOVED * (last - first - 1)
        return np.where(varied, values, np.uint64(0))


def _among(given: np.ndarray, there: np.ndarray) -> np.ndarray:
    return np.isin(given, there) & (given != 0)
