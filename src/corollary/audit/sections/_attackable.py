"""What an attack moves: examples with a class each, the box that inputs lie in, and how far the other classes are."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit import _plan
from corollary.audit._sample import exact_interval, some
from corollary.audit.finding import short
from corollary.audit.sections import _gap
from corollary.audit.sections._inputs import COLUMN_LOOK
from corollary.network.batches import count
from corollary.robustness import nearest_other_class

# a fifth of the work of a section for the attack by gradients, the largest part
SHARE = 0.2
# rounds of a search, steps in each, and the most examples; the second are for networks of which the first allow few
EFFORTS = {"quick": ((8, 20, 256), (5, 8, 64)), "full": ((12, 40, 1024), (8, 20, 256))}
# forward passes of the way back from what a round has found
BACK = 24
# fewer examples say nothing about a share
LEAST = 16
# numbers of the training examples among which neighbours are sought
NUMBERS = 2**25
NO_CLASSES = "An attack changes the class of an example, and this network gives no example a class of its own."
SEVERAL = "The network takes several inputs, and an attack moves one: audit it as a function of that one alone."
MASKS = "The inputs are yes or no: they have no small changes."
ALONE = "All training examples have one class, so that there is no other to be taken for."
COPIES = "Half of the examples have a copy with another label: no radius is small against a distance of 0."
TOO_MUCH = "This was left out: attacks on so large a network take too long. --budget full makes them."


class Attackable(NamedTuple):
    """`total` examples there are of the split; `towards` is the nearest training example of another class.

    `unit` is the median distance to it, `spread` the root mean square distance of the inputs from their mean.
    """

    network: Any
    x: np.ndarray
    y: np.ndarray
    split: str
    total: int
    low: float
    high: float
    towards: np.ndarray
    unit: float
    spread: float
    searched: int
    rounds: int
    steps: int
    batch_size: int

    @property
    def data(self) -> tuple:
        return jnp.asarray(self.x), jnp.asarray(self.y)


def refused(subject, budget) -> str | None:
    """Why this subject cannot be attacked, in a sentence; None if it can."""
    leaves = jax.tree.leaves(subject.train[0])
    if len(leaves) > 1:
        return SEVERAL
    if _gap.classes_of(subject, subject.network) is None:
        return NO_CLASSES
    if not jnp.issubdtype(leaves[0].dtype, np.floating):
        return MASKS
    if len(np.unique(subject.labels("train"))) < 2:
        return ALONE
    if subject.count(subject.splits[-1]) < LEAST:
        return f"Shares of fewer than {LEAST} examples say nothing: give more test data."
    return _plan.too_long(subject, budget) or (TOO_MUCH if _effort(subject, budget) is None else None)


def attackable(subject, budget, key) -> Attackable | str:
    """Test examples, or training examples where there are none, with what is known about their distances."""
    example_key, among_key = jax.random.split(key)
    split = subject.splits[-1]
    rounds, steps, most = _effort(subject, budget)
    (train,), (given,) = (jax.tree.leaves(subject.data(name)[0]) for name in ("train", split))
    rows = some(np.arange(given.shape[0]), most, example_key)
    x, y = np.asarray(given)[rows], np.asarray(subject.labels(split))[rows]
    among = some(np.arange(train.shape[0]), max(LEAST, NUMBERS // int(np.prod(train.shape[1:]))), among_key)
    others = np.asarray(train)[among], np.asarray(subject.labels("train"))[among]
    near = nearest_other_class((x, y), others)
    unit = float(np.median(near.distance))
    if not np.isfinite(unit):
        return ALONE
    if unit == 0:
        return COPIES
    # the box of all inputs that were seen
    low, high = (float(end([end(others[0]), end(x)])) for end in (np.min, np.max))
    towards, batch = others[0][np.asarray(near.index)], _plan.batch_of(subject, budget, len(x))
    distances = others[0].reshape(len(others[0]), -1) - others[0].reshape(len(others[0]), -1).mean(0)
    spread = float(np.sqrt(np.mean(np.sum(distances**2, 1))))
    return Attackable(
        subject.network, x, y, split, subject.count(split), low, high, towards, unit, spread, count(others),
        rounds, steps, batch,
    )  # fmt: skip


def in_several_units(victim: Attackable) -> str | None:
    """The sentence for tables whose columns have units of their own; None where a distance is one of all columns."""
    spreads = victim.x.std(axis=0) if victim.x.ndim == 2 else np.ones(1)
    spreads = spreads[spreads > 0]
    widest = float(spreads.max() / np.median(spreads)) if spreads.size else 1.0
    if widest < COLUMN_LOOK:
        return None
    return (
        f"The widest column of the inputs spreads {short(widest)} times as far as the median one: a distance between "
        "examples, in which attacks and noise are measured, is that of this column alone. Bring the columns to one "
        "scale before the network."
    )


def no_better_than_a_guess(subject, victim: Attackable) -> str | None:
    """The sentence for a network that has no answers to be turned; None for one that is right more often by far."""
    right = np.asarray(subject.predict(victim.x)) == victim.y
    blind = float(np.unique(victim.y, return_counts=True)[1].max() / len(victim.y))
    if exact_interval(right.sum(), len(right))[0] > blind:
        return None
    return (
        f"The network is right on {short(100 * right.mean())} % of the examples, and always the same answer would be "
        f"right on {short(100 * blind)} %: it has no answers that an attack could turn."
    )


def _effort(subject, budget) -> tuple[int, int, int] | None:
    """Rounds, steps and examples of the attack by gradients; None if even a few are too much."""
    for rounds, steps, most in EFFORTS.get(budget.name, EFFORTS["quick"]):
        passes = rounds * (_plan.GRADIENT * steps + BACK)
        examples = int(min(most, SHARE * budget.work / (passes * _plan.forward(subject))))
        if examples >= LEAST:
            return rounds, steps, examples
    return None
