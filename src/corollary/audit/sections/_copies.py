"""Is the test set one? Examples that are in both sets, exactly or nearly."""

from typing import NamedTuple

import jax
import numpy as np
from scipy.stats import fisher_exact

from corollary.audit._sample import exact_interval, some
from corollary.audit.action import FLATTERED, Action
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.retrain import promised, retrained
from corollary.audit.sections._rows import digests, distances, measured, sketches
from corollary.network.batches import count
from corollary.network.losses import IGNORED

# as many rows as have their nearest neighbours sought
ROWS = 1024
# nearer than a quarter of the usual distance is near: in the plane that is one row in 24 by chance, with more
# dimensions next to none, and what chance gives within the training data is compared with
NEAR = 0.25
NAME = "test examples found in the training data"
# copies are named when chance makes as many once in a thousand times; below a hundredth of the test data they hardly
# move its error
CHANCE, FEW = 1e-3, 0.01
FACTS = dict(
    theorem="The error on examples that a function was chosen by is no estimate of its error on new ones; that on "
    "others is, with a binomial law.",
    claim="generalization.bound.learned_is_not_fixed",
)


class Copies(NamedTuple):
    """Which of the test examples `rows` have a copy among the training examples, and how many of those have one."""

    rows: np.ndarray
    copied: np.ndarray
    natural: np.ndarray

    @property
    def by_chance(self) -> float:
        """How likely so many are if test and training examples are alike: Fisher's exact test."""
        both = [[int(a.sum()), int((~a).sum())] for a in (self.copied, self.natural)]
        return float(fisher_exact(both, "greater").pvalue)


class Shared(NamedTuple):
    """Copies, exact and near (None where distances say nothing), those that count, and the error on the other rows."""

    exact: Copies
    near: Copies | None
    found: Copies
    rest: float | None
    sought: int


def measure(subject, key) -> Shared:
    train, test = subject.train[0], subject.test[0]
    exact, near = _exact(train, test), _near(train, test, key)
    found = exact if near is None or exact.by_chance <= near.by_chance else near
    return Shared(exact, near, found, error_of(subject, found.rows[~found.copied]), count(train))


def finding(subject, key) -> Finding:
    """Test examples that are training examples too, against copies among the training examples themselves."""
    return judge(measure(subject, key), subject.count(), subject.count("test"))


def leaked(shared: Shared) -> bool:
    """Whether more test examples have copies in training than these have among themselves, beyond chance."""
    return shared.found.by_chance <= CHANCE


def judge(shared: Shared, training: int, testing: int, new: bool = True) -> Finding:
    """`new` says that test examples without a copy are new to the training data, as far as is known."""
    exact, near, found, _, sought = shared
    total, copied = len(found.copied), int(found.copied.sum())
    share, chance = copied / total, float(found.natural.mean())
    mark = "fine" if not leaked(shared) else "problem" if share - chance >= FEW else "look"
    same = int(exact.copied[found.rows].sum())
    kind = "" if same == copied else f", {same or 'none'} of them exactly and the others nearly"
    number = f"{copied:,} are" if copied else "none is"
    said = f"Of {total:,} test examples {number} among the training examples{kind}"
    if mark != "fine":
        natural = f"{short(100 * chance)} %" if chance else "none"
        end = f": this is a leak. Among the training examples themselves {natural} have a copy. {_said_of_rest(shared)}"
    else:
        unlike = ": the test data are new to it." if new else "."
        end = "; so many are alike within the training data too." if copied else unlike
    low, high = exact_interval(copied, total)
    return Finding(
        NAME,
        mark,
        said + end,
        100 * share,
        None if total == testing else (100 * low, 100 * high),
        exact=total == testing,
        unit="% of test examples",
        headline="Test examples are in the training data",
        **FACTS,
        premises=(
            Premise("sought among all training examples", sought == training, f"{sought:,} of {training:,}"),
            Premise(
                f"near ones sought, within {NEAR} of the usual distance to the nearest",
                near is not None,
                f"{total:,} test examples" if near is not None else "distances say nothing about these inputs",
            ),
        ),
    )


def _said_of_rest(shared: Shared) -> str:
    if shared.rest is None:
        return "The test error says nothing about new examples: take the copies out of the training data."
    others = int((~shared.found.copied).sum())
    error = f"{short(100 * shared.rest)} %"
    return f"On the other {others:,} test examples the error is {error}: take the copies out of the training data."


def error_of(subject, rows) -> float | None:
    """The test error on these examples."""
    if subject.classes is None or not len(rows):
        return None
    labels, said = np.asarray(subject.labels("test"))[rows], np.asarray(subject.predict("test"))[rows]
    return float((said != labels)[labels != IGNORED].mean())


def remove(subject, finding) -> Action | None:
    """Without the training examples that are test examples the test error is an honest one."""
    if subject.classes is None or np.asarray(subject.labels("test")).ndim > 1:
        return None
    gone = count(subject.train) - len(_kept(subject, jax.random.key(0)))
    if gone == count(subject.train):
        return None
    # the examples that are left teach less: trainings without the others say what that costs
    effect = promised(_without(subject), "test error", subject.error("test"), key=jax.random.key(0))
    what = f"remove {gone} test examples from the training data"
    apply = lambda s, *, key: retrained(_without(s), key=key)  # noqa: E731
    return Action(what, NAME, effect, "short run", apply, note=FLATTERED)


def _kept(subject, key) -> np.ndarray:
    """The training rows that are no copy of a test row."""
    train, test = subject.train[0], subject.test[0]
    gone = np.isin(digests(train), digests(test))
    if _near(train, test, key) is not None:
        ours, theirs = sketches(train, test)
        own = distances(ours, ours, np.arange(len(ours)))
        gone |= distances(ours, theirs) <= NEAR * np.median(own)
    return np.flatnonzero(~gone)


def _without(subject):
    rows = _kept(subject, jax.random.key(0))
    return subject.replaced(train=jax.tree.map(lambda a: a[rows], subject.train))


def _exact(train, test) -> Copies:
    ours, theirs = digests(train), digests(test)
    known, times = np.unique(ours, return_counts=True)
    return Copies(np.arange(len(theirs)), np.isin(theirs, known), np.isin(ours, known[times > 1]))


def _near(train, test, key) -> Copies | None:
    """Neighbours much nearer than is usual among the training examples; None where inputs have no distance."""
    if not measured(train) or count(train) < 2:
        return None
    rows = [some(np.arange(count(x)), ROWS, k) for x, k in zip((train, test), jax.random.split(key), strict=True)]
    ours, theirs = sketches(train, test)
    own = distances(ours[rows[0]], ours, rows[0])
    limit = NEAR * np.median(own)
    if not limit > 0:  # most training examples have copies
        return None
    return Copies(rows[1], distances(theirs[rows[1]], ours) <= limit, own <= limit)
