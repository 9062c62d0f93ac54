"""Regression with the network's tangent kernel: its error on each example left out, and on test data."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit import _plan
from corollary.audit._sample import exact_interval, interval, welch
from corollary.audit._tangent import Part, kernel_of, part_of
from corollary.audit.finding import Finding, Premise, short
from corollary.generalization import leave_one_out
from corollary.network.losses import IGNORED

NAME = "leave-one-out error of the tangent kernel"
FACTS = dict(
    theorem="Least squares without one point at a time need no refitting: the residual of each is that of the fit to "
    "all, divided by one minus the leverage. Their mean is the error on new points, up to one point of difference.",
    claim="generalization.validation.partition",
)
# shares of the mean of the kernel's diagonal; what leaves the least error over is taken
RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
# how likely errors on test data that are as many would be, were they of one law
CHANCE = 1e-3


class LeftOut(NamedTuple):
    """Losses of the regression on each example left out, on each test example, and of the network on these.

    `what` they are: "error" (shares of wrong places) or "squared error". Test losses are None without test data.
    """

    what: str
    left_out: np.ndarray
    test: np.ndarray | None
    network: np.ndarray | None
    ridge: float
    total: int


def measure(subject, budget, key) -> LeftOut | str:
    """Regression from some training examples with the kernel of the trained network; a sentence where there is none."""
    train_key, test_key = jax.random.split(key)
    examples, at = _plan.kernel(subject, budget, key)
    if at is not None:
        return "This was left out: the tangent kernel of all outputs takes too long."
    train = part_of(subject, "train", examples, train_key)
    test = None if subject.test is None else part_of(subject, "test", examples, test_key)
    if train.aims is None:
        return "The loss does not say which numbers the outputs should be."
    x = train.x if test is None else jax.tree.map(lambda *a: jnp.concatenate(a), train.x, test.x)
    kernel = np.asarray(kernel_of(subject, subject.params, x), float)
    n = len(train.aims)
    square, cross = kernel[:n, :n], kernel[n:, :n]
    scale = np.trace(square) / n
    if n < 2 or not scale > 0 or not np.isfinite(kernel).all():
        return "The tangent kernel is zero, or not finite."
    return _regression(subject, train, test, square / scale, cross / scale)


def _regression(subject, train: Part, test: Part | None, square, cross) -> LeftOut:
    goals = np.asarray(train.aims, float)
    base = goals.mean(0)
    # the kernel is the Gram matrix of these features
    values, vectors = np.linalg.eigh(square)
    features = vectors * np.sqrt(np.maximum(values, 0))
    with jax.enable_x64(True):
        by_column = jax.vmap(lambda y, penalty: leave_one_out(features, y, penalty=penalty).residuals, (1, None), 1)
        residuals = np.asarray(jax.vmap(by_column, (None, 0))(goals - base, np.asarray(RIDGES) / len(goals)))
    best = int(np.nanargmin((residuals**2).mean((1, 2))))
    fitted = goals - residuals[best]
    kinds = ("error", _wrong) if subject.classes is not None else ("squared error", _squares)
    found = kinds[1](subject, train, fitted)
    if test is None:
        return LeftOut(kinds[0], found, None, None, RIDGES[best], subject.count())
    weights = np.linalg.solve(square + RIDGES[best] * np.eye(len(goals)), goals - base)
    of_test = kinds[1](subject, test, base + cross @ weights), kinds[1](subject, test, np.asarray(test.out, float))
    return LeftOut(kinds[0], found, *of_test, RIDGES[best], subject.count())


def _wrong(subject, part: Part, outputs) -> np.ndarray:
    """The share of every example's places that have another class."""
    same = np.asarray(subject.decide(outputs.reshape(part.out.shape))) == part.labels
    known = part.labels != IGNORED
    same, known = (a.reshape(len(a), -1) for a in (same, known))
    return (~same & known).sum(1) / np.maximum(known.sum(1), 1)


def _squares(subject, part: Part, outputs) -> np.ndarray:
    return ((outputs.reshape(len(part.aims), -1) - part.aims) ** 2).mean(1)


def judge(found: LeftOut | str) -> Finding:
    if isinstance(found, str):
        return Finding(NAME, "not applicable", found, **FACTS)
    say = (lambda a: f"{100 * a:.3g} %") if found.what == "error" else short
    value, n = float(found.left_out.mean()), len(found.left_out)
    ends = exact_interval(found.left_out.sum(), n) if set(found.left_out) <= {0, 1} else interval(found.left_out)
    ends = max(0.0, ends[0]), ends[1]
    if found.what == "error":
        text = f"Regression with the tangent kernel errs on {say(value)} of {n:,} training examples, each left out in "
        text += f"turn: on {say(ends[0])} to {say(min(1.0, ends[1]))} of new examples"
    else:
        text = (
            f"Regression with the tangent kernel has a mean squared error of {say(value)} on {n:,} training examples, "
        )
        text += f"each left out in turn: {say(ends[0])} to {say(ends[1])} on new examples"
    if found.test is None:
        text += ". There are no test data that it could be compared with."
    else:
        text += f". On test data it has {say(found.test.mean())}, the network {say(found.network.mean())}. "
        text += _agreement(found)
    premises = (
        Premise("the regression sees the examples that the network saw", n == found.total, f"{n:,} of {found.total:,}"),
        Premise("the kernel does not depend on the examples", False, "it is that of the trained network"),
        Premise("the network is near what its linearisation learns", None, f"ridge {found.ridge} of the diagonal"),
    )
    unit = "of the examples" if found.what == "error" else ""
    return Finding(NAME, "fine", text, value, ends, unit=unit, premises=premises, **FACTS)


def _agreement(found: LeftOut) -> str:
    if len(found.test) < 2 or len(found.left_out) < 2:
        return "One example does not say whether both agree."
    if not welch(found.left_out, found.test) < CHANCE:
        return "Its errors on what is left out and on what is new agree."
    more = found.test.mean() > found.left_out.mean()
    return (
        "The test data are harder than the training data, beyond chance: they do not follow one law."
        if more
        else "The test data are easier than the training data, beyond chance: their labels are better, or their kind "
        "is another."
    )
