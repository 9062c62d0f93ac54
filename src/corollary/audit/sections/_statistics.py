"""Stored batch statistics against those of the training data: do both modes of the network agree?"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit import _checks, _plan
from corollary.audit._sample import interval, some
from corollary.audit.action import Action, Effect
from corollary.audit.finding import Finding, Premise, short
from corollary.network import Network

NAME = "stored batch statistics"
# Of what the outputs vary by. A tenth changes a hundredth of their variance; half of it is a network of its own.
LOOK, PROBLEM = 0.1, 0.5
# examples of a batch: the more, the nearer its statistics are to those of all data
BATCH = 256
# names of stored statistics in the libraries that are read here
STORED = ("running_var", "running_mean", "moving_variance", "moving_mean", "batch_stats")


def finding(subject, budget, key) -> Finding | None:
    """The finding on networks with stored statistics; None for all others."""
    network = subject.network
    if not isinstance(network, Network):
        return None
    if network.recomputed is None:
        return _not_told() if _named(network) else None
    found = measure(subject, budget, key)
    return Finding(NAME, "not applicable", found) if isinstance(found, str) else judge(found, subject.count())


class Statistics(NamedTuple):
    """How far the outputs of both modes are apart, relative to their spread; by batches of `size` of n examples."""

    value: float
    interval: tuple[float, float]
    size: int
    n: int


def measure(subject, budget, key) -> Statistics | str:
    """The distance between the modes, or a sentence on why it could not be measured."""
    network = subject.network
    data = some(subject.train, _plan.examples_for(subject, budget, 4), key)
    n, total = _plan.looked_at(subject, data)
    size = min(n // 2, BATCH, _plan.batch_of(subject, budget, n))
    if size < 2:
        return "Batch statistics need at least four examples that fit into memory."
    # two ways of dealing the examples into batches: what they differ by is chance
    rows = np.stack([np.asarray(jax.random.permutation(k, n)[: n // size * size]) for k in jax.random.split(key)])
    first, second = (_in_batches(network, data[0], r, size, n) for r in rows)
    seen = np.isfinite(first).all(1) & np.isfinite(second).all(1)
    stored = np.asarray(_outputs(subject, data[0]), float).reshape(n, -1)
    first, second, stored = first[seen], second[seen], stored[seen]
    spread = float(np.sqrt(((first - first.mean(0)) ** 2).sum(1).mean())) if len(first) else 0.0
    if spread == 0:
        return "By the statistics of its batch the network gives one output for all."
    # the expectation of the squared distance is that of the means, and the chance of one way of dealing
    squares = ((first - stored) ** 2).sum(1) - ((first - second) ** 2).sum(1) / 2
    value, (low, high) = squares.mean(), interval(squares, total)
    value, low, high = (float(np.sqrt(max(v, 0.0)) / spread) for v in (value, low, high))
    return Statistics(value, (low, high), size, n)


def judge(found: Statistics, total: int) -> Finding:
    value, (low, _), size, n = found
    # an example is a part of its own batch, and moves its statistics by 1/size
    mark = "problem" if low > PROBLEM else "look" if low > LOOK + 2 / size else "fine"
    text = (
        "The stored statistics are those of these data."
        if mark == "fine"
        else "The stored statistics are stale: they are not those of these data under the trained weights. Run the "
        "training data through the network in training mode, without a step, before it is used."
    )
    return Finding(
        NAME,
        mark,
        f"{text} In training mode, by the statistics of batches of {size}, the outputs differ from those in inference "
        f"mode by {short(100 * value)} % of what they vary by.",
        value,
        found.interval,
        theorem="Normalised by the statistics of its batch every feature has mean 0 and variance v/(v+δ), whatever the "
        "weights before it; by other statistics it has not.",
        claim="nets.normalisation.batch_and_layer.batch_normalisation",
        premises=(
            Premise("measured on all training data", n == total, f"{n:,} of {total:,} examples"),
            Premise("batches as large as the data", size == total, f"batches of {size}, whose chance is taken out"),
        ),
        headline="The stored batch statistics are stale",
    )


def recompute(subject, finding) -> Action:
    """The statistics of the training data in place of the stored ones."""
    now, treated = subject.mean_loss(), recomputed(subject)
    then = treated.mean_loss()
    # what another draw of the examples would give is not known better than by the spread over examples
    losses = np.asarray(jax.vmap(treated.loss.function)(treated.outputs("train"), treated.train[1]), float)
    low, high = interval(losses)
    effect = Effect("training loss", now, then, (min(low, then), max(high, then)))
    n = min(BATCH, subject.count())
    apply = lambda subject, *, key: recomputed(subject)  # noqa: E731
    return Action(f"recompute the batch statistics on {n:,} training examples", NAME, effect, "short run", apply, 0.1)


def recomputed(subject):
    """The subject with the statistics of a batch of its training data.

    Importers tell how a batch runs by its own statistics, not what these are: every example is run beside the batch,
    whose statistics it moves by one part in its size.
    """
    network = subject.network
    batch = jax.tree.map(lambda a: a[:BATCH], subject.train[0])

    def beside(params, buffers, x):
        buffers, batch = buffers
        together = jax.tree.map(lambda some, one: jnp.concatenate([some, one[None]]), batch, x)
        return network.recomputed(params, buffers, together)[-1]

    def again(params, buffers, x):
        return network.recomputed(params, buffers[0], x)

    made = Network(beside, network.params, (network.buffers, batch), recomputed=again)
    return subject.with_network(made)


def _in_batches(network, x, rows, size: int, n: int):
    """The outputs, by the statistics of each batch, in the order of the examples; not a number for those left out."""
    out = None
    for batch in rows.reshape(-1, size):
        found = np.asarray(_recomputed(network, jax.tree.map(lambda a, b=batch: a[b], x)), float).reshape(size, -1)
        out = np.full((n, found.shape[1]), np.nan) if out is None else out
        out[batch] = found
    return out


def _outputs(subject, x):
    """The outputs in inference mode, a batch at a time."""
    return _checks.outputs(subject.apply, subject.params, x, subject.cost)


@eqx.filter_jit
def _recomputed(network, x):
    return network.recomputed(network.params, network.buffers, x)


def stored(network) -> bool:
    """Whether the network normalises by stored batch statistics, as far as can be told."""
    return isinstance(network, Network) and (network.recomputed is not None or _named(network))


def _named(network) -> bool:
    paths = jax.tree_util.tree_leaves_with_path(network.buffers)
    return any(name in jax.tree_util.keystr(path) for path, _ in paths for name in STORED)


def _not_told() -> Finding:
    return Finding(
        NAME,
        "not applicable",
        "The network stores batch statistics and does not say how it runs with those of a batch: see `recomputed` of "
        "corollary.Network.",
    )
