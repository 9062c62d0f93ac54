"""Coalitions as rows of booleans; features as players; increments over all coalitions at once."""

from collections.abc import Callable, Sequence
from math import comb
from types import FunctionType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from corollary._validate import concrete, real
from corollary.network._code import by_code
from corollary.network.apart import require_apart
from corollary.network.parts import require_network

#: Players beyond which all coalitions are too many: 2^20 values for 21 of them twice that.
MOST = 20


def require_few(players: int) -> None:
    """One sentence where there are too many coalitions to look at each."""
    if players > MOST:
        raise ValueError(
            f"all coalitions can be looked at for at most {MOST} players, and {players} have 2^{players} of them: "
            "join some into groups (players=), or draw coalitions (how='permutation')."
        )


def members(index, players: int):
    """Who is in the coalitions of these numbers, (..., players): player i where bit i is set."""
    return (index[..., None] >> jnp.arange(players)) & 1 == 1


def number_of(mask):
    """The number of a coalition, the inverse of `members`."""
    return jnp.sum(mask.astype(int) << jnp.arange(mask.shape[-1]), -1)


def weighted_increments(values, players: int, weights):
    r"""$\sum_{S\not\ni i}w(|S|)\,(v(S\cup i)-v(S))$ of every player, (players, ...), from all $2^n$ values."""
    others = jnp.arange(2 ** (players - 1))
    weight = jnp.asarray(weights, values.dtype)[jnp.bitwise_count(others)]

    def one(i):
        without = _with_zero(others, i)
        return jnp.tensordot(weight, values[without | (1 << i)] - values[without], 1)

    return lax.map(one, jnp.arange(players))


def weighted_differences(values, players: int, weights):
    r"""$\sum_{S\not\ni i,j}w(|S|)\,(v(S\cup i)-v(S\cup j))$ of all pairs of players, (players, players, ...)."""
    others = jnp.arange(2 ** (players - 2))
    weight = jnp.asarray(weights, values.dtype)[jnp.bitwise_count(others)]

    def one(pair):
        i, j = pair
        without = _with_zero(_with_zero(others, jnp.minimum(i, j)), jnp.maximum(i, j))
        return jnp.tensordot(weight, values[without | (1 << i)] - values[without | (1 << j)], 1) * (i != j)

    i, j = jnp.indices((players, players)).reshape(2, -1)
    return lax.map(one, (i, j)).reshape(players, players, *values.shape[1:])


def shapley_weights(players: int) -> np.ndarray:
    r"""$1/\big(n\binom{n-1}k\big)$ for the sizes $k<n$."""
    return np.array([1 / (players * comb(players - 1, k)) for k in range(players)])


def _with_zero(bits, place):
    """Numbers with a zero put in at a place of their binary digits."""
    low = bits & ((1 << place) - 1)
    return low | ((bits - low) << 1)


# Features as players: which coordinates of an example belong to whom.


def owners(players, shape: tuple[int, ...]) -> tuple[np.ndarray, int]:
    """The player of every coordinate of an example, flat, and how many players there are.

    `players` is None (every coordinate by itself), an array of the shape of an example with the numbers of the players,
    or groups of coordinates. Coordinates that belong to nobody have the number behind the last player.
    """
    size = int(np.prod(shape))
    if size == 0:
        raise ValueError(f"x must hold examples with at least one coordinate, got shape {shape} for one.")
    if players is None:
        return np.arange(size), size
    if isinstance(players, Sequence) and not isinstance(players, str):
        return _grouped(players, size)
    labels = np.asarray(players)
    if labels.dtype.kind not in "iu":
        raise TypeError(f"players must hold whole numbers, or be groups of coordinates, got {_kind(players)}.")
    if labels.shape != shape:
        raise ValueError(f"players must have the shape of an example, {shape}, got {labels.shape}.")
    count = int(labels.max()) + 1
    missing = np.setdiff1d(np.arange(count), labels)
    if labels.min() < 0 or missing.size:
        raise ValueError(
            "players must number the players from 0 on, each with a coordinate, "
            + (f"got {labels.min()}." if labels.min() < 0 else f"nothing belongs to player {missing[0]}.")
        )
    return labels.reshape(-1), count


def _grouped(groups, size: int) -> tuple[np.ndarray, int]:
    if not len(groups):
        raise ValueError("players must be at least one group of coordinates, got none.")
    owner = np.full(size, len(groups))
    for player, group in enumerate(groups):
        places = np.atleast_1d(np.asarray(group))
        if places.dtype.kind not in "iu" or places.ndim != 1 or not places.size:
            raise TypeError(f"players must be groups of coordinates, whole numbers each, got {_kind(group)}.")
        if places.min() < 0 or places.max() >= size:
            wrong = places.min() if places.min() < 0 else places.max()
            raise ValueError(f"players must hold coordinates from 0 to {size - 1}, got {wrong}.")
        taken = places[owner[places] < len(groups)]
        if taken.size or np.unique(places).size < places.size:
            twice = taken[0] if taken.size else places[0]
            raise ValueError(f"players must not overlap, coordinate {twice} is named twice.")
        owner[places] = player
    return owner, len(groups)


def _kind(value) -> str:
    dtype = getattr(value, "dtype", None)
    return f"dtype {dtype}" if dtype is not None else f"{value!r}"


def example_array(name: str, value):
    """`value` as one array of examples, numbers that are finite where they are not whole."""
    if not isinstance(value, jax.Array | np.ndarray | list | tuple | float | int):
        raise TypeError(f"{name} must be one array of examples, got {type(value).__name__}.")
    found = jnp.asarray(value) if isinstance(value, jax.Array) else np.asarray(value)
    if found.ndim == 0 or 0 in found.shape:
        what = "not be empty" if found.ndim else "hold examples along its first axis"
        raise ValueError(f"{name} must {what}, got shape {tuple(found.shape)}.")
    whole = np.issubdtype(found.dtype, np.integer)
    return jnp.asarray(value) if whole else real(name, value)


def looked_at(network: Callable, x) -> Callable:
    """The network in inference mode, tried out on the examples `x`; a plain function is found again by its code."""
    require_network(network)
    network = eqx.nn.inference_mode(network)
    network = by_code(network) if isinstance(network, FunctionType) else network
    require_apart(network, x)
    return network


def mixed_outputs(network: Callable, one, background, owner, mask):
    """The outputs for the example `one` with the coordinates of who is absent taken from each row of `background`."""
    present = jnp.append(mask, True)[owner].reshape(one.shape)
    return jax.vmap(network)(jnp.where(present, one, background))


def require_finite(what: str, values) -> None:
    """One sentence where a number that was computed is NaN or infinite."""
    if concrete(values) and not np.isfinite(np.asarray(values)).all():
        raise ValueError(f"{what} must be finite, got NaN or infinity.")
