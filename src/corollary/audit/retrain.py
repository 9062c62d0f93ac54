"""A subject trained again, the way it was trained as far as that is known, and what a few such trainings promise."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import optax
from jaxtyping import PRNGKeyArray
from scipy import stats

from corollary.audit import _plan
from corollary.audit._data import count
from corollary.audit._errors import SubjectError
from corollary.audit.action import QUANTITIES, Effect
from corollary.audit.subject import Subject
from corollary.nets import fit

# what is taken where the subject does not say: Adam's usual step, and so many steps on batches of at most so many
STEP, STEPS, BATCH, FULL = 1e-3, 500, 128, 512
# trainings of a trial, the operations that they may take together (a tenth of a section's), and the fewest steps of one
RUNS, WORK, FEWEST = 3, 1.5e11, 20


def retrained(subject: Subject, *, key: PRNGKeyArray) -> Subject:
    """The subject with its network trained again on its data, from its start, by `nets.fit`.

    It starts from `initial`, from a draw of `init`, or from where it is if neither is known. A training that leads out
    of the finite numbers ends in a sentence.
    """
    init_key, fit_key = jax.random.split(key)
    start = subject.initial_params
    if start is None:
        start = subject.params if subject.init is None else subject.init(init_key)
    try:
        trained = fit(
            subject.at(start),
            subject.loss,
            subject.train,
            optimiser_of(subject),
            steps=steps_of(subject),
            key=fit_key,
            batch_size=batch_of(subject),
            progress=False,
            trainable=subject.trainable,
        )
    except FloatingPointError as error:
        raise SubjectError(f"trained again, {error}") from None
    trainable = jax.tree.map(lambda leaf: leaf is not None, subject.params, is_leaf=lambda leaf: leaf is None)
    return subject.with_params(eqx.filter(trained.network, trainable))


def optimiser_of(subject: Subject) -> optax.GradientTransformation:
    """The optimiser given; else gradient descent with the step given and its decay; else Adam."""
    if subject.optimiser is not None:
        return subject.optimiser
    decay = [optax.add_decayed_weights(subject.weight_decay)] if subject.weight_decay else []
    plain = optax.adam(STEP) if subject.learning_rate is None else optax.sgd(subject.learning_rate)
    return optax.chain(*decay, plain)


def steps_of(subject: Subject) -> int:
    """The steps of the training, or as many as are usual here."""
    return STEPS if subject.steps is None else subject.steps


def batch_of(subject: Subject) -> int | None:
    """The batch of the training; None for all examples."""
    n = count(subject.train)
    if subject.batch_size is not None:
        return subject.batch_size if subject.batch_size < n else None
    return None if n <= FULL else BATCH


def promised(treated: Subject, quantity: str, now: float, *, key: PRNGKeyArray) -> Effect:
    """What trainings of the treated subject, which is not trained yet, make of a quantity.

    The interval is Student's, of one more training; where a trial has fewer steps than the training it has no lower
    end. Where even a trial takes too long, all that is promised is no harm.
    """
    examples = batch_of(treated) or count(treated.train)
    step = RUNS * examples * _plan.GRADIENT * _plan.forward(treated)
    steps = int(min(steps_of(treated), WORK / step))
    if steps < min(FEWEST, steps_of(treated)):
        return Effect(quantity, now, now, (0.0, now))
    short = treated.replaced(steps=steps)
    found = np.array([QUANTITIES[quantity](retrained(short, key=k)) for k in jax.random.split(key, RUNS)])
    then = float(found.mean())
    # beside the spread of the runs, rounding in sums of some thousand terms
    reach = stats.t.ppf(0.975, RUNS - 1) * found.std(ddof=1) * np.sqrt(1 + 1 / RUNS) + 1e-4 * abs(then)
    low = max(0.0, then - float(reach)) if steps == steps_of(treated) else 0.0
    # no more than all answers are wrong
    most = 1.0 if quantity.endswith("error") and treated.classes is not None else np.inf
    return Effect(quantity, now, then, (low, min(most, then + float(reach))))
