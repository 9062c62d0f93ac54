r"""What features are worth to a metric, two ways from the same draws: alone taken away, and shared out.

A coalition $S$ of features is worth $U(S)=\frac1{n^2}\sum_{ij}m(f(x_{i,S},x_{j,\bar S}),y_i)$, the metric where all
others come from another example. Permutation importance is the last increment $U([k])-U([k]\setminus p)$, a Shapley
value the mean increment over all orders: where features say the same the first is near 0 for each and the second
divides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import NetworkLike
from corollary._validate import whole
from corollary.attribution._coalitions import looked_at, owners, require_finite
from corollary.attribution.games import Attribution, estimated, sample_plan
from corollary.attribution.permutation import require_score, resolved_metric
from corollary.attribution.sampling import Estimate
from corollary.network.batches import count, each, pair


class Importance(NamedTuple):
    """Permutation importances and Shapley values of a metric, (players,) each, with their intervals."""

    permutation: Attribution
    shapley: Attribution

    __repr__ = shown


def feature_importance(
    network: NetworkLike,
    metric: str | Callable,
    data: PyTree,
    *,
    key: PRNGKeyArray,
    players: PyTree = None,
    draws: int = 4,
    confidence: float = 0.95,
    batch_size: int = 8192,
) -> Importance:
    r"""Permutation importance and Shapley values of the features for a metric on `data = (x, y)`, with intervals.

    Every example meets `draws` others, each with a random order in which its features are put in their place; the
    intervals are Student's over the examples, as a sample. The Shapley values sum to the metric less what it is on
    examples that have nothing but the target. `metric` as in `permutation_importance`. `x` may be a pytree of arrays,
    of whole numbers too; `players` then holds arrays of the shapes of one example with the number of each coordinate's
    player, and is as in `shapley_values` for one array. At most `batch_size` inputs go through the network at a time.

    >>> found = feature_importance(network, "squared", data, key=key)
    >>> found.shapley.values.shape
    (3,)
    """
    score, (x, y) = resolved_metric(metric), pair("data", data)
    draws, batch_size, n = whole("draws", draws), whole("batch_size", batch_size), count(x)
    _, spread = sample_plan("permutation", 1, n, key, confidence)
    owner, players = _owners(players, x)
    network = looked_at(network, x)
    require_score(network, metric, score, (x, y))
    values = draws * (2 * players + 1)  # of one example
    at_once = 2 ** (max(1, batch_size // values).bit_length() - 1)
    found = _importance(network, score, x, y, owner, players, draws, key, at_once)
    require_finite("the metric", found[0][0])
    return Importance(*(estimated(Estimate(mean, error, n * values), spread) for mean, error in found))


def _owners(players, x):
    """The player of every coordinate as a pytree like one example, and their number."""
    shapes = jax.tree.map(lambda a: a.shape[1:], x)
    if isinstance(x, jax.Array):
        owner, number = owners(players, x.shape[1:])
        return np.asarray(owner).reshape(x.shape[1:]), number
    if jax.tree.structure(players) != jax.tree.structure(x):
        raise ValueError("players must hold one array of whole numbers for each array of an example, with its shape.")
    owner = jax.tree.map(np.asarray, players)
    if jax.tree.map(np.shape, owner) != shapes:
        raise ValueError("players must hold one array of whole numbers for each array of an example, with its shape.")
    flat = np.concatenate([a.ravel() for a in jax.tree.leaves(owner)])
    return owner, owners(flat, flat.shape)[1]


@eqx.filter_jit
def _importance(network, score, x, y, owner, players, draws, key, at_once):
    n = count(x)
    everyone = jnp.arange(players)

    def drawn(one, target, key):
        """The increments of one example against one other, along one order; and without each player alone."""
        row_key, order_key = jax.random.split(key)
        row = jax.random.randint(row_key, (), 0, n)
        other = jax.tree.map(lambda a: a[row], x)
        place = jax.random.permutation(order_key, players)

        def worth(inside):
            inside = jnp.append(inside, True)  # what belongs to nobody is always present
            mixed = jax.tree.map(lambda a, b, o: jnp.where(inside[o], a, b), one, other, owner)
            return score(network(mixed), target)

        along = jax.vmap(lambda size: worth(place < size))(jnp.arange(players + 1))
        without = jax.vmap(lambda player: worth(everyone != player))(everyone)
        return along[-1] - without, jnp.diff(along)[place]

    def of_example(batch):
        def one(point, target, number):
            keys = jax.random.split(jax.random.fold_in(key, number), draws)
            found = jax.vmap(lambda key: drawn(point, target, key))(keys)
            return jax.tree.map(lambda a: a.mean(0), found)

        return jax.vmap(one)(*batch)

    increments = each(of_example, (x, y, jnp.arange(n)), at_once)
    return tuple((a.mean(0), a.std(0, ddof=1) / n**0.5) for a in increments)
