r"""Partial dependence: what a network says on some features alone, the others averaged over the data.

The average is over the others as they are in the data, whatever the features that are kept: it equals the conditional
expectation where both are independent, and not in general.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PyTree

from corollary._types import NetworkLike
from corollary._validate import whole
from corollary.attribution._coalitions import (
    example_array,
    looked_at,
    members,
    mixed_outputs,
    owners,
    require_few,
    require_finite,
)
from corollary.attribution.permutation import require_score, resolved_metric
from corollary.catalog import implements
from corollary.network.batches import each, pair


@implements("M12.09")
def partial_dependence(
    network: NetworkLike,
    x: Float[ArrayLike, "n ..."],
    kept: int | tuple[int, ...],
    *,
    at: Float[ArrayLike, "m ..."] | None = None,
    players: PyTree = None,
    batch_size: int = 8192,
) -> Float[Array, "m ..."]:
    r"""$m_F(x)=\frac1n\sum_jm(x_F,x_{j,\bar F})$: outputs with the features `kept` $=F$ of each example of `at`.

    The other features are those of the examples `x` in turn; `at` is `x` itself unless given. `kept` is the number of a
    feature, or several; none gives the mean output everywhere. `players` as in `shapley_values`.

    >>> partial_dependence(network, x, 0).shape
    (4, 1)
    """
    x = example_array("x", x)
    at = x if at is None else example_array("at", at)
    if at.shape[1:] != x.shape[1:]:
        raise ValueError(f"at must hold examples of the shape of those of x, {x.shape[1:]}, got {at.shape[1:]}.")
    owner, count = owners(players, x.shape[1:])
    kept = kept if isinstance(kept, tuple | list) else (kept,)
    mask = np.zeros(count, bool)
    mask[[whole("kept", feature, 0, count - 1) for feature in kept]] = True
    network = looked_at(network, x)
    at_once = max(1, whole("batch_size", batch_size) // x.shape[0])
    return _dependence(network, x, at, owner, mask, at_once)


@implements("M12.10")
def coalition_accuracies(
    network: NetworkLike,
    metric: str | Callable,
    data: PyTree,
    *,
    players: PyTree = None,
    batch_size: int = 8192,
) -> Float[Array, "_"]:
    r"""$\alpha(F)$ of all $2^k$ sets of features: the metric on `data = (x, y)` of the partial dependence $m_F$.

    That of $F$ is at the place $\sum_{i\in F}2^i$; `Game.of_values` makes a game of them. `metric` as in
    `permutation_importance`, `players` as in `shapley_values`.

    >>> coalition_accuracies(network, "squared", data).shape
    (8,)
    """
    score, (x, y) = resolved_metric(metric), pair("data", data)
    x = example_array("x", x)
    owner, count = owners(players, x.shape[1:])
    require_few(count)
    network = looked_at(network, x)
    require_score(network, metric, score, (x, y))
    values = _accuracies(network, score, x, y, owner, count, max(1, whole("batch_size", batch_size) // x.shape[0]))
    require_finite("the metric", values)
    return values


@eqx.filter_jit
def _dependence(network, x, at, owner, mask, at_once):
    def one(point):
        return mixed_outputs(network, point, x, owner, mask).mean(0)

    return each(jax.vmap(one), at, at_once)


@eqx.filter_jit
def _accuracies(network, score, x, y, owner, players, at_once):
    n = x.shape[0]

    def one(number):
        coalition, i = number // n, number % n
        output = mixed_outputs(network, x[i], x, owner, members(coalition, players)).mean(0)
        return score(output, jax.tree.map(lambda a: a[i], y))

    return each(jax.vmap(one), jnp.arange(2**players * n), at_once).reshape(-1, n).mean(1)
