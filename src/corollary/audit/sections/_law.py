"""Are the test inputs of the kind of the training inputs? A classifier that tells them apart, and what that costs."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import ks_2samp

from corollary.audit._names import spelled
from corollary.audit._sample import exact_interval, interval, numbers_of, some
from corollary.audit.action import QUANTITIES, Action, Effect
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections import _gap, _rows
from corollary.generative import two_sample
from corollary.network.batches import count

NAME = "test inputs told from training inputs"
# examples of each part that the classifier sees, and the fewest it can learn from
ROWS, FEWEST = 512, 32
# columns of a table that are compared one by one
COLUMNS = 256
# so many kinds of tokens are counted, further ones together with others
TOKENS = 2048
# how likely so many right answers are if both parts follow one law; an accuracy of 3/4 says that the laws share half of
# their mass at most
CHANCE, TOLD = 1e-3, 0.75
# Beyond chance so much of what training gained is lost on the test data. Networks bear many a change of their inputs:
# one that costs less than a tenth is none of theirs to be told of, and half is where a gap is marked.
COSTS, COSTS_MUCH = 0.1, _gap.LOOK
FACTS = dict(
    theorem="A classifier that is right with probability a on halves of either law shows that their total variation is "
    "2a - 1 at least; and an error under one law says nothing of that under another beyond this distance.",
    claim="foundations.divergences_moments.integral_metrics",
    unit="% right",
)


class Told(NamedTuple):
    """Of `asked` examples the share that the classifier puts into the right part, how likely that is by chance, the
    column of a table that differs most with its mean and spread in training and test, the share of the gain that is
    lost.

    `lost` is what is certain of it, None where it is not known.
    """

    accuracy: float
    chance: float
    asked: int
    column: tuple[str, tuple[float, float], tuple[float, float]] | None
    lost: float | None


def measure(subject, errors, key) -> Told | str:
    """The parts told apart at one scale: another scale of the inputs has a finding of its own."""
    train, test = _numbers(subject)
    if train is None:
        return "Inputs of whole numbers beside others have no distances to tell them apart by."
    if min(count(train), count(test)) < FEWEST:
        return f"To tell the parts apart takes {FEWEST} examples of each."
    keys = jax.random.split(key, 3)
    train, test = (some(a, ROWS, k) for a, k in zip((train, test), keys, strict=False))
    sizes = [np.sqrt(np.mean(numbers_of(a, 2**22) ** 2)) for a in (train, test)]
    factor = sizes[0] / sizes[1] if min(sizes) > 0 else 1.0
    # few rows of great size may decide the scale of a part: what is told apart must be so at its own scale as well
    found = min((_told(train, test, f, keys[2]) for f in (1.0, factor)), key=lambda told: told[0])
    # the classifier is asked about the second half of either part
    few = min(count(train), count(test))
    column = _column(train, test, subject.columns) if _real(subject) else None
    return Told(*found, 2 * (few - few // 2), column, _lost(errors))


def _real(subject) -> bool:
    return all(jnp.issubdtype(a.dtype, np.floating) for a in jax.tree.leaves(subject.train[0]))


def _numbers(subject):
    """The inputs of both parts as numbers with distances: tokens are counted. None for mixed inputs."""
    parts = subject.train[0], subject.test[0]
    leaves = [jax.tree.leaves(x) for x in parts]
    if _real(subject):
        return parts
    if len(leaves[0]) > 1 or leaves[0][0].ndim != 2 or not jnp.issubdtype(leaves[0][0].dtype, np.integer):
        return None, None
    tokens = [np.asarray(a) % TOKENS for (a,) in leaves]
    kinds = int(max(a.max() for a in tokens)) + 1
    return tuple(jnp.asarray(_counted(a, kinds)) for a in tokens)


def _counted(tokens: np.ndarray, kinds: int) -> np.ndarray:
    """How often each token is in each example, (n, kinds)."""
    out = np.zeros((len(tokens), kinds), np.float32)
    np.add.at(out, (np.arange(len(tokens))[:, None], tokens), 1)
    return out


def _told(train, test, factor, key) -> tuple[float, float]:
    ours, theirs = _rows.sketches(train, jax.tree.map(lambda a: a * factor, test))
    # one relabelling: the classifier alone is asked
    told = two_sample(ours.astype(np.float32), theirs.astype(np.float32), relabellings=1, key=key)
    return float(told.accuracy), float(told.p_classifier)


def _column(train, test, names):
    """The column of a table whose law differs most, by Kolmogorov and Smirnov's distance; None for other inputs."""
    if not isinstance(train, jax.Array) or train.ndim != 2 or train.shape[1] > COLUMNS:
        return None
    ours, theirs = np.asarray(train, float), np.asarray(test, float)
    apart = [ks_2samp(a, b, method="asymp").statistic for a, b in zip(ours.T, theirs.T, strict=True)]
    worst = int(np.argmax(apart))
    return spelled(names, worst), *((float(a[:, worst].mean()), float(a[:, worst].std())) for a in (ours, theirs))


def _lost(errors) -> float | None:
    """What is certain of the share of the gain over a blind guess that is lost on the test data."""
    if errors is None or errors.blind is None or not errors.blind > errors.train:
        return None
    return (errors.interval[0] - errors.train) / (errors.blind - errors.train)


def judge(found: Told | str) -> Finding:
    if isinstance(found, str):
        return Finding(NAME, "not applicable", found, **FACTS)
    low, high = exact_interval(round(found.accuracy * found.asked), found.asked)
    told = found.chance < CHANCE and low > TOLD
    cost = "look" if found.lost is None or found.lost > COSTS else "fine"
    mark = ("problem" if (found.lost or 0) > COSTS_MUCH else cost) if told else "fine"
    share = f"{short(100 * found.accuracy)} %"
    if not told:
        text = f"A classifier tells test inputs from training inputs {share} of the time, where a coin does half: "
        text += "they are of one kind." if found.chance >= CHANCE else "they differ a little."
    else:
        text = f"A classifier tells test inputs from training inputs {share} of the time"
        if found.column is not None:
            number, *parts = found.column
            ours, theirs = (f"{short(mean)} ± {short(spread)}" for mean, spread in parts)
            # what was not known for the test data was often filled in with one number
            still = parts[1][1] <= float(jnp.finfo(jnp.float32).eps) * parts[0][1]
            same = ", where it is the same everywhere: is it known there?" if still else ""
            text += f", most by column {number} ({ours} in training, {theirs} in test{same})"
        text += ": they are of another kind, or were prepared in another way. "
        text += {
            "fine": "The network bears that: it loses little on them.",
            "look": "Some of what it learned is lost on them.",
            "problem": "Most of what it learned is lost on them.",
        }[mark]
        if found.lost is None:
            text = text.replace("Some of what it learned is lost on them.", "What that costs is not known.")
    alike = Premise("equally many of either part, on halves that the classifier has not seen", True)
    given = dict(premises=(alike,), headline="Test inputs are of another kind than training inputs")
    return Finding(NAME, mark, text, 100 * found.accuracy, (100 * low, 100 * high), **given, **FACTS)


def align(subject, finding) -> Action | None:
    """Test inputs with the means and spreads that training inputs have, where that brings back most of what is lost."""
    if not _real(subject):
        return None
    what = "loss" if subject.classes is None else "error"
    quantity = f"test {what}"
    now, aligned = QUANTITIES[quantity](subject), _aligned(subject, key=None)
    then, n = QUANTITIES[quantity](aligned), subject.count("test")
    if subject.classes is None:
        out, (_, y) = aligned.outputs("test"), aligned.test
        low, high = interval(np.asarray(jax.vmap(subject.loss.function)(out, y), float))
    else:
        low, high = exact_interval(round(then * n), n)
    # what brings back less than half is not what is wrong with them
    if not (high < now and then <= (now + QUANTITIES[f"training {what}"](subject)) / 2):
        return None
    effect = Effect(quantity, now, then, (min(max(0.0, low), then), max(high, then)))
    what = "give every coordinate of the test inputs the mean and spread that it has in training"
    return Action(what, finding.name, effect, "short run", _aligned, 0.1)


def _aligned(subject, *, key):
    """The subject with every coordinate of its test inputs at the mean and spread of the training inputs."""

    def moved(theirs, ours):
        spread = theirs.std(0)
        factor = jnp.where(spread > 0, ours.std(0) / jnp.where(spread > 0, spread, 1), 1)
        return ((theirs - theirs.mean(0)) * factor + ours.mean(0)).astype(theirs.dtype)

    x, y = subject.test
    return subject.replaced(test=(jax.tree.map(moved, x, subject.train[0]), y))
