"""Were copies made before the split? Examples that stand again and again in the training data, and in the test data.

`_copies` compares copies of test examples with copies within the training data. Where examples were repeated, or varied
a little, and then dealt out, both are many, and the test error is that of examples that training has seen.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import binom, fisher_exact, mannwhitneyu

from corollary.audit._sample import exact_interval
from corollary.audit.action import FLATTERED, QUANTITIES, Action
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.retrain import promised, retrained
from corollary.audit.sections._copies import CHANCE, FACTS, FEW, NEAR
from corollary.audit.sections._rows import digests
from corollary.network.batches import count

NAME = "copies dealt out to both parts"
# Where chance makes equal rows it makes rows that differ in one answer, or in two that go together: copies of rows that
# differ from all others in three numbers or more were made. Columns of two values have no part in that.
APART, TYPICAL = 3, 0.5
# of one row in twenty the label may have been mended; more, and these are repeated measurements
AGREE = 0.95
# In d dimensions the distance to the next neighbour but k is 1/NEAR times that to the k-th with chance NEAR^(dk): at
# most in a third of the rows for any k. More than that, and in half of them, and rows come in groups.
BY_CHANCE = NEAR / (1 - NEAR)
# fewer rows have no error that could be compared
FEWEST = 32
# what is left when so many training examples are taken away teaches nothing
MOST = 0.9
# rows whose neighbours are sought, rows that are sought among, columns, neighbours, numbers that are compared at once
ROWS, AMONG, COLUMNS, NEIGHBOURS, NUMBERS, DISTANCES = 1024, 2**16, 256, 32, 2**24, 2**30


class Dealt(NamedTuple):
    """Test examples `rows`, which have copies in training, whether `exact` ones, and the share within training.

    `errors` are the mean errors (or losses) on those with and without a copy, None without any; `flattered` that they
    are smaller with one beyond chance, and `unknown` that too few have none to tell. `owned` are the training examples
    that are copies of them.
    """

    rows: np.ndarray
    copied: np.ndarray
    within: float
    exact: bool
    errors: tuple[float, float | None]
    counted: bool
    flattered: bool
    unknown: bool
    owned: np.ndarray


def measure(subject) -> Dealt | None:
    """Groups of copies on both sides of the split; None where there are none, or where chance makes them."""
    found = _repeated(subject) or _varied(subject)
    if found is None:
        return None
    rows, copied, within, exact, owned = found
    each, counted = _errors(subject, rows)
    labels = _labels(subject, "test")[rows]
    strata = np.unique(labels)
    pairs = [(each[copied & (labels == c)], each[~copied & (labels == c)]) for c in strata]
    flattered = any(_smaller(*pair, counted) < CHANCE / len(strata) for pair in pairs)
    unknown = any(len(a) >= FEWEST > len(b) for a, b in pairs)
    errors = float(each[copied].mean()), float(each[~copied].mean()) if (~copied).any() else None
    return Dealt(rows, copied, within, exact, errors, counted, flattered, unknown, owned)


def judge(found: Dealt) -> Finding:
    n, total = int(found.copied.sum()), len(found.copied)
    mark = "problem" if found.flattered else "look" if found.unknown else "fine"
    kind = "copies" if found.exact else "near copies"
    on_copies, on_rest = (None if e is None else _said(e, found.counted) for e in found.errors)
    text = (
        f"{short(100 * n / total)} % of {total:,} test examples have {kind} in the training data, as "
        f"{short(100 * found.within)} % of the training examples have there, though nothing else comes near them: "
        "copies were made, and then dealt out to both parts. "
    )
    compared = f"It {'errs on' if found.counted else 'has a loss of'} {on_copies} of these"
    if not found.counted:
        compared = f"Its loss is {on_copies} on these"
    if on_rest is not None:
        compared += f" and {on_rest} {'of' if found.counted else 'on'} the {total - n:,} test examples without a copy"
    text += compared + ". "
    text += {
        "problem": "The test error is that of examples that it has seen: keep an example and its copies in one part.",
        "look": "Too few have none to say what it does on new examples: keep an example and its copies in one part.",
        "fine": "They do not flatter the test error.",
    }[mark]
    low, high = exact_interval(n, total)
    return Finding(
        NAME,
        mark,
        text,
        100 * n / total,
        (100 * low, 100 * high),
        unit="% of test examples",
        **FACTS,
        premises=(Premise("copies have the target of what they are copies of", True),),
        headline=f"{'Copies' if found.exact else 'Near copies'} were made, and then dealt out to both parts",
    )


def keep_together(subject, finding) -> Action | None:
    """Training without the copies of test examples: what is left of the test error is an honest one."""
    one_class = subject.classes is not None and np.asarray(subject.labels("test")).ndim == 1
    quantity = "test error" if one_class else "test loss"
    found = measure(subject)
    gone = len(found.owned)
    # too little would be left to learn from, or the copies of those that were not looked at would be
    if gone > MOST * count(subject.train) or len(found.rows) < count(subject.test):
        return None
    effect = promised(_without(subject), quantity, QUANTITIES[quantity](subject), key=jax.random.key(0))
    what = f"keep an example and its copies in one part: train without the {gone} copies of test examples"
    apply = lambda s, *, key: retrained(_without(s), key=key)  # noqa: E731
    return Action(what, NAME, effect, "short run", apply, note=FLATTERED)


def _without(subject):
    found = measure(subject)
    kept = (
        np.arange(count(subject.train)) if found is None else np.setdiff1d(np.arange(count(subject.train)), found.owned)
    )
    return subject.replaced(train=jax.tree.map(lambda a: a[kept], subject.train))


def _said(error: float, counted: bool) -> str:
    return f"{short(100 * error)} %" if counted else short(error)


# --- what is compared


def _labels(subject, split: str) -> np.ndarray:
    """The class of each example, one for all where it has none of its own: copies are compared within a class."""
    if subject.classes is not None:
        labels = np.asarray(subject.labels(split))
        if labels.ndim == 1:
            return labels
    return np.zeros(count(subject.data(split)[0]), int)


def _errors(subject, rows):
    """Whether each test example is wrong, where it has one class, and else its loss."""
    if subject.classes is not None and np.asarray(subject.labels("test")).ndim == 1:
        wrong = np.asarray(subject.predict("test")) != np.asarray(subject.labels("test"))
        return wrong[rows].astype(float), True
    losses = jax.vmap(subject.loss.function)(subject.outputs("test"), subject.test[1])
    return np.asarray(losses, float)[rows], False


def _smaller(copies, rest, counted: bool) -> float:
    """How likely errors on copies are so much smaller by chance: Fisher, or Mann and Whitney for losses."""
    if not len(copies) or not len(rest):
        return 1.0
    if counted:
        table = [[int(a.sum()), int(len(a) - a.sum())] for a in (copies, rest)]
        return float(fisher_exact(table, "less").pvalue)
    return float(mannwhitneyu(copies, rest, alternative="less").pvalue)


# --- examples that were repeated


def _repeated(subject):
    train, test = subject.train[0], subject.test[0]
    ours, theirs = digests(train), digests(test)
    copied = np.isin(theirs, ours)
    if copied.mean() < FEW:
        return None
    pairs = np.concatenate([digests((subject.data(s)[0], subject.targets(s))) for s in ("train", "test")])
    both = np.unique(np.stack([np.concatenate([ours, theirs]), pairs]), axis=1)[0]
    known, targets = np.unique(both, return_counts=True)
    if np.mean(np.isin(theirs[copied], known[targets == 1])) < AGREE:
        return None
    if not _apart(train, test, np.flatnonzero(copied)):
        return None
    kinds, times = np.unique(ours, return_counts=True)
    within = float(np.isin(ours, kinds[times > 1]).mean())
    return np.arange(len(theirs)), copied, within, True, np.flatnonzero(np.isin(ours, theirs))


def _apart(train, test, copied) -> bool:
    """Whether the training rows that differ from these test rows differ in several numbers."""
    rng = np.random.default_rng(0)
    most = max(2, NUMBERS // sum(a[0].size for a in jax.tree.leaves(train)))
    chosen = np.sort(rng.permutation(count(train))[:most]), rng.permutation(copied)[: 2 * FEWEST]
    ours, theirs = (
        np.concatenate([np.asarray(a[rows]).reshape(len(rows), -1) for a in jax.tree.leaves(x)], 1)
        for x, rows in zip((train, test), chosen, strict=True)
    )
    several = ((ours != ours.min(0)) & (ours != ours.max(0))).any(0)
    if several.sum() < APART:
        return False
    found = []
    for row in theirs[:, several]:
        changed = (ours[:, several] != row).sum(1)
        found.append(changed[changed > 0].min(initial=int(several.sum())))
    return float(np.mean(np.array(found) >= APART)) >= TYPICAL


# --- examples that were varied a little


def _varied(subject):
    """Rows of a table that come in groups, by its measured columns, among rows of the same class."""
    train, test = subject.train[0], subject.test[0]
    if not isinstance(train, jax.Array) or train.ndim != 2 or not jnp.issubdtype(train.dtype, np.floating):
        return None
    if train.shape[1] > COLUMNS or not FEWEST <= len(train) <= AMONG:
        return None
    ours, theirs = np.asarray(train, float), np.asarray(test, float)
    measured = [c for c in range(ours.shape[1]) if len(np.unique(ours[:, c])) > TYPICAL * len(ours)]
    if len(measured) < APART:
        return None
    spread = ours[:, measured].std(0)
    ours, theirs = (a[:, measured] / spread for a in (ours, theirs))
    labels = [_labels(subject, s) for s in ("train", "test")]
    rng = np.random.default_rng(0)
    # as many rows as have their neighbours sought in seconds
    most = min(ROWS, max(2 * FEWEST, DISTANCES // ours.size))
    seen, rows = (np.sort(rng.permutation(len(a))[:most]) for a in (ours, theirs))
    within = np.array([len(g) > 0 for g in _groups(ours[seen], labels[0][seen], ours, labels[0], seen)])
    if not _grouped(within):
        return None
    groups = _groups(theirs[rows], labels[1][rows], ours, labels[0])
    copied = np.array([len(g) > 0 for g in groups])
    if not _grouped(copied):
        return None
    return rows, copied, float(within.mean()), False, np.unique(np.concatenate(groups))


def _grouped(found) -> bool:
    """Whether more rows have neighbours much nearer than all others than chance gives in any number of dimensions."""
    n, k = len(found), int(found.sum())
    return k >= TYPICAL * n and float(binom.sf(k - 1, n, BY_CHANCE)) < CHANCE


def _groups(queries, classes, table, labels, own=None) -> list[np.ndarray]:
    """For each query the rows of its class that are much nearer than the next ones; none without such a step."""
    found = []
    for i, (query, c) in enumerate(zip(queries, classes, strict=True)):
        rows = np.flatnonzero(labels == c)
        rows = rows if own is None else rows[rows != own[i]]
        distances = np.sqrt(((table[rows] - query) ** 2).sum(1))
        few = np.argsort(distances)[: NEIGHBOURS + 1]
        near, far = distances[few[:-1]], distances[few[1:]]
        steps = np.flatnonzero((near > 0) & (NEAR * far >= near))
        found.append(rows[few[: steps[0] + 1]] if len(steps) else rows[:0])
    return found
