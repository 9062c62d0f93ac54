"""Were test inputs prepared as training inputs were? Turned, mirrored, inverted: what undoes it."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from math import isqrt
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit._sample import exact_interval
from corollary.audit.action import Action, Effect
from corollary.audit.finding import Finding, Premise
from corollary.audit.sections import _gap
from corollary.audit.sections._named import BETTER, FACTS, FEWEST, better

NAME = "arrangement of the test inputs"
# shorter axes are no sides of images, and so many are colours
SIDE, COLOURS = 4, 4
# test examples that are looked at
EXAMPLES = 2048


class Prepared(NamedTuple):
    """What the best other arrangement does on the half of the test data that did not choose it.

    `now` and `then` are the errors on these `n`, `gained` and `lost` the examples that become right and wrong;
    `carried` says that less than half of what training gained is lost so arranged, and `at_home` that training inputs
    so arranged are wrong more often.
    """

    what: str
    now: float
    then: float
    gained: int
    lost: int
    n: int
    at_home: bool
    carried: bool


def arrangements(shape: tuple[int, ...]) -> Iterator[tuple[str, Callable]]:
    """Other arrangements of a batch of inputs, each with an imperative that says what is done to them.

    `shape` is that of one example. A square number of columns may be an image, row by row.
    """
    if len(shape) == 1:
        side = isqrt(shape[0])
        if side * side == shape[0] and side >= SIDE:
            for what, f in _of_sides(1, 2, square=True):
                yield what, lambda x, f=f: f(x.reshape(len(x), side, side)).reshape(x.shape)
            yield "invert", None
        return
    sides = [a for a, size in enumerate(shape, 1) if size >= SIDE]
    pairs = [(a, b) for a, b in combinations(sides, 2) if shape[a - 1] == shape[b - 1]]
    # rows and columns of an image follow on each other
    pairs = [(a, b) for a, b in pairs if b == a + 1][:1]
    if pairs:
        yield from _of_sides(*pairs[0], square=True)
    elif len(sides) > 1:
        yield from _of_sides(*sides[:2], square=False)
    elif sides:
        yield "reverse", lambda x, a=sides[0]: jnp.flip(x, a)
    for a, size in enumerate(shape, 1):
        if 1 < size <= COLOURS and len(shape) == 3:
            yield "put the colours of", lambda x, a=a: jnp.flip(x, a)
            # laid out with the colours last, and read as if they were first, or the other way round
            if a == 1:
                h, w = shape[1:]
                yield "lay out anew", lambda x, h=h, w=w: jnp.moveaxis(x.reshape(len(x), h, w, -1), -1, 1)
            elif a == 3:
                h, w = shape[:2]
                yield "lay out anew", lambda x, h=h, w=w: jnp.moveaxis(x.reshape(len(x), -1, h, w), 1, -1)
    yield "invert", None


def _of_sides(a: int, b: int, square: bool) -> Iterator[tuple[str, Callable]]:
    yield "mirror left and right in", lambda x: jnp.flip(x, b)
    yield "mirror top and bottom in", lambda x: jnp.flip(x, a)
    yield "turn by a half", lambda x: jnp.flip(x, (a, b))
    if square:
        yield "swap rows and columns of", lambda x: jnp.swapaxes(x, a, b)
        yield "turn by a quarter to the left", lambda x: jnp.rot90(x, 1, (a, b))
        yield "turn by a quarter to the right", lambda x: jnp.rot90(x, -1, (a, b))
        yield "swap rows and columns, from the last to the first, of", lambda x: jnp.flip(jnp.swapaxes(x, a, b), (a, b))


SAID = {
    "turn by a half": "turn the test inputs by a half",
    "turn by a quarter to the left": "turn the test inputs by a quarter to the left",
    "turn by a quarter to the right": "turn the test inputs by a quarter to the right",
    "put the colours of": "put the colours of the test inputs in reverse order",
    "lay out anew": "lay the numbers of the test inputs out with their colours where they are in training",
    "reverse": "put the places of the test inputs in reverse order",
    "invert": "invert the test inputs, the largest number for the smallest",
}


def said(what: str) -> str:
    return SAID.get(what, f"{what} the test inputs")


def measure(subject) -> Prepared | str | None:
    """The arrangement under which most of a half of the test data is right; a sentence where there is no need of one.

    None for inputs of several arrays, whole numbers and tables, and where examples have no class each.
    """
    leaves = jax.tree.leaves(subject.train[0])
    if subject.test is None or subject.classes is None or len(leaves) > 1:
        return None
    labels, y = (np.asarray(subject.labels(split), int) for split in ("train", "test"))
    known = list(arrangements(leaves[0].shape[1:])) if jnp.issubdtype(leaves[0].dtype, np.floating) else []
    if labels.ndim > 1 or len(y) < FEWEST or not known:
        return None
    at_home = float(np.mean(np.asarray(subject.predict("train")) == labels))
    rows = np.random.default_rng(0).permutation(len(y))[:EXAMPLES]
    x, y = jax.tree.leaves(subject.test[0])[0][rows], y[rows]
    form = jax.tree.structure(subject.test[0])
    before = np.asarray(subject.predict(form.unflatten([x]))) == y
    if not (_gap.learned_by_errors(subject) and 1 - before.mean() > 1 - at_home + BETTER):
        return (
            "Test inputs are right about as often as training inputs, or training has learned little: both are "
            "arranged alike, as far as the network can tell."
        )
    chosen, kept = np.array_split(np.arange(len(y)), 2)
    votes = {}
    for what, _ in known:
        moved = arranged(subject, what, x)
        votes[what] = np.asarray(subject.predict(form.unflatten([moved]))) == y
    best = max(votes, key=lambda what: votes[what][chosen].sum())
    before, after = before[kept], votes[best][kept]
    there = form.unflatten([arranged(subject, best, leaves[0])])
    blind = 1 - np.bincount(labels).max() / len(labels)
    wrong = float(np.mean(~after))
    return Prepared(
        best,
        float(np.mean(~before)),
        wrong,
        int(np.sum(after & ~before)),
        int(np.sum(before & ~after)),
        len(kept),
        float(np.mean(np.asarray(subject.predict(there)) == labels)) < at_home,
        wrong - (1 - at_home) < _gap.LOOK * (blind - (1 - at_home)),
    )


def arranged(subject, what: str, x):
    """A batch of inputs in another arrangement; inverted about the middle of the range of the training inputs."""
    known = jax.tree.leaves(subject.train[0])[0]
    f = dict(arrangements(known.shape[1:]))[what]
    x = jnp.asarray(x)
    return (known.min() + known.max() - x).astype(x.dtype) if f is None else f(x)


def judge(found: Prepared | str) -> Finding:
    if isinstance(found, str):
        return Finding(NAME, "fine", found, 0.0, unit="% more right", **FACTS)
    net = (found.gained - found.lost) / found.n
    other = better(found) and found.at_home and found.carried
    if other:
        first = said(found.what)
        text = (
            f"The test inputs are not arranged as the training inputs are: {first}, and it errs on "
            f"{100 * found.then:.3g} % of {found.n} examples by which this was not chosen, in place of "
            f"{100 * found.now:.3g} %. Prepare both parts of the data by one function."
        )
    else:
        text = "No turn, mirror image or other arrangement of the test inputs makes it right on many more of them."
    sure = Premise("the arrangement is judged by examples that did not choose it", True, f"{found.n} test examples")
    mark = "problem" if other else "fine"
    headline = "The test inputs are not arranged as the training inputs are"
    return Finding(NAME, mark, text, 100 * net, unit="% more right", premises=(sure,), headline=headline, **FACTS)


def undo(subject, finding) -> Action | None:
    """The test inputs arranged as the training inputs are."""
    found = measure(subject)
    low, high = exact_interval(round(found.then * found.n), found.n)
    effect = Effect("test error", subject.error("test"), found.then, (min(low, found.then), max(high, found.then)))
    return Action(said(found.what), NAME, effect, "short run", partial(_undone, what=found.what), 0.1)


def _undone(subject, *, key, what):
    x, y = subject.test
    return subject.replaced(test=(jax.tree.map(lambda a: arranged(subject, what, a), x), y))
