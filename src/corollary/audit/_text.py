"""Subjects whose examples are sequences of tokens with a class for each: what is text in their data."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit._errors import SubjectError
from corollary.network._lookups import read
from corollary.network.losses import IGNORED


class Reader(eqx.Module):
    """A network as a function of its tokens, and of its other inputs where there are some."""

    network: Any
    place: int = eqx.field(static=True)
    form: Any = eqx.field(static=True)

    def __call__(self, tokens, beside=()):
        leaves = list(beside)
        leaves.insert(self.place, tokens)
        return self.network(self.form.unflatten(leaves))


class Text(NamedTuple):
    """Tokens (n, T) and their classes, which count where `known`; `beside` are the other inputs, None without any."""

    tokens: np.ndarray
    targets: np.ndarray
    known: np.ndarray
    beside: list | None


def is_text(subject) -> bool:
    """Whether an example is a sequence of tokens, each with one of several classes of its own."""
    return place_of_tokens(subject.train[0], subject.outputs().shape, _labels(subject, "train")) is not None


def reader_of(subject) -> Reader:
    return Reader(subject.network, place_of_text(subject), jax.tree.structure(subject.train[0]))


def text_of(subject, split: str) -> Text:
    leaves = jax.tree.leaves(subject.data(split)[0])
    tokens = np.asarray(leaves.pop(place_of_text(subject)))
    targets = np.asarray(subject.labels(split))
    return Text(tokens, targets, targets != IGNORED, leaves or None)


def place_of_tokens(x, outputs: tuple, labels) -> int | None:
    """Which leaf of the inputs holds the tokens that labels (n, T) and outputs (n, T, classes) belong to; None if none.

    Of several inputs of whole numbers masks of zeros and ones, and what is the same in all examples (positions), are no
    tokens; of those that remain the one with the most different numbers is taken.
    """
    if labels is None or labels.ndim != 2 or outputs[:-1] != labels.shape:
        return None
    leaves = jax.tree.leaves(x)
    found = [i for i, a in enumerate(leaves) if jnp.issubdtype(a.dtype, np.integer) and a.shape == labels.shape]
    if len(found) > 1:
        values = {i: np.asarray(leaves[i]) for i in found}
        told = [i for i, a in values.items() if (a != a[0]).any() and not ((a == 0) | (a == 1)).all()]
        found = sorted(told, key=lambda i: -len(np.unique(values[i])))
    return found[0] if found else None


def require_tokens(name: str, network, x, tables: dict[int, int] | None = None) -> dict[int, int]:
    """One sentence unless whole numbers that are looked up are rows of their tables; how many rows each leaf has.

    A number beyond a table is taken for another one without a word, in JAX the last row or the last but so many.
    """
    leaves = jax.tree.leaves(x)
    if tables is None:
        tables = {}
        if any(jnp.issubdtype(a.dtype, np.integer) for a in leaves):
            for found in read(network, x).found:
                tables[found.leaf] = min(found.rows, tables.get(found.leaf, found.rows))
    for i, rows in tables.items():
        values = np.asarray(leaves[i])
        bad = (values < 0) | (values >= rows)
        if bad.any():
            raise SubjectError(
                f"{name} must hold tokens from 0 to {rows - 1}, as the network's table has {rows} rows, got "
                f"{values[bad][0]} in example {int(bad.reshape(len(bad), -1).any(1).argmax())}."
            )
    return tables


def require_sequences(name: str, x, outputs: tuple, labels) -> None:
    """One sentence for sequences of one token: of nothing before and nothing after it there is nothing to read."""
    if outputs[1] == 1 and place_of_tokens(x, outputs, labels) is not None:
        raise SubjectError(
            f"{name} must hold sequences of at least two tokens, got one each: give labels of shape (n,), a class for "
            "each example, or longer pieces of the text."
        )


def _labels(subject, split: str):
    return subject.labels(split) if subject.classes is not None and subject.class_axis == 2 else None


def place_of_text(subject) -> int:
    return place_of_tokens(subject.train[0], subject.outputs().shape, _labels(subject, "train"))
