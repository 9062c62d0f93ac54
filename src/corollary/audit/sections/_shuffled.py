"""Are the labels learned faster than shuffled ones? The same steps from the same start, with both."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy import stats

from corollary.audit import _plan
from corollary.audit._sample import some
from corollary.audit.action import QUANTITIES, Action, Effect, by_hand
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections import _neighbourly
from corollary.nets import train
from corollary.network.batches import count
from corollary.network.losses import IGNORED

NAME = "labels against shuffled ones"
#: what is wrong where near examples bear the labels out
NOT_FOUND = "The network does not learn what near examples show"
FACTS = dict(
    theorem="A network that fits random labels has a Rademacher complexity near 1 on its inputs, and no bound by the "
    "complexity of its class alone is below 1; what makes the error small is then in the labels.",
    claim="generalization.experiments_random_labels.random_labels",
)
# shuffled runs; Student's t with so many says what chance does to the mean loss of one more
SHUFFLES, CHANCE = 7, 1e-3
STEP, STEPS, FEWEST_STEPS, EXAMPLES, BATCH = 3e-3, 300, 100, 512, 128
# a tenth of the work of a section: beside its other parts
SHARE = 0.1


def finding(subject, budget, start, fitted: bool, key, predicted: bool = False) -> Finding:
    """Losses of short trainings on the labels and on shuffles of them; `fitted` says that training learned the labels.

    `predicted` says that the network tells the labels of test data better than a blind guess does: then there is
    something in the inputs, whether short trainings show it or not. `start` is the point that training starts from,
    None if it is not known.
    """
    if start is None:
        why = "Neither initial nor init was given, so that training cannot start again: give one of them."
        return Finding(NAME, "not applicable", why, **FACTS)
    sample_key, order_key, train_key = jax.random.split(key, 3)
    rows = some(np.arange(count(subject.train)), EXAMPLES, sample_key)
    n, batch = len(rows), min(BATCH, len(rows))
    work = (SHUFFLES + 1) * batch * _plan.GRADIENT * _plan.forward(subject)
    steps = int(min(STEPS, SHARE * budget.work / work))
    if steps < FEWEST_STEPS or _plan.vectors(subject, budget) < 16:
        why = "This was left out: eight short trainings of this network take too long. --budget full measures it."
        return Finding(NAME, "not applicable", why, **FACTS)
    data = jax.tree.map(lambda a: a[rows], subject.train)
    keys = jax.random.split(order_key, SHUFFLES)
    orders = np.stack([np.arange(n), *(np.asarray(jax.random.permutation(k, n)) for k in keys)])
    vote = None if subject.classes is None else (subject.class_axis, subject.threshold)
    given = subject.at(start), subject.loss, data, orders, train_key
    losses, votes = _runs(*given, steps, batch, subject.trainable, vote)
    losses = np.asarray(losses, float)
    if not np.isfinite(losses).all():
        why = f"Training with Adam and a step of {STEP} does not stay finite, so that it says nothing here."
        return Finding(NAME, "not applicable", why, **FACTS)
    fits = None if vote is None else _fits(np.asarray(subject.labels("train"))[rows], orders, np.asarray(votes))
    return judge(subject, losses, fits, fitted, steps, n, predicted, partial(_by_neighbours, subject, rows))


def _by_neighbours(subject, rows) -> bool:
    """Whether near examples have alike labels, beyond chance; False where that cannot be told."""
    if subject.classes is not None:
        y = np.asarray(subject.labels("train"))
    else:
        y = np.asarray(subject.targets("train"), float) if isinstance(subject.targets("train"), jax.Array) else None
        y = None if y is None else y.reshape(len(y), -1)
    if y is None or (subject.classes is not None and y.ndim > 1):
        return False
    found = _neighbourly.chance(jax.tree.map(lambda a: a[rows], subject.train[0]), y[rows])
    return found is not None and found <= CHANCE


def judge(subject, losses, fits, fitted, steps, n, predicted: bool = False, by_neighbours=lambda: False) -> Finding:
    """`by_neighbours()` says whether near examples have alike labels, and is asked where it matters."""
    given, others = losses[0], losses[1:]
    spread = others.std(ddof=1) * np.sqrt(1 + 1 / len(others))
    ahead = others.mean() - given
    reach = stats.t.ppf(0.975, len(others) - 1) * spread
    faster = ahead > stats.t.isf(CHANCE, len(others) - 1) * spread
    headline = "The labels look random"
    text = f"In {steps} steps on {n} examples "
    if fits is not None:
        text += f"it fits {short(100 * fits[0])} % of the labels and {short(100 * fits[1])} % of shuffled ones, and "
    text += f"its mean loss on the way is {short(given)} with them and {short(others.mean())} with shuffled ones."
    if faster:
        mark, end = "fine", "The inputs say something about the labels."
    elif predicted:
        mark, end = (
            "fine",
            "The labels are learned no faster than random ones, but on test data the inputs say something about them.",
        )
    elif by_neighbours():
        mark, headline = "look", NOT_FOUND
        end = (
            "The labels are learned no faster than random ones, though near examples have alike labels: the inputs say "
            "something about them that this network, from its start, does not find."
        )
    else:
        mark = "problem" if fitted else "look"
        end = "The labels are learned no faster than random ones: nothing in these inputs predicts them"
        end += "." if fitted else ", or nothing can be learned from this start."
    return Finding(
        NAME,
        mark,
        f"{end} {text}",
        float(ahead),
        (float(ahead - reach), float(ahead + reach)),
        unit="in the mean loss",
        premises=(
            Premise("trained as the network was", None, f"Adam, step {STEP}, batches of at most {BATCH}"),
            Premise("measured on all training data", n == subject.count(), f"{n:,} of {subject.count():,} examples"),
        ),
        headline=headline,
        **FACTS,
    )


def _fits(labels, orders, votes):
    """The shares of the labels, given and shuffled, that the ends of the runs get right."""
    mixed = labels[orders]
    right = [np.mean((v.reshape(m.shape) == m)[m != IGNORED]) for v, m in zip(votes, mixed, strict=True)]
    return right[0], float(np.mean(right[1:]))


@eqx.filter_jit
def _runs(network, loss, data, orders, key, steps, batch, trainable, vote):
    """For every order of the targets the mean loss along a training, and the classes at its end: `vote` decides."""
    x, y = data
    optimiser = optax.adam(STEP)

    def run(order):
        mixed = jax.tree.map(lambda a: a[order], y)
        given = dict(steps=steps, key=key, batch_size=batch, trainable=trainable)
        trained = train(network, loss, (x, mixed), optimiser, **given)
        if vote is None:
            return trained.losses.mean(), None
        axis, threshold = vote
        out = jax.vmap(trained.network)(x)
        return trained.losses.mean(), out > threshold if axis is None else jnp.argmax(out, axis)

    return jax.lax.map(run, orders)


def look_at_labels(subject, finding) -> Action:
    """A person must find out where the labels come from, or change the network; what that would do is not known."""
    quantity = "training error" if subject.test is None else "test error"
    now = QUANTITIES[quantity](subject)
    effect = Effect(quantity, now, now, (0.0, now))
    there = finding is not None and finding.headline == NOT_FOUND
    what = "give the network more units, or another architecture" if there else "find out where the labels come from"
    return Action(what, NAME, effect, "theorem", by_hand)
