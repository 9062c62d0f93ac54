"""What labels and targets must be for the losses that have a name, and what they say about classes.

Targets are brought into one form here: whole labels for `"cross_entropy"`, one per example or one per place, numbers of
the shape of the outputs for the others. Under a loss of one's own they may be any pytree of arrays.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary._validate import labels, real, within
from corollary.audit._errors import SubjectError
from corollary.network.batches import examples
from corollary.network.losses import IGNORED, same_places

#: Losses of differences, whose targets are numbers.
DIFFERENCES = ("squared", "absolute", "huber")
#: Losses of one output and a label -1 or 1.
SIGNS = ("logistic", "hinge")


class Targets(NamedTuple):
    """Targets in the form that the loss takes, and what they say about classes.

    `classes` is None for a regression. `axis` is that of the classes in a batch of outputs; None if every output is a
    yes or no of its own, yes above `threshold`. `counted` is how many places of each example have a class, where some
    have none. `note` is a sentence about what was taken for what.
    """

    y: Any
    classes: int | None = None
    threshold: float = 0.0
    axis: int | None = None
    counted: np.ndarray | None = None
    note: str | None = None


def targets(name: str, kind: str, y, shape: tuple, dtype) -> Targets:
    """The targets `name` for outputs of `shape` under the loss `kind`; one sentence if they do not fit."""
    if isinstance(y, dict | tuple) or (isinstance(y, list) and any(np.ndim(a) for a in y) and len(y) != shape[0]):
        return _tree(name, kind, y, shape)
    y = np.asarray(y)
    if y.dtype.kind not in "fiub" and not jnp.issubdtype(y.dtype, np.floating):
        raise SubjectError(f"{name} must be an array of numbers, got dtype {y.dtype}: number the classes from 0.")
    if y.ndim == 0 or y.shape[0] != shape[0]:
        raise SubjectError(f"{name} must have one entry for each of the {shape[0]} examples, got shape {y.shape}.")
    if kind == "cross_entropy":
        return _classes(name, y, shape) if len(shape) <= 2 else _places(name, y, shape)
    if kind == "binary_cross_entropy":
        return _answers(name, y, shape, dtype)
    if kind in DIFFERENCES:
        return _numbers(name, kind, y, shape, dtype)
    if kind in SIGNS:
        return _signs(name, kind, y, shape, dtype)
    if _whole(y):
        y = jnp.asarray(y)
        known = y.ndim == 1 and len(shape) == 2 and shape[1] > 1 and 0 <= int(y.min()) <= int(y.max()) < shape[1]
        return Targets(y, shape[1], axis=1) if known else Targets(y)
    return Targets(real(name, y).astype(dtype))


def label(y, targets: Targets):
    """The class of each target, for targets that are classes in any form: of every example, or of every place."""
    y = jnp.asarray(y)
    if targets.axis is not None:
        return y if jnp.issubdtype(y.dtype, np.integer) else jnp.argmax(y, axis=targets.axis)
    y = y.reshape(-1) if y.size == y.shape[0] else y
    return y if jnp.issubdtype(y.dtype, np.integer) else (y > targets.threshold).astype(int)


def decide(outputs, targets: Targets):
    """The classes that outputs vote for: of every example, or of every place."""
    outputs = jnp.asarray(outputs)
    if targets.axis is not None:
        return jnp.argmax(outputs, axis=targets.axis)
    outputs = outputs.reshape(-1) if outputs.size == outputs.shape[0] else outputs
    return (outputs > targets.threshold).astype(int)


def _tree(name, kind, y, shape) -> Targets:
    if kind != "custom":
        raise SubjectError(
            f"{name} must be one array under the loss {kind!r}: targets of several arrays need a loss of your own."
        )
    y = examples(name, y)
    n = jax.tree.leaves(y)[0].shape[0]
    if n != shape[0]:
        raise SubjectError(f"{name} must have one entry for each of the {shape[0]} examples, got {n}.")
    return Targets(y)


def _classes(name, y, shape) -> Targets:
    single = len(shape) == 1 or shape[1] == 1
    classes = 2 if single else shape[1]
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim == 2 and y.shape[1] == classes and _one_hot(y):
        y = y.argmax(axis=1)
    if y.ndim == 2:
        text = f"{name} must hold class labels of shape (n,) or be one-hot, got shape {y.shape}"
        several = y.shape == tuple(shape) and ((y == 0) | (y == 1)).all()
        raise SubjectError(text + (": several labels at once are for binary_cross_entropy." if several else "."))
    if y.ndim > 2:
        raise SubjectError(f"{name} must hold class labels of shape (n,) or be one-hot, got shape {y.shape}.")
    return Targets(_labels(name, y, classes), classes, axis=None if single else 1)


def _places(name, y, shape) -> Targets:
    """A class for each place: a token, or a pixel; the axis of the classes is the last one, or the first."""
    last, first = y.shape == shape[:-1], y.shape[1:] == shape[2:]
    if not (last or first):
        raise SubjectError(
            f"{name} must hold a class for each place, {shape[:-1]} for outputs of shape {shape} (or "
            f"{(shape[0], *shape[2:])} with the classes first), got {y.shape}."
        )
    axis = len(shape) - 1 if last else 1
    known = y != IGNORED
    found = _labels(name, np.where(known, y, 0), shape[axis])
    counted = known.reshape(len(y), -1).sum(axis=1)
    if not counted.any():
        raise SubjectError(f"{name} must hold a class for at least one place, but all of them are {IGNORED}.")
    note = f"the last axis of the outputs, of shape {shape[1:]}, was taken for the classes." if last and first else None
    y = jnp.where(jnp.asarray(known), found, IGNORED)
    return Targets(y, shape[axis], axis=axis, counted=None if known.all() else counted, note=note)


def _answers(name, y, shape, dtype) -> Targets:
    if not same_places(y.shape[1:], shape[1:]):
        raise SubjectError(f"{name} must have the shape of the outputs, {shape}, got {y.shape}.")
    values = within(name, real(name, y), 0, 1)
    sure = bool(((y == 0) | (y == 1)).all())
    return Targets(values.reshape(shape).astype(dtype), 2 if sure else None)


def _signs(name, kind, y, shape, dtype) -> Targets:
    if y.size != y.shape[0] or np.prod(shape[1:]) != 1:
        raise SubjectError(f"{kind} takes one output and one label, got outputs {shape} and {name} of shape {y.shape}.")
    other = y[~np.isin(y, (-1, 1))]
    if other.size:
        raise SubjectError(f"{name} must hold the labels -1 and 1, got {other.flat[0]!s}.")
    return Targets(jnp.asarray(y, dtype).reshape(shape), 2)


def _numbers(name, kind, y, shape, dtype) -> Targets:
    if len(shape) == 2 and shape[1] > 1 and y.size == y.shape[0] and _whole(y):
        raise SubjectError(
            f"the {kind} loss is a regression loss and {name} holds class labels for {shape[1]} outputs: "
            "use cross_entropy, or give the labels one-hot."
        )
    out = real(name, y)
    if y.size != np.prod(shape) or (y.ndim > 1 and len(shape) > 1 and y.shape != shape):
        raise SubjectError(f"{name} must have the shape of the outputs, {shape}, got {y.shape}.")
    several = len(shape) == 2 and shape[1] > 1
    out = out.reshape(shape).astype(dtype)
    if several:
        return Targets(out, shape[1], axis=1) if _one_hot(y) else Targets(out)
    values = np.unique(y)
    if len(shape) <= 2 and (np.array_equal(values, [0, 1]) or np.array_equal(values, [-1, 1])):
        return Targets(out, 2, float(values.mean()))
    return Targets(out)


def _labels(name, y, classes):
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        real(name, y)  # the sentence for what is not finite
    return labels(name, y, classes, None)


def _whole(y) -> bool:
    """Integers in an integer type; whole numbers in a floating-point one may be measurements."""
    return y.dtype.kind in "iub"


def _one_hot(y) -> bool:
    return bool(((y == 0) | (y == 1)).all() and (y.sum(axis=1) == 1).all())
