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

# What is looked at of a split: at most so many outputs are held (256 MiB in float32), and so many operations spent on a
# forward pass, about a minute of two cores.
OUTPUTS, WORK = 2**26, 4e12
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


def inputs(name: str, x, dtype):
    """Inputs as a pytree of arrays; whole numbers and booleans stay what they are: they may be words, or masks."""
    if not isinstance(x, dict | tuple):
        x = x if isinstance(x, jax.Array) else np.asarray(x)
        if x.ndim == 0 or x.shape[0] == 0:
            raise SubjectError(f"{name} must hold at least one example, got shape {tuple(x.shape)}.")
        if not (jnp.issubdtype(x.dtype, np.number) or x.dtype == bool):
            raise SubjectError(f"{name} must be an array of numbers, got dtype {x.dtype}.")
    x = examples(name, x)
    return jax.tree.map(lambda a: a.astype(dtype) if jnp.issubdtype(a.dtype, np.floating) else a, x)


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


def looked_at(data, cost: Cost, outputs: int, key):
    """The data, or as many examples drawn from them as can be looked at in reasonable time and memory."""
    most = max(FEWEST, int(min(OUTPUTS / max(outputs, 1), WORK / max(cost.operations, 1))))
    n = count(data)
    if n <= most:
        return data
    rows = np.sort(np.asarray(jax.random.permutation(key, n)[:most]))
    return jax.tree.map(lambda a: a[rows], data)


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
