"""Inputs that never change in training and do in the test data: what a network does with them it was never taught."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import binomtest, wilcoxon

from corollary.audit._sample import exact_interval, interval
from corollary.audit.action import QUANTITIES, Action, Effect
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._explained import listed
from corollary.network.batches import count

NAME = "inputs that training holds fixed"
# at the value that they have in training the network is right on more test examples, beyond what chance gives once in
# a thousand times, and what is won is half of what is lost on test data
CHANCE, HALF = 1e-3, 0.5
# columns that a sentence names
SHOWN = 3


class Fixed(NamedTuple):
    """Inputs with one value in training and others in the test data: their places, and what putting them back does.

    `train`, `now` and `then` are errors (or losses): on the training data, on the test data, and there with these
    inputs at their value in training; `chance` is how likely as much is where that makes no difference.
    """

    places: tuple[int, ...]
    total: int
    train: float
    now: float
    then: float
    chance: float
    counted: bool
    names: tuple[str, ...] | None = None


def measure(subject) -> Fixed | None:
    """None without such inputs, or without numbers."""
    masks = _fixed(subject)
    places = [] if masks is None else np.flatnonzero(np.concatenate([m.reshape(-1) for m in masks]))
    if not len(places):
        return None
    counted = subject.classes is not None and np.asarray(subject.labels("test")).ndim == 1
    now, then = (_each(subject, out, counted) for out in (subject.outputs("test"), subject.outputs(_back(subject))))
    if counted:
        won, lost = int(np.sum(now > then)), int(np.sum(then > now))
        chance = float(binomtest(won, max(1, won + lost), 0.5, "greater").pvalue)
        train = subject.error("train")
    else:
        chance = float(wilcoxon(now, then, alternative="greater").pvalue) if (now != then).any() else 1.0
        train = subject.mean_loss("train")
    total = sum(m.size for m in masks)
    errors = train, float(now.mean()), float(then.mean())
    return Fixed(tuple(places.tolist()), total, *errors, chance, counted, subject.columns)


def judge(found: Fixed) -> Finding:
    few = listed(found.places, SHOWN, found.names)
    many = len(found.places) > 1
    said = f"{'Columns' if many else 'Column'} {few} {'have' if many else 'has'} one value in all training examples"
    said += " and others in the test data. "
    now, then = (f"{short(100 * e)} %" if found.counted else short(e) for e in (found.now, found.then))
    what = "an error" if found.counted else "a loss"
    costs = found.chance < CHANCE and found.now - found.then > HALF * (found.now - found.train)
    if costs:
        said += f"With that value there it has {what} of {then} on them in place of {now}: training could not teach it "
        said += "what another one means."
    else:
        said += f"That costs it little: with that value there it has {what} of {then} on them, as it is {now}."
    return Finding(
        NAME,
        "problem" if costs else "fine",
        said,
        float(len(found.places)),
        exact=True,
        unit=f"of {found.total:,} inputs",
        theorem="A step of gradient descent moves the weights of an input that never changes as it moves a bias: what "
        "it learns about that input holds at the one value alone.",
        claim="linear.scoring.conditioning",
        premises=(Premise("measured with these inputs at the value that they have in training", True),),
        headline="Inputs that never change in training change in the test data",
    )


def put_back_action(subject, finding) -> Action | None:
    """The test data with these inputs as training has them; what it brings is measured."""
    found, back = measure(subject), put_back(subject, key=None)
    quantity = f"test {'error' if found.counted else 'loss'}"
    now, then = (QUANTITIES[quantity](s) for s in (subject, back))
    low, high = (
        exact_interval(round(then * subject.count("test")), subject.count("test"))
        if found.counted
        else interval(_each(back, back.outputs("test"), False))
    )
    few = listed(found.places, SHOWN, found.names)
    what = f"put column{'s' if len(found.places) > 1 else ''} {few} of the test inputs to the value that training has"
    effect = Effect(quantity, now, then, (min(max(0.0, low), then), max(high, then)))
    return Action(what, NAME, effect, "short run", put_back, 0.1)


def put_back(subject, *, key):
    """The subject with what never changes in training at its value there in the test data too."""
    return subject.replaced(test=(_back(subject), subject.test[1]))


def _back(subject):
    leaves, form = jax.tree.flatten(subject.test[0])
    known = jax.tree.leaves(subject.train[0])
    return form.unflatten(
        jnp.where(jnp.asarray(m), k[0], a).astype(a.dtype)
        for a, k, m in zip(leaves, known, _fixed(subject), strict=True)
    )


def _fixed(subject):
    """For each input array where training has one value and the test data another; None for words."""
    pairs = list(zip(*(jax.tree.leaves(subject.data(s)[0]) for s in ("train", "test")), strict=True))
    if not all(jnp.issubdtype(a.dtype, np.floating) for a, _ in pairs) or count(subject.train[0]) < 2:
        return None
    out = []
    for ours, theirs in pairs:
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        out.append((ours == ours[0]).all(0) & (theirs != ours[0]).any(0))
    return out


def _each(subject, outputs, counted: bool) -> np.ndarray:
    if counted:
        return (np.asarray(subject.decide(outputs)) != np.asarray(subject.labels("test"))).astype(float)
    return np.asarray(jax.vmap(subject.loss.function)(outputs, subject.test[1]), float)
