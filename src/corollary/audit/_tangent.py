"""The tangent kernel of a network before and after training on some of its data, and what follows from the two."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary import kernels
from corollary.audit._sample import jackknife, some
from corollary.network.batches import each

# Kernels cost one backward pass per example and output: with many outputs fewer examples are taken.
OUTPUTS, FEWEST = 32, 16


class Part(NamedTuple):
    """Examples of one split: inputs, targets, the network's outputs, numbers that stand for the targets (or None)."""

    x: jax.Array
    y: jax.Array
    out: jax.Array
    aims: np.ndarray | None


class Measured(NamedTuple):
    """Both kernels on the training examples followed by the test ones; outputs at the start and of the linearisation.

    What belongs to the start is None where the start is not known.
    """

    train: Part
    test: Part | None
    before: np.ndarray | None
    after: np.ndarray
    start: np.ndarray | None
    linear: np.ndarray | None
    losses: tuple[float, float] | None
    numbers: dict  # name: (value, interval)


def measure(subject, budget, key) -> Measured:
    train_key, test_key = jax.random.split(key)
    row = subject.outputs("train")[0].size
    count = max(FEWEST, budget.kernel * OUTPUTS // max(row, OUTPUTS))
    train = _part(subject, "train", count, train_key)
    test = None if subject.test is None else _part(subject, "test", count, test_key)
    x = train.x if test is None else jnp.concatenate([train.x, test.x])

    def kernel(params):
        k = _wide(kernels.empirical_ntk(subject.at(params), x))
        # mirrored entries were computed apart, and differ by rounding
        return (k + k.T) / 2 / row

    after = kernel(subject.params)
    if subject.initial_params is None:
        before = start = linear = losses = None
    else:
        before = kernel(subject.initial_params)
        start, linear = _linearised(subject.at(subject.initial_params), subject.network, x)
        n = train.x.shape[0]
        of_outputs = subject.loss.of_outputs
        losses = float(of_outputs(start[:n], train.y)), float(of_outputs(train.out, train.y))
        start, linear = _wide(start), _wide(linear)
    numbers = _numbers(train, before, after, start, linear, subject.train[0].shape[0])
    return Measured(train, test, before, after, start, linear, losses, numbers)


def _part(subject, split, count, key) -> Part:
    x, y = subject.data(split)
    rows = some(np.arange(x.shape[0]), count, key)
    goals = aims(subject, split)
    return Part(x[rows], y[rows], subject.outputs(split)[rows], None if goals is None else goals[rows])


@eqx.filter_jit
def _linearised(initial, network, x):
    """The outputs at the start, and those of the network linearised there, at the trained parameters."""
    linear = kernels.linearise(initial, network)
    return each(lambda x: (jax.vmap(initial)(x), jax.vmap(linear)(x)), x, 64)


def _numbers(train, before, after, start, linear, total):
    """The statistics with their intervals; those that cannot be had, because something is zero, are NaN."""
    n = train.x.shape[0]
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


def aims(subject, split):
    """What the outputs should be, one row of numbers per example: targets, or labels in one-hot form; None if unknown.

    One output for two classes is to be -1 or 1 where the loss is not squared.
    """
    y, n = subject.data(split)[1], subject.data(split)[0].shape[0]
    row = subject.outputs(split)[0].size
    if jnp.issubdtype(y.dtype, np.floating):
        return _wide(y).reshape(n, -1) if y.size == n * row else None
    if subject.classes is None:
        return None
    labels = np.asarray(subject.labels(split))
    return np.where(labels == 1, 1, -1)[:, None] if row == 1 else np.eye(row)[labels]


def known(found: Measured, *names: str) -> bool:
    """Whether these numbers could be had."""
    return all(np.isfinite(found.numbers[name][0]) for name in names)


def whole(bounds) -> bool:
    """Whether all training examples were seen, so that a number is exact."""
    return bounds[0] == bounds[1]
