"""Inputs, targets and weights of a subject in the form that its loss takes, and how many of them are looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary._validate import real
from corollary.audit._cost import Cost
from corollary.audit._errors import SubjectError
from corollary.network.batches import count as count
from corollary.network.batches import examples

# Looked at of a split: at most so many outputs are held (256 MiB in float32), so many numbers of inputs (1 GiB),
# and so many operations spent on a forward pass, about a minute of two cores.
OUTPUTS, INPUTS, WORK = 2**26, 2**28, 4e12
FEWEST = 8


class Weighted(NamedTuple):
    """The loss of an example times its weight, for targets `(y, weight)`."""

    function: Callable

    def __call__(self, output, target):
        y, weight = target
        return weight * self.function(output, y)


def taken_apart(split: str, data) -> tuple[Any, Any, Any]:
    """Inputs, targets, and weights or None."""
    if not isinstance(data, tuple | list) or len(data) not in (2, 3):
        raise SubjectError(f"{split} must be a pair (x, y) of inputs and targets, got {type(data).__name__}.")
    return (*data, None) if len(data) == 2 else tuple(data)


def opened(name: str, x):
    """Inputs as a pytree of arrays, which stay where they are: they may lie on disk."""
    if not isinstance(x, dict | tuple):
        x = _array(x)
        if len(x.shape) == 0 or x.shape[0] == 0:
            raise SubjectError(f"{name} must hold at least one example, got shape {tuple(x.shape)}.")
        if not (jnp.issubdtype(x.dtype, np.number) or x.dtype == bool):
            raise SubjectError(f"{name} must be an array of numbers, got dtype {x.dtype}.")
        return x
    arrays = jax.tree.map(_array, x)
    shapes = [a.shape for a in jax.tree.leaves(arrays)]
    if not shapes or any(0 in s or s == () for s in shapes) or len({s[0] for s in shapes}) > 1:
        examples(name, x)  # has the sentence for it
    return arrays


def _array(value):
    """What has a shape, a type of NumPy's and rows by their numbers as it is; all else in memory."""
    try:
        np.dtype(value.dtype)
        rows = hasattr(value, "shape") and hasattr(value, "__getitem__") and not hasattr(value, "iloc")
    except (AttributeError, TypeError):
        rows = False
    return value if rows else np.asarray(value)


def inputs(name: str, x, dtype):
    """Inputs as a pytree of arrays; whole numbers and booleans stay what they are: they may be words, or masks."""
    x = jax.tree.map(lambda a: a if isinstance(a, jax.Array) else np.asarray(a), opened(name, x))
    x = examples(name, x)
    return jax.tree.map(lambda a: a.astype(dtype) if jnp.issubdtype(a.dtype, np.floating) else a, x)


def most_of(x, cost: Cost, outputs: int) -> int:
    """How many examples like those of `x` are looked at: as many as time and memory allow."""
    numbers = sum(int(np.prod(a.shape[1:])) for a in jax.tree.leaves(x))
    return max(FEWEST, int(min(OUTPUTS / max(outputs, 1), INPUTS / max(numbers, 1), WORK / max(cost.operations, 1))))


def drawn(n: int, most: int, seed: int) -> np.ndarray | None:
    """The examples that are looked at, in order; None for all of them."""
    if n <= most:
        return None
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False, shuffle=False))


def rows_of(name: str, data, rows: np.ndarray | None, n: int):
    """These rows of the arrays of a pytree, of `n` each: nothing else is read of what lies on disk."""
    if data is None or rows is None:
        return data
    if isinstance(data, list):
        data = np.asarray(data) if len(data) == n else tuple(data)
    data = jax.tree.map(_array, data)
    for a in jax.tree.leaves(data):
        if a.shape[:1] != (n,):
            raise SubjectError(f"{name} must have one entry for each of the {n} examples, got shape {tuple(a.shape)}.")
    return jax.tree.map(lambda a: np.asarray(a[rows]), data)


def weights(name: str, given, counted, n: int, dtype):
    """One weight per example, of mean 1; None if all examples count alike.

    `counted` is the number of places of each example that have a class, or None: then the loss of the data is the mean
    over these places, as in language models, and not that of the examples' means.
    """
    if given is None and counted is None:
        return None
    value = np.ones(n) if given is None else np.asarray(real(name, given), float)
    if value.shape != (n,):
        raise SubjectError(f"{name} must hold one weight for each of the {n} examples, got shape {value.shape}.")
    value = value if counted is None else value * counted
    if (value < 0).any() or not value.any():
        raise SubjectError(f"{name} must be zero or more and not all zero.")
    return jnp.asarray(value / value.mean(), dtype)


def spelled(x) -> str:
    """The shapes of one example of `x`."""
    shapes = [tuple(a.shape[1:]) for a in jax.tree.leaves(x)]
    return " and ".join(map(str, shapes))


def same_kind(x, other) -> bool:
    """Whether two sets of examples have one structure, and examples of the same shapes."""
    if jax.tree.structure(x) != jax.tree.structure(other):
        return False
    pairs = zip(jax.tree.leaves(x), jax.tree.leaves(other), strict=True)
    return all(a.shape[1:] == b.shape[1:] for a, b in pairs)
