r"""Shapley values of the features of an example: what each of them adds to the output of a network.

The players are the coordinates of an example, or groups of them such as the patches of an image. A coalition is worth
the output for an example whose other coordinates come from a background, averaged over the rows of the background.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import ArrayLike, Float, Int, PRNGKeyArray, PyTree

from corollary._types import NetworkLike
from corollary._validate import concrete, one_of, whole
from corollary.attribution._coalitions import (
    example_array,
    looked_at,
    members,
    mixed_outputs,
    owners,
    require_few,
    require_finite,
    shapley_weights,
    weighted_increments,
)
from corollary.attribution.games import WAYS, Attribution, Game, estimated, exactly, sample_plan
from corollary.attribution.sampling import Estimate, along_orders, by_groups
from corollary.catalog import implements
from corollary.network.batches import each


class FeatureGame(eqx.Module):
    """The value of a coalition of features: the output with the others taken from the background, averaged over it."""

    network: NetworkLike
    one: jax.Array
    background: jax.Array
    owner: np.ndarray | jax.Array

    def __call__(self, inside: jax.Array) -> jax.Array:
        return mixed_outputs(self.network, self.one, self.background, self.owner, inside).mean(0)


def patch_players(shape: tuple[int, ...], size: int) -> Int[np.ndarray, "..."]:
    """The players of square patches: the number of the patch of each pixel, for images of this shape.

    The first two axes are height and width, further ones, such as colours, belong to the pixels. Patches at the lower
    and right edges are smaller where `size` does not divide the image.

    >>> print(patch_players((4, 4), 2))
    [[0 0 1 1]
     [0 0 1 1]
     [2 2 3 3]
     [2 2 3 3]]
    """
    if not isinstance(shape, tuple) or len(shape) < 2:
        raise ValueError(f"shape must be that of an image, (height, width) or with further axes, got {shape!r}.")
    height, width, *rest = (whole("shape", side) for side in shape)
    size = whole("size", size)
    columns = -(-width // size)
    labels = (np.arange(height) // size)[:, None] * columns + np.arange(width) // size
    return np.broadcast_to(labels.reshape(height, width, *[1] * len(rest)), shape).copy()


@implements("T10.08")
def feature_game(
    network: NetworkLike, one: Float[ArrayLike, "..."], background: Float[ArrayLike, "n ..."], *, players: PyTree = None
) -> Game:
    """The game of the features of `one` example; `background` and `players` as in `shapley_values`.

    >>> feature_game(network, x[0], x).players
    3
    """
    rows = (one if isinstance(one, jax.Array) else np.asarray(one))[None]
    network, rows, background, owner, count = _prepared(network, rows, background, players)
    return Game(count, FeatureGame(network, rows[0], background, owner))


@implements("T10.22")
def shapley_values(
    network: NetworkLike,
    x: Float[ArrayLike, "n ..."],
    background: Float[ArrayLike, "n ..."],
    *,
    players: PyTree = None,
    how: str = "exact",
    samples: int = 1000,
    key: PRNGKeyArray | None = None,
    confidence: float = 0.95,
    batch_size: int = 8192,
) -> Attribution:
    r"""Shapley values of the features of every example of `x` for every output of `network`: (n, players, ...).

    $U(S)$ is the mean over the rows $b$ of `background` of the output for the coordinates $x_S$ and $b_{\bar S}$; a
    background of one row is a baseline. The values of an example sum to its output less the mean output of the
    background. `players` are all coordinates unless given: an array of the shape of an example with the number of each
    coordinate's player (such as `patch_players`), or a list of groups of coordinates, numbered in flat order. What
    belongs to no group is always present. `how`, `samples`, `key` and `confidence` are those of `shapley`. At most
    `batch_size` inputs go through the network at a time, or one background if that is more.

    >>> found = shapley_values(network, x, x[:2])
    >>> found.values.shape, found.evaluations
    ((4, 3, 1), 16)
    """
    one_of("how", how, WAYS)
    batch_size = whole("batch_size", batch_size)
    network, x, background, owner, count = _prepared(network, x, background, players)
    rows = background.shape[0]
    at_once = max(1, batch_size // rows)
    if how == "exact":
        require_few(count)
        values = _exact(network, x, background, owner, count, at_once)
        require_finite("the outputs", values)
        return exactly(values, rows * 2**count)
    samples, spread = sample_plan(how, count, samples, key, confidence)
    mean, error, evaluations = _drawn(network, x, background, owner, count, how, samples, key, at_once)
    require_finite("the outputs", mean)
    return estimated(Estimate(mean, error, rows * evaluations), spread)


def _prepared(network, x, background, players):
    x, background = example_array("x", x), example_array("background", background)
    if x.shape[1:] != background.shape[1:]:
        raise ValueError(
            f"background must hold examples of the shape of those of x, {x.shape[1:]}, got {background.shape[1:]}."
        )
    if background.shape[0] > 1 and concrete(background):
        seen = np.asarray(background)
        if (seen == seen[:1]).all():
            raise ValueError(f"background holds one row {seen.shape[0]} times: give it once, as a baseline.")
    owner, count = owners(players, x.shape[1:])
    return looked_at(network, x), x, background, owner, count


@eqx.filter_jit
def _exact(network, x, background, owner, players, at_once):
    numbers, weights = jnp.arange(2**players), shapley_weights(players)

    def one_example(one):
        value = FeatureGame(network, one, background, owner)
        values = each(lambda batch: jax.vmap(value)(members(batch, players)), numbers, at_once)
        return weighted_increments(values, players, weights)

    return lax.map(one_example, x)


@eqx.filter_jit
def _drawn(network, x, background, owner, players, how, samples, key, at_once):
    draw = along_orders if how == "permutation" else by_groups

    def one_example(example):
        key, one = example
        found = draw(FeatureGame(network, one, background, owner), players, samples, key, at_once)
        return found.mean, found.error

    mean, error = lax.map(one_example, (jax.random.split(key, x.shape[0]), x))
    evaluations = 2 + samples * (players - 1 if how == "permutation" else 3)
    return mean, error, evaluations
