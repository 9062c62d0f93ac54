"""What to do about a gap: stop earlier, let the weights decay, or collect more examples, by short trainings."""

from functools import partial

import equinox as eqx
import jax
import numpy as np
import optax

from corollary.audit import _plan
from corollary.audit._budget import BUDGETS
from corollary.audit.action import Action, by_hand
from corollary.audit.finding import short
from corollary.audit.retrain import WORK, batch_of, optimiser_of, steps_of
from corollary.audit.sections import _curve, _stopping
from corollary.audit.sections._again import Again, again, paired
from corollary.audit.sections._treatments import KEY, knows_start, retraining
from corollary.network.batches import count

#: decays that are tried, in units of the loss; beside them the one there is
DECAYS = (1e-4, 1e-3, 1e-2, 1e-1)


def mend(subject, finding) -> Action | None:
    """Of stopping and decay what promises less error on test data; else more examples, where they would help.

    Where held-out training data do not share the loss on the test data, it is these that a person must look at.
    """
    stop = _stopping.stop(subject, finding)
    if stop is not None and stop.apply is by_hand:
        return stop
    found = [action for action in (stop, decay(subject, finding)) if action is not None]
    better = [action for action in found if action.effect.then < action.effect.now]
    if better or not knows_start(subject):
        return min(better, key=lambda action: action.effect.then, default=None)
    curve = _curve.measure(subject, BUDGETS["quick"], _start(subject), jax.random.key(KEY))
    return _curve.collect(subject, curve, finding) or next(iter(found), None)


def decay(subject, finding) -> Action | None:
    """Weights that decay, where held-out training data say that they would have been better."""
    if not knows_start(subject) or subject.test is None:
        return None
    n = count(subject.train)
    work = steps_of(subject) * (batch_of(subject) or n) * _plan.GRADIENT * _plan.forward(subject)
    if (len(DECAYS) + 1) * work > WORK or int(_stopping.HELD * n) < 2:
        return None
    order_key, fit_key = jax.random.split(jax.random.key(KEY))
    held, seen = np.split(np.asarray(jax.random.permutation(order_key, n)), [int(_stopping.HELD * n)])
    away, part = (jax.tree.map(lambda a, r=r: a[r], paired(subject, "train")) for r in (held, seen))
    training = again(subject, _start(subject), len(seen))
    decays = np.array([training.decay, *DECAYS], training.decay.dtype)
    losses = np.asarray(_held(training, decays, part, away, subject.loss.function, fit_key), float)
    gains = losses[0] - losses[1:]
    means = np.where(np.isfinite(gains).all(1), gains.mean(1), -np.inf)
    best = int(means.argmax())
    error = gains[best].std(ddof=1) / np.sqrt(len(held))
    if not means[best] > _stopping.BETTER * error:
        return None
    quantity = "test error" if subject.classes is not None else "test loss"
    what = f"decay the weights by {short(DECAYS[best])}"
    return retraining(subject, what, finding.name, partial(_decayed, decay=DECAYS[best]), quantity)


def _start(subject):
    return subject.initial_params if subject.initial_params is not None else subject.init(jax.random.key(KEY))


def _decayed(subject, decay):
    """The subject with that decay: added to the gradient before its optimiser, where it has one of its own."""
    if subject.optimiser is None:
        return subject.replaced(weight_decay=decay)
    return subject.replaced(optimiser=optax.chain(optax.add_decayed_weights(decay), optimiser_of(subject)))


@eqx.filter_jit
def _held(training: Again, decays, part, away, loss, key):
    """The losses of examples held out after a training with each decay."""

    def run(decay):
        trained = eqx.tree_at(lambda t: t.decay, training, decay)(part, key)
        return jax.vmap(lambda x, y: loss(trained(x), y[0]))(*away)

    return jax.lax.map(run, decays)
