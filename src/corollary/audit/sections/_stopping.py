"""When should training have stopped? A training on four fifths of the data, watched on the last fifth."""

from functools import partial

import jax
import numpy as np

from corollary.audit import _plan
from corollary.audit._data import count
from corollary.audit.action import Action
from corollary.audit.retrain import WORK, batch_of, optimiser_of, steps_of
from corollary.audit.sections._treatments import knows_start, retraining
from corollary.nets import fit

# looks along the training, and the share of the data that is only looked at
LOOKS, HELD = 20, 0.2


def stop(subject, finding) -> Action | None:
    """Fewer steps, where held-out data say that they would have been better by then."""
    if not knows_start(subject):
        return None
    steps = steps_of(subject)
    work = steps * (batch_of(subject) or count(subject.train)) * _plan.GRADIENT * _plan.forward(subject)
    best = _best(subject, steps, jax.random.key(0)) if work <= WORK else None
    if best is None or best >= steps:
        return None
    quantity = "test error" if subject.classes is not None else "test loss"
    return retraining(subject, f"stop at step {best} of {steps}", finding.name, partial(_until, steps=best), quantity)


def _until(subject, steps):
    return subject.replaced(steps=steps)


def _best(subject, steps: int, key) -> int | None:
    """The step of the least loss on examples that the training does not see."""
    order_key, fit_key, draw_key = jax.random.split(key, 3)
    n = count(subject.train)
    order = np.asarray(jax.random.permutation(order_key, n))
    held, seen = np.split(order, [max(1, int(HELD * n))])
    start = subject.initial_params if subject.initial_params is not None else subject.init(draw_key)
    (x, y), part = (jax.tree.map(lambda a, r=r: a[r], subject.train) for r in (held, seen))
    batch, every = batch_of(subject), max(1, steps // LOOKS)

    def loss(network):
        return subject.loss.of_outputs(jax.vmap(network)(x), y)

    try:
        run = fit(
            subject.at(start),
            subject.loss,
            part,
            optimiser_of(subject),
            steps=steps,
            key=fit_key,
            batch_size=None if batch is None else min(batch, len(seen)),
            measure=loss,
            every=every,
            progress=False,
            trainable=subject.trainable,
        )
    except FloatingPointError:
        return None
    return max(1, min(int(np.argmin(run.record)) * every, steps))
