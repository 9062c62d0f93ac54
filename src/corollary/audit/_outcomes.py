"""How every example fared, so that another network can be compared on the very same ones, today or from a file."""

from __future__ import annotations

import base64
import binascii
from hashlib import sha256
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit._errors import SubjectError
from corollary.network.losses import IGNORED

#: Classes of places are kept for as many of them as this.
MOST = 2**20
DTYPES = ("<f4", "<i4")


class Outcomes(NamedTuple):
    """Of each example of a split its loss, the share of it that is wrong, its Brier score, and the classes given to it.

    The last three are None where they are not defined. `digest` is that of the examples, inputs and targets.
    """

    split: str
    digest: str
    loss: np.ndarray
    wrong: np.ndarray | None = None
    brier: np.ndarray | None = None
    predicted: np.ndarray | None = None

    def as_dict(self) -> dict:
        arrays = {name: _packed(getattr(self, name)) for name in ("loss", "wrong", "brier", "predicted")}
        return {"split": self.split, "digest": self.digest, **arrays}


def outcomes_of(subject) -> Outcomes:
    """Those of the test data, or of the training data where there are no others."""
    split = subject.splits[-1]
    out, (_, y) = subject.outputs(split), subject.data(split)
    loss = np.asarray(jax.vmap(subject.loss.function)(out, y), np.float32)
    if subject.classes is None:
        return Outcomes(split, digest(subject, split), loss)
    labels, predicted = np.asarray(subject.labels(split)), np.asarray(subject.predict(split))
    known = (labels != IGNORED).reshape(len(labels), -1)
    missed = (predicted != labels).reshape(known.shape) & known
    wrong = (missed.sum(1) / np.maximum(known.sum(1), 1)).astype(np.float32)
    kept = predicted.astype(np.int32) if predicted.size <= MOST else None
    return Outcomes(split, digest(subject, split), loss, wrong, _brier(subject, out, labels), kept)


def _brier(subject, out, labels):
    """The squared distance of the probabilities from the right answer; None if outputs are no logits of one class."""
    if subject.loss_name != "cross_entropy" or out.ndim > 2:
        return None
    if subject.class_axis is None:
        return np.asarray(2 * (jax.nn.sigmoid(out.reshape(-1)) - labels) ** 2, np.float32)
    goal = jax.nn.one_hot(labels, out.shape[1], dtype=out.dtype)
    return np.asarray(jnp.sum((jax.nn.softmax(out) - goal) ** 2, axis=1), np.float32)


def digest(subject, split: str) -> str:
    """Of the examples: their inputs and targets, whatever the network makes of them."""
    found = sha256()
    for leaf in jax.tree.leaves(subject.data(split)):
        array = np.ascontiguousarray(leaf)
        array = array.astype(np.int64 if array.dtype.kind in "iub" else np.float32)
        found.update(f"{array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def _packed(array: np.ndarray | None) -> dict | None:
    if array is None:
        return None
    dtype = "<i4" if array.dtype.kind == "i" else "<f4"
    text = base64.b64encode(array.astype(dtype).tobytes()).decode()
    return {"dtype": dtype, "shape": list(array.shape), "base64": text}


def read_outcomes(name: str, fields) -> Outcomes:
    """What `as_dict` wrote, from a file that may hold anything; one sentence if it does not fit."""
    try:
        arrays = {key: _unpacked(fields[key]) for key in ("loss", "wrong", "brier", "predicted")}
        found = Outcomes(str(fields["split"]), str(fields["digest"]), **arrays)
        n = len(found.loss)
        sound = n > 0 and all(len(a) == n for a in arrays.values() if a is not None)
        sound = sound and all(a is None or a.ndim == 1 for a in (found.loss, found.wrong, found.brier))
        if sound and all(a is None or np.isfinite(a).all() for a in arrays.values()):
            return found
    except (KeyError, TypeError, ValueError, binascii.Error, OverflowError):
        pass
    raise SubjectError(f"{name} does not say how each example fared: make it with corollary audit --json {name}.")


def _unpacked(fields):
    if fields is None:
        return None
    if fields["dtype"] not in DTYPES or not all(isinstance(a, int) and a >= 0 for a in fields["shape"]):
        raise ValueError
    raw = base64.b64decode(fields["base64"], validate=True)
    return np.frombuffer(raw, fields["dtype"]).reshape(fields["shape"])
