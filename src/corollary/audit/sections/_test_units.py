"""Are the targets of the test data in the unit of the training targets? If not, a line that brings them back."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import binomtest

from corollary.audit._losses import DIFFERENCES
from corollary.audit._sample import interval
from corollary.audit.action import Action, Effect
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections import _gap
from corollary.audit.sections._blind import blind_guess
from corollary.audit.sections._named import CHANCE, FEWEST

NAME = "unit of the test targets"
FACTS = dict(
    theorem="A function that was fixed before the examples were drawn has on them a mean loss that is known up to an "
    "interval; a line that the examples chose is judged on others.",
    claim="generalization.bound.learned_is_not_fixed",
    exact=True,
)


class Units(NamedTuple):
    """Test targets are `factor` times those of training, plus `shift`: their loss on the half that did not choose.

    `train` is the training loss and `blind` that of a blind guess on the training data, `smaller` how many of the `n`
    losses become smaller. `sizes` are mean and spread of both parts.
    """

    factor: np.ndarray
    shift: np.ndarray
    now: float
    then: float
    interval: tuple[float, float]
    train: float
    blind: float
    smaller: int
    n: int
    sizes: tuple[tuple[float, float], tuple[float, float]]


def measure(subject) -> Units | None:
    """None where targets are no numbers to be met, or for too few test examples."""
    if subject.test is None or subject.loss_name not in DIFFERENCES or subject.classes is not None:
        return None
    out, y = (np.asarray(a, float) for a in (subject.outputs("test"), subject.targets("test")))
    blind = blind_guess(subject)
    if len(y) < FEWEST or not blind > 0:
        return None
    chosen, kept = np.array_split(np.random.default_rng(0).permutation(len(y)), 2)
    f, t = out.reshape(len(y), -1), y.reshape(len(y), -1)
    spread = f[chosen].var(0)
    factor = ((f[chosen] - f[chosen].mean(0)) * (t[chosen] - t[chosen].mean(0))).mean(0)
    if not (spread > 0).all() or not (factor != 0).all():
        return None
    factor = factor / spread
    shift = t[chosen].mean(0) - factor * f[chosen].mean(0)
    now, then = (_losses(subject, t)[kept] for t in (subject.test[1], _targets(subject, factor, shift)))
    if not np.isfinite([now.mean(), then.mean(), blind]).all():  # beyond what single precision holds
        return None
    sizes = tuple(_size(np.asarray(a, float)) for a in (subject.targets("train"), y))
    ends = interval(then)
    return Units(
        factor, shift, float(now.mean()), float(then.mean()), (max(0.0, ends[0]), ends[1]), subject.mean_loss("train"),
        blind, int(np.sum(then < now)), len(kept), sizes,
    )  # fmt: skip


def judge(found: Units) -> Finding:
    gained = found.blind - found.train
    lost, left = found.now - found.train, found.then - found.train
    p = binomtest(found.smaller, found.n, 0.5, "greater").pvalue
    # it has learned its targets, most of that is lost on test data, and a line brings most of it back
    other = gained > _gap.LOOK * found.blind and lost > _gap.LOOK * gained > left and p < CHANCE
    ours, theirs = (f"{short(mean)} ± {short(spread)}" for mean, spread in found.sizes)
    if other:
        text = f"The test targets are in another unit ({theirs}, in training {ours})"
        if len(found.factor) == 1:
            text += f", {_line(found.factor[0], found.shift[0])}"
        text += (
            f": brought back, the loss is {short(found.then)} on {found.n} test examples by which the line was not "
            f"chosen, and {short(found.now)} as they are given. Prepare the targets of both parts alike."
        )
    else:
        text = (
            f"No other unit makes the loss on test data much smaller: the targets ({theirs}, in training {ours}) are "
        )
        text += "in one."
    sure = Premise("the line is judged by examples that did not choose it", True, f"{found.n} test examples")
    given = dict(premises=(sure,), headline="The test targets are in another unit")
    return Finding(NAME, "problem" if other else "fine", text, found.now - found.then, **given, **FACTS)


def _size(y) -> tuple[float, float]:
    """Mean and spread; a mean that is nothing but rounding is 0."""
    mean, spread = float(y.mean()), float(y.std())
    return (0.0 if abs(mean) < float(jnp.finfo(jnp.float32).eps) * spread else mean), spread


def _line(factor: float, shift: float) -> str:
    sign = "plus" if shift > 0 else "less"
    return f"about {short(factor)} times those of training {sign} {short(abs(shift))}"


def bring_back(subject, finding) -> Action | None:
    """Test targets in the unit of the training targets; what that makes of the loss is measured."""
    found = measure(subject)
    now = subject.mean_loss("test")
    effect = Effect(
        "test loss", now, found.then, (min(found.interval[0], found.then), max(found.interval[1], found.then))
    )
    what = "bring the test targets to the unit of the training targets"
    return Action(what, NAME, effect, "short run", _back, 0.1)


def _back(subject, *, key):
    found = measure(subject)
    return subject.replaced(test=(subject.test[0], _targets(subject, found.factor, found.shift)))


def _targets(subject, factor, shift):
    """The test targets brought back, with their weights if there are any."""
    target = subject.test[1]
    y, rest = (target[0], target[1:]) if subject.weighted else (target, ())
    shape = np.asarray(y).shape
    new = jnp.asarray((np.asarray(y, float).reshape(len(y), -1) - shift) / factor, y.dtype).reshape(shape)
    return (new, *rest) if subject.weighted else new


def _losses(subject, target) -> np.ndarray:
    return np.asarray(jax.vmap(subject.loss.function)(subject.outputs("test"), target), float)
