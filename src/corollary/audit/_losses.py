"""What labels and targets must be for the losses that have a name.

`"cross_entropy"` takes class labels, `"squared"` numbers, `"hinge"` and `"logistic"` labels of -1 and 1. Targets are
brought into one form here: whole labels of shape `(n,)` for the first, floating-point numbers of the shape of the
outputs for the others.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from corollary._validate import labels, real
from corollary.audit._errors import SubjectError


class Targets(NamedTuple):
    """Targets in the form that the loss takes, and what they say about classes.

    `classes` is None for a regression. `threshold` is where one output turns from class 0 to class 1.
    """

    y: Any
    classes: int | None = None
    threshold: float = 0.0


def targets(name: str, kind: str, y, shape: tuple, dtype) -> Targets:
    """The targets `name` for outputs of `shape` under the loss `kind`; one sentence if they do not fit."""
    y = np.asarray(y)
    if y.ndim == 0 or y.shape[0] != shape[0]:
        raise SubjectError(f"{name} must have one entry for each of the {shape[0]} examples, got shape {y.shape}.")
    if kind == "cross_entropy":
        return _classes(name, y, shape)
    if kind == "squared":
        return _numbers(name, y, shape, dtype)
    if kind in ("hinge", "logistic"):
        return _signs(name, y, shape, dtype)
    if _whole(y):
        y = jnp.asarray(y)
        known = y.ndim == 1 and len(shape) == 2 and shape[1] > 1 and 0 <= int(y.min()) <= int(y.max()) < shape[1]
        return Targets(y, shape[1] if known else None)
    return Targets(real(name, y).astype(dtype))


def label(y, targets: Targets):
    """The class of each target, for targets that are classes in any form."""
    if y.size > y.shape[0]:
        return jnp.argmax(y, axis=1)
    y = y.reshape(-1)
    return y if jnp.issubdtype(y.dtype, np.integer) else (y > targets.threshold).astype(int)


def decide(outputs, targets: Targets):
    """The class that outputs vote for."""
    if outputs.size > outputs.shape[0]:
        return jnp.argmax(outputs, axis=1)
    return (outputs.reshape(-1) > targets.threshold).astype(int)


def _classes(name, y, shape) -> Targets:
    if len(shape) > 2:
        raise SubjectError(f"cross_entropy needs outputs of shape (n, classes) or (n,), got {shape}.")
    classes = 2 if len(shape) == 1 or shape[1] == 1 else shape[1]
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim == 2 and y.shape[1] == classes and _one_hot(y):
        y = y.argmax(axis=1)
    if y.ndim == 2:
        raise SubjectError(f"{name} must hold class labels of shape (n,) or be one-hot, got shape {y.shape}.")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        real(name, y)  # the sentence for what is not finite
    return Targets(labels(name, y, classes), classes)


def _numbers(name, y, shape, dtype) -> Targets:
    if len(shape) == 2 and shape[1] > 1 and y.size == y.shape[0] and _whole(y):
        raise SubjectError(
            f"the squared loss is a regression loss and {name} holds class labels for {shape[1]} outputs: "
            "use cross_entropy, or give the labels one-hot."
        )
    out = real(name, y)
    if y.size != np.prod(shape) or (y.ndim > 1 and len(shape) > 1 and y.shape != shape):
        raise SubjectError(f"{name} must have the shape of the outputs, {shape}, got {y.shape}.")
    several = len(shape) == 2 and shape[1] > 1
    out = out.reshape(shape).astype(dtype)
    if several:
        return Targets(out, shape[1] if _one_hot(y) else None)
    values = np.unique(y)
    if len(shape) <= 2 and (np.array_equal(values, [0, 1]) or np.array_equal(values, [-1, 1])):
        return Targets(out, 2, float(values.mean()))
    return Targets(out)


def _signs(name, y, shape, dtype) -> Targets:
    if not np.isin(y, (-1, 1)).all():
        raise SubjectError(f"{name} must hold the labels -1 and 1, got {y[~np.isin(y, (-1, 1))].flat[0]!s}.")
    if y.size != np.prod(shape):
        raise SubjectError(f"{name} must hold one label for the one output of an example, {shape}, got {y.shape}.")
    return Targets(jnp.asarray(y, dtype).reshape(shape), 2)


def _whole(y) -> bool:
    """Integers in an integer type; whole numbers in a floating-point one may be measurements."""
    return y.dtype.kind in "iub"


def _one_hot(y) -> bool:
    return bool(((y == 0) | (y == 1)).all() and (y.sum(axis=1) == 1).all())
