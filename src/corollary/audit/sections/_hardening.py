"""What to do about a network that is not robust: train it against attacks, believe questions, bring inputs to scale."""

from functools import partial

import jax
import numpy as np
import optax

from corollary.audit import _plan
from corollary.audit._budget import BUDGETS
from corollary.audit._sample import exact_interval
from corollary.audit.action import Action, Effect, by_hand
from corollary.audit.finding import short
from corollary.audit.retrain import WORK
from corollary.audit.sections import _attackable, _attacked, _input_scale
from corollary.audit.sections._under_attack import ATTACK, LOOK
from corollary.nets import fit
from corollary.network.batches import count
from corollary.network.parts import split
from corollary.robustness import Ball, adversarial_loss

# radius of the attacks in training, in distances to the nearest example of another class: beyond the one that is judged
RADIUS = 0.125
# from where the network is: steps of Adam, examples in each, and steps of the ascent before each of them
STEP, STEPS, BATCH, ASCENT = 1e-3, 400, 128, 5
KEY = 0


def against_attacks(subject, finding) -> Action | None:
    """Adversarial training; None where trying it takes too long."""
    work = STEPS * BATCH * (ASCENT + 1) * _plan.GRADIENT * _plan.forward(subject)
    if work > WORK:
        return None
    victim = _victim(subject)
    if isinstance(victim, str):
        return None
    now, then, ends = left(subject), *_promised(hardened(subject, key=jax.random.key(KEY)))
    what = f"train against attacks within {short(RADIUS * victim.unit)} of each example (robustness.adversarial_loss)"
    return Action(what, finding.name, Effect(ATTACK, now, then, ends, left), "short run", hardened)


def hardened(subject, *, key):
    """The subject after a short training against attacks, from where it is."""
    victim = _victim(subject)
    ball = Ball(2, np.asarray(RADIUS * victim.unit, victim.x.dtype), victim.low, victim.high)
    trained = fit(
        subject.network,
        adversarial_loss(subject.loss, ball, steps=ASCENT),
        subject.train,
        optax.adam(STEP),
        steps=STEPS,
        key=key,
        batch_size=min(BATCH, count(subject.train)),
        progress=False,
        trainable=subject.trainable,
    )
    return subject.with_params(split(trained.network, subject.trainable).params)


def left(subject) -> float:
    """The accuracy that attacks leave at the radius that is judged."""
    return _promised(subject)[0]


def without_gradients(subject, finding) -> Action:
    """The number that gradients give, and the one to be believed."""
    found = _measured(subject)
    rows = slice(len(found.nearest))
    flattering = float(np.mean(found.gradients[rows] > LOOK))
    then, ends = _share(found.nearest > LOOK)
    effect = Effect(ATTACK, flattering, then, ends, left)
    what = "attack without gradients (robustness.finite_difference_pgd, straight_attack), and believe no other number"
    return Action(what, finding.name, effect, "short run", by_hand, 0.1)


def to_scale(subject, finding) -> Action | None:
    """The inputs multiplied by the factor at which the network is right most often; None where that is worse."""
    found = _input_scale.measure(subject, _victim(subject))
    factor, splits = _input_scale.treated(subject, found)
    where = splits[-1]
    kind = {"train": "training error", "test": "test error"}[where]
    treated = _rescaled(factor, splits, subject, key=None)
    wrong, n = treated.error(where), count(treated.data(where))
    if wrong > subject.error(where):
        return None
    low, high = exact_interval(round(wrong * n), n)
    effect = Effect(kind, subject.error(where), wrong, (min(low, wrong), max(high, wrong)))
    inputs = "the test inputs" if splits == ("test",) else "the inputs"
    verb, by = ("divide", 1 / factor) if factor < 1 else ("multiply", factor)
    return Action(
        f"{verb} {inputs} by {short(by)}", finding.name, effect, "short run", partial(_rescaled, factor, splits), 0.1
    )


def _rescaled(factor, splits, subject, *, key):
    def scaled(data):
        x, y = data
        return jax.tree.map(lambda a: (factor * a).astype(a.dtype), x), y

    return subject.replaced(**{name: scaled(subject.data(name)) for name in splits})


def _victim(subject):
    return _attackable.attackable(subject, BUDGETS["quick"], jax.random.key(KEY))


def _measured(subject):
    victim = _victim(subject)
    return _attacked.measure(subject, victim, np.zeros(len(victim.x)), BUDGETS["quick"], jax.random.key(KEY))


def _promised(subject) -> tuple[float, tuple[float, float]]:
    return _share(_measured(subject).nearest > LOOK)


def _share(which):
    return float(which.mean()), exact_interval(which.sum(), len(which))
