"""The tangent kernel of a network before and after training on some of its data, and what follows from the two."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary import kernels
from corollary.audit import _plan
from corollary.audit._sample import jackknife, some
from corollary.network.batches import count, each
from corollary.network.losses import IGNORED


class Part(NamedTuple):
    """Examples of one split: inputs, targets, the network's outputs, numbers that stand for the targets (or None).

    `labels` are the classes of examples or places, None for a regression.
    """

    x: Any
    y: Any
    out: jax.Array
    aims: np.ndarray | None
    labels: np.ndarray | None


class Chosen(eqx.Module):
    """Some of the outputs of a network."""

    network: Any
    at: Any

    def __call__(self, x):
        return self.network(x).reshape(-1)[self.at]


class Measured(NamedTuple):
    """Both kernels on the training examples followed by the test ones; outputs at the start and of the linearisation.

    What belongs to the start is None where the start is not known. `chosen` are the outputs of the kernels, None for
    all of them; where it is not None there are no numbers that stand for the targets.
    """

    train: Part
    test: Part | None
    before: np.ndarray | None
    after: np.ndarray
    start: np.ndarray | None
    linear: np.ndarray | None
    losses: tuple[float, float] | None
    numbers: dict  # name: (value, interval)
    chosen: np.ndarray | None = None

    @property
    def looked_at(self) -> str:
        """What the kernels were taken of, for a premise."""
        row = int(np.prod(self.train.out.shape[1:]))
        return f"{row if self.chosen is None else len(self.chosen)} of {row} outputs"


def chosen_outputs(network, at, trainable):
    """The network with the outputs `at`, all if None, and which of its arrays are parameters."""
    if at is None:
        return network, trainable
    whole = trainable is None or callable(trainable)
    return Chosen(network, jnp.asarray(at)), trainable if whole else Chosen(trainable, False)


def measure(subject, budget, key) -> Measured:
    train_key, test_key = jax.random.split(key)
    examples, at = _plan.kernel(subject, budget, key)
    train = part_of(subject, "train", examples, train_key, at)
    test = None if subject.test is None else part_of(subject, "test", examples, test_key, at)
    x = train.x if test is None else jax.tree.map(lambda *a: jnp.concatenate(a), train.x, test.x)
    after = kernel_of(subject, subject.params, x, at)
    if subject.initial_params is None:
        before = start = linear = losses = None
    else:
        before = kernel_of(subject, subject.initial_params, x, at)
        batch = _plan.batch_of(subject, budget, 64)
        at_start = subject.at(subject.initial_params)
        start, linear = _linearised(at_start, subject.network, x, batch, subject.trainable)
        n = count(train.x)
        of_outputs = subject.loss.of_outputs
        losses = float(of_outputs(start[:n], train.y)), float(of_outputs(train.out, train.y))
        start, linear = _wide(start), _wide(linear)
    numbers = _numbers(train, before, after, start, linear, subject.count())
    return Measured(train, test, before, after, start, linear, losses, numbers, at)


def kernel_of(subject, params, x, at=None) -> np.ndarray:
    """The tangent kernel at `params` between the examples `x`, its mean over the outputs (over those `at`)."""
    row = len(at) if at is not None else max(1, int(np.prod(subject.outputs("train").shape[1:])))
    network, trainable = chosen_outputs(subject.at(params), at, subject.trainable)
    k = _wide(kernels.empirical_ntk(network, x, trainable=trainable))
    # mirrored entries were computed apart, and differ by rounding
    return (k + k.T) / 2 / row


def part_of(subject, split, examples, key, at=None) -> Part:
    """At most so many examples of a split."""
    x, y = subject.data(split)
    rows = some(np.arange(count(x)), examples, key)
    x, y = jax.tree.map(lambda a: a[rows], (x, y))
    labels = None if subject.classes is None else np.asarray(subject.labels(split))[rows]
    goals = None if at is not None else aims(subject, split, rows)
    return Part(x, y, subject.outputs(split)[rows], goals, labels)


@eqx.filter_jit
def _linearised(initial, network, x, batch, trainable):
    """The outputs at the start, and those of the network linearised there, at the trained parameters."""
    linear = kernels.linearise(initial, network, trainable=trainable)
    return each(lambda x: (jax.vmap(initial)(x), jax.vmap(linear)(x)), x, batch)


def _numbers(train, before, after, start, linear, total):
    """The statistics with their intervals; those that cannot be had, because something is zero, are NaN."""
    n = count(train.x)
    out = _wide(train.out).reshape(n, -1)
    aims = None if train.aims is None else jnp.asarray(train.aims, after.dtype)
    pair = {"after": jnp.asarray(after[:n, :n])}
    by_row = {"out": jnp.asarray(out), "aims": aims}
    if before is not None:
        pair["before"] = jnp.asarray(before[:n, :n])
        by_row |= {"start": jnp.asarray(start[:n].reshape(n, -1)), "linear": jnp.asarray(linear[:n].reshape(n, -1))}
    return jackknife(_statistics, pair, by_row, total)


def _wide(a):
    """As NumPy in single precision at least."""
    return np.asarray(a, jnp.promote_types(a.dtype, np.float32))


def _statistics(pair, by_row):
    after, aims = pair["after"], by_row["aims"]
    # nothing is negative but by rounding
    out = {"varies": jnp.maximum(jnp.trace(kernels.centred_kernel(after)) / jnp.trace(after), 0)}
    if aims is not None:
        out["labels after"] = kernels.label_alignment(after, aims)
        out["labels by chance"] = kernels.chance_alignment(after, aims)
    if "before" in pair:
        before, f = pair["before"], by_row["out"]
        out["drift"], out["cosine"] = kernels.kernel_drift(before, after), kernels.kernel_alignment(before, after)
        centred = kernels.centred_kernel(before), kernels.centred_kernel(after)
        out["centred cosine"] = kernels.kernel_alignment(*centred)
        unexplained, change = f - by_row["linear"], f - by_row["start"]
        out["linearisation"] = jnp.linalg.norm(unexplained) / jnp.linalg.norm(change)
        if aims is not None:
            out["labels before"] = kernels.label_alignment(before, aims)
            out["labels gained"] = out["labels after"] - out["labels before"]
    return out


def aims(subject, split, rows=slice(None)):
    """What the outputs should be, one row of numbers per example: targets, or labels in one-hot form; None if unknown.

    A yes or no is to be 1 or -1 where the loss is not squared; the outputs of a place without a class 0.
    """
    y, row = subject.targets(split), int(np.prod(subject.outputs(split).shape[1:]))
    if not isinstance(y, jax.Array):
        return None
    y = np.asarray(y[rows])
    whole = not jnp.issubdtype(y.dtype, np.floating)
    if not whole and subject.loss_name != "binary_cross_entropy":
        return _wide(y).reshape(len(y), -1) if y.size == len(y) * row else None
    if subject.classes is None:
        return None
    labels = np.asarray(subject.labels(split))[rows]
    if subject.class_axis is None:
        return np.where(labels == 1, 1, -1).reshape(len(labels), -1)
    known = labels != IGNORED
    one_hot = np.eye(subject.classes, dtype=np.float32)[np.where(known, labels, 0)] * known[..., None]
    return np.moveaxis(one_hot, -1, subject.class_axis).reshape(len(labels), -1)


def known(found: Measured, *names: str) -> bool:
    """Whether these numbers could be had."""
    return all(np.isfinite(found.numbers[name][0]) for name in names)


def whole(bounds) -> bool:
    """Whether all training examples were seen, so that a number is exact."""
    return bounds[0] == bounds[1]
