"""What is changed about a subject before it is trained again: its start, its step, the scale of its inputs."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit._budget import BUDGETS
from corollary.audit._errors import SubjectError
from corollary.audit._order import normal
from corollary.audit.action import QUANTITIES, Action
from corollary.audit.finding import short
from corollary.audit.retrain import promised, retrained
from corollary.audit.sections import _first_steps
from corollary.audit.sections._start import losses_at, start_of
from corollary.landscape import fan_in

#: of the largest stable step: halfway, where every direction shrinks
SAFE = 0.5
# a step between these shares of the largest stable one is left as it is
LEAST, MOST = 0.02, 1.0
KEY = 0


def trained_after(treatment, subject, *, key):
    """The `apply` of an action: the subject treated and trained again."""
    return retrained(treatment(subject), key=key)


def retraining(subject, what: str, treats: str, treatment, quantity: str = "training loss") -> Action | None:
    """An action that treats and trains again; its effect is that of a few such trainings.

    Where the treatment changes the step, the one there was is tried beside it; if the new one is better, `what` says so
    at its end. What makes the loss that is trained worse than now, on average of those trainings, is nothing to advise.
    """
    treatments = [treatment]
    if "the step" not in what and treatment(subject).learning_rate != subject.learning_rate:
        treatments.append(partial(_at_its_step, treatment))
    now, found, broken = QUANTITIES[quantity](subject), [], None
    for treat in treatments:
        try:
            found.append((promised(treat(subject), quantity, now, key=jax.random.key(KEY)), treat))
        except SubjectError as error:  # one of the steps may lead out of the finite numbers
            broken = error
    if not found:
        raise broken
    effect, best = min(found, key=lambda pair: pair[0].then)
    if quantity == "training loss" and effect.then > effect.now:
        return None
    step = best(subject).learning_rate
    if "the step" not in what and step != subject.learning_rate:
        what += f", and take a step of {short(step)}"
    return Action(what, treats, effect, "short run", partial(trained_after, best))


def _at_its_step(treatment, subject):
    """The subject treated, with the step that it had."""
    treated = treatment(subject)
    return treated if subject.learning_rate is None else treated.replaced(learning_rate=subject.learning_rate)


def knows_start(subject) -> bool:
    """Whether training can begin again."""
    return subject.initial_params is not None or subject.init is not None


def times(factor: float, what: str) -> str:
    """ "divide the step by 12", "multiply the step by 3"."""
    return f"divide {what} by {short(1 / factor)}" if factor < 1 else f"multiply {what} by {short(factor)}"


def step_times(subject, factor: float):
    """The subject with another step."""
    return subject.replaced(learning_rate=subject.learning_rate * factor)


def stable_step(subject) -> float | None:
    """The largest step that plain gradient descent bears where training starts; None where it is not known."""
    start = start_of(subject, jax.random.key(KEY))
    losses = losses_at(subject, start)[1]
    if start.kind == "trained" or not np.isfinite(losses).all():
        return None
    keys = jax.random.split(jax.random.key(KEY))
    found = _first_steps.measure_step(subject, start, losses, BUDGETS["quick"], *keys)
    return None if isinstance(found, str) else 2 / found.sharpness


def suited(subject):
    """The subject with a step that suits its start, where the one it has is far from it."""
    eta = subject.learning_rate
    longest = None if eta is None else stable_step(subject)
    if longest is None or LEAST <= eta / longest <= MOST:
        return subject
    return subject.replaced(learning_rate=SAFE * longest)


def standardised(subject):
    """Inputs of mean 0 and variance 1 by the training data: columns of tables, images and sequences as a whole."""

    def moments(a):
        if not jnp.issubdtype(a.dtype, np.floating):
            return None
        values = np.asarray(a, float)
        axes = 0 if a.ndim <= 2 else None
        spread = values.std(axis=axes)
        return values.mean(axis=axes), np.where(spread > 0, spread, 1.0)

    known = [moments(a) for a in jax.tree.leaves(subject.train[0])]

    def scaled(x):
        leaves, form = jax.tree.flatten(x)
        done = [
            a if m is None else ((np.asarray(a, float) - m[0]) / m[1]).astype(a.dtype)
            for a, m in zip(leaves, known, strict=True)
        ]
        return form.unflatten(map(jnp.asarray, done))

    data = {split: (scaled(subject.data(split)[0]), subject.data(split)[1]) for split in subject.splits}
    # what was trained at the old scale may have no finite outputs at the new one
    return suited(subject.replaced(params=start_of(subject, jax.random.key(KEY)).params, **data))


def drawn_anew(subject):
    """A start by He's rule; biases below 0 are put to 0.

    Fan-in is what a product adds up. Of a table that is only looked up it is the larger of both axes.
    """
    old = start_of(subject, jax.random.key(KEY)).params
    fans = fan_in(subject.at(old), subject.train[0], trainable=subject.trainable)
    noise = normal(subject, jax.random.key(KEY))

    def leaf(a, fan, z):
        if a.ndim < 2:
            return jnp.zeros_like(a) if bool(jnp.any(a < 0)) else a
        return math.sqrt(2 / (fan or max(a.shape[:2]) * math.prod(a.shape[2:]))) * z.astype(a.dtype)

    return suited(subject.replaced(initial_params=jax.tree.map(leaf, old, fans, noise)))
