"""When should training have stopped? A training on four fifths of the data, watched on the last fifth."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from scipy import stats

from corollary.audit import _plan
from corollary.audit._data import count
from corollary.audit._sample import some, welch
from corollary.audit.action import Action, Effect, by_hand
from corollary.audit.finding import short
from corollary.audit.retrain import WORK, batch_of, optimiser_of, steps_of
from corollary.audit.sections._treatments import knows_start, retraining
from corollary.nets import fit

# looks along the training, and the share of the data that is only looked at
LOOKS, HELD = 20, 0.2
#: standard errors by which the best look must be better than the last, which is chosen among twenty
BETTER = 2.0
#: how likely losses on test data that are as much larger would be, were both drawn alike
CHANCE = 1e-4
# test examples that are looked at
MOST = 4096


class Watched(NamedTuple):
    """The losses of held-out training examples at every look, of test examples at the last, the steps of the looks."""

    held: np.ndarray
    test: np.ndarray | None
    steps: np.ndarray


def stop(subject, finding) -> Action | None:
    """Fewer steps, where held-out data say that they would have been better by then.

    Where held-out training data do not share the loss on the test data, it is these that a person must look at.
    """
    if not knows_start(subject):
        return None
    steps = steps_of(subject)
    work = steps * (batch_of(subject) or count(subject.train)) * _plan.GRADIENT * _plan.forward(subject)
    watched = _watched(subject, steps, jax.random.key(0)) if work <= WORK else None
    if watched is None:
        return None
    if watched.test is not None and _worse(watched.test, watched.held[-1]):
        return _other_data(subject, watched, finding)
    best = _best(watched)
    if best is None or best >= steps:
        return None
    quantity = "test error" if subject.classes is not None else "test loss"
    return retraining(subject, f"stop at step {best} of {steps}", finding.name, partial(_until, steps=best), quantity)


def _until(subject, steps):
    return subject.replaced(steps=steps)


def _worse(test, held) -> bool:
    """Whether test losses are larger than held-out ones, beyond what chance makes of draws from one law (Welch)."""
    return welch(test, held, "greater") < CHANCE


def _other_data(subject, watched: Watched, finding) -> Action:
    held, test = watched.held[-1], watched.test
    then = float(held.mean())
    reach = float(stats.t.ppf(0.975, len(held) - 1) * held.std(ddof=1) / np.sqrt(len(held)))
    effect = Effect("test loss", subject.mean_loss("test"), then, (then - reach, then + reach))
    what = "find out how the test data or their labels differ from the training data: held-out training examples have "
    what += f"a loss of {short(then)}, test examples of {short(float(test.mean()))}"
    return Action(what, finding.name, effect, "short run", by_hand)


def _best(watched: Watched) -> int | None:
    """The step of the least loss on held-out examples, None where the last is as good as these can tell."""
    means = watched.held.mean(1)
    first = int(np.argmin(means))
    gain = watched.held[-1] - watched.held[first]
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    return max(1, int(watched.steps[first])) if gain.mean() > BETTER * error else None


def _watched(subject, steps: int, key) -> Watched | None:
    """A training that does not see the held-out examples; None if it diverges or there are too few of them."""
    order_key, fit_key, draw_key, test_key = jax.random.split(key, 4)
    n = count(subject.train)
    order = np.asarray(jax.random.permutation(order_key, n))
    held, seen = np.split(order, [max(1, int(HELD * n))])
    if len(held) < 2:
        return None
    start = subject.initial_params if subject.initial_params is not None else subject.init(draw_key)
    away, part = (jax.tree.map(lambda a, r=r: a[r], subject.train) for r in (held, seen))
    batch, every = batch_of(subject), max(1, steps // LOOKS)

    def losses(network, data):
        return jax.vmap(subject.loss.function)(jax.vmap(network)(data[0]), data[1])

    try:
        run = fit(
            subject.at(start),
            subject.loss,
            part,
            optimiser_of(subject),
            steps=steps,
            key=fit_key,
            batch_size=None if batch is None else min(batch, len(seen)),
            measure=lambda network: losses(network, away),
            every=every,
            progress=False,
            trainable=subject.trainable,
        )
    except FloatingPointError:
        return None
    test = None
    if subject.test is not None:
        test = np.asarray(eqx.filter_jit(losses)(run.network, some(subject.test, MOST, test_key)), float)
    record = np.asarray(run.record, float)
    return Watched(record, test, np.minimum(np.arange(len(record)) * every, steps))
