"""The average of a loss over data, the empirical risk, and data set aside to measure it on."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from corollary._types import LossLike, NetworkLike
from corollary._validate import within
from corollary.catalog import implements
from corollary.network.batches import pair
from corollary.network.loss import of_examples
from corollary.network.parts import require_network


@implements("E02.13")
def empirical_risk(network: NetworkLike, loss: LossLike, data: PyTree) -> Array:
    r"""$\frac1s\sum_i\ell(f(x_i),y_i)$ over the pair `data` of inputs and targets, for a loss of one example.

    On data that the network was not fitted to, an unbiased estimate of the expected risk.
    """
    require_network(network)
    return of_examples(loss, who="empirical_risk")(network, pair("data", data))


class Split(NamedTuple):
    """Two disjoint parts of a data set; each is a tuple of arrays like the whole."""

    train: tuple
    validation: tuple


@implements("E02.13")
def train_validation_split(data: PyTree, fraction: float, *, key: PRNGKeyArray) -> Split:
    """Set a random `fraction` of the examples aside for validation, rounded to a whole number of at least one.

    >>> [part[0].shape for part in train_validation_split(data, 0.25, key=key)]
    [(3, 3), (1, 3)]
    """
    data = tuple(map(jnp.asarray, data))
    sizes = {a.shape[0] if a.ndim else None for a in data}
    if len(sizes) != 1 or None in sizes:
        raise ValueError(f"data must be arrays with the same first axis, got shapes {[a.shape for a in data]}.")
    n = sizes.pop()
    if n < 2:
        raise ValueError(f"data must hold at least two examples to split, got {n}.")
    if isinstance(fraction, bool) or not isinstance(fraction, int | float | np.number):
        raise TypeError(f"fraction must be a Python number, not a value traced by jit, got {fraction!r}.")
    within("fraction", fraction, 0.0, 1.0, open="both")
    held_out = min(max(round(fraction * n), 1), n - 1)
    order = jax.random.permutation(key, n)
    return Split(
        tuple(a[order[held_out:]] for a in data),
        tuple(a[order[:held_out]] for a in data),
    )
