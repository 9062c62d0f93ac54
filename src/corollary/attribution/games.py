r"""Cooperative games: what every coalition of players is worth, and how the worth of all is divided among them.

A game is a number of players and a value of coalitions, a function of $n$ booleans. It may be anything that JAX can
trace: a network with some of its input missing, a model trained on some of its data, a table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray

from corollary._show import shown
from corollary._text import first_line
from corollary._validate import one_of, real, whole, within
from corollary.attribution._coalitions import (
    members,
    number_of,
    require_few,
    require_finite,
    shapley_weights,
    weighted_differences,
    weighted_increments,
)
from corollary.attribution.sampling import along_orders, by_groups
from corollary.catalog import implements
from corollary.network._code import by_code
from corollary.network.batches import each

WAYS = ("exact", "permutation", "group")


@implements("T10.08")
class Game(eqx.Module):
    r"""`players` who may join, and the `value` $U(S)$ of every coalition: a function of a mask of booleans, (players,).

    The value is a number, or an array of numbers that are divided each by itself. $U(\emptyset)$ need not be 0.

    >>> glove = Game(3, lambda inside: 1.0 * (inside[0] & (inside[1] | inside[2])))  # one left glove, two right ones
    >>> print(shapley(glove).values)
    [0.667 0.167 0.167]
    """

    players: int = eqx.field(static=True)
    value: Callable

    def __init__(self, players: int, value: Callable):
        self.players = whole("players", players)
        if not callable(value):
            raise TypeError(f"value must be a function of a mask of booleans, got {type(value).__name__}.")
        self.value = value if isinstance(value, eqx.Module) else by_code(value)
        try:
            out = eqx.filter_eval_shape(self.value, jax.ShapeDtypeStruct((self.players,), bool))
        except Exception as error:
            raise ValueError(f"value failed for a mask of shape ({players},): {first_line(error)}.") from error
        if not jnp.issubdtype(getattr(out, "dtype", object), np.floating):
            raise TypeError(f"value must return a real floating-point number, got {out}.")

    @classmethod
    def of_values(cls, values: Float[ArrayLike, "..."]) -> Game:
        r"""The game with these $2^n$ values along the first axis, that of the coalition $S$ at $\sum_{i\in S}2^i$."""
        values = real("values", values)
        players = values.shape[0].bit_length() - 1 if values.ndim else 0
        if players < 1 or values.shape[0] != 2**players:
            raise ValueError(f"values must hold 2^n values for n players along its first axis, got {values.shape}.")
        return cls(players, Table(values))


class Table(eqx.Module):
    """The value of a coalition, looked up under its number."""

    values: jax.Array

    def __call__(self, inside: Bool[Array, "n"]) -> Array:
        return self.values[number_of(inside)]


class Attribution(NamedTuple):
    """What is attributed to each player, the confidence interval of it (low, high), and how many values it took.

    What is exact has the ends of its interval at the values themselves.
    """

    values: jax.Array
    interval: jax.Array
    evaluations: int

    __repr__ = shown


def coalition_values(game: Game, *, batch_size: int = 4096) -> Float[Array, "_ ..."]:
    r"""$U(S)$ of all $2^n$ coalitions, that of $S$ at the place $\sum_{i\in S}2^i$, `batch_size` of them at a time.

    >>> print(coalition_values(Game(2, lambda inside: 3.0 * inside[0] + 5.0 * inside[1])))
    [0. 3. 5. 8.]
    """
    require_game(game)
    require_few(game.players)
    values = _every_value(game, whole("batch_size", batch_size))
    require_finite("the value of every coalition", values)
    return values


@implements("T10.09", "T10.10", "M12.12", "T10.13", "T10.17")
def shapley(
    game: Game,
    *,
    how: str = "exact",
    samples: int = 1000,
    key: PRNGKeyArray | None = None,
    confidence: float = 0.95,
    batch_size: int = 4096,
) -> Attribution:
    r"""Shapley values $s_i=\frac1n\sum_{S\not\ni i}\frac{U(S\cup i)-U(S)}{\binom{n-1}{|S|}}$, which sum to
    $U([n])-U(\emptyset)$.

    They are the mean increments over all orders in which the players may join. `how="exact"` looks at all $2^n$
    coalitions, of at most 20 players. `"permutation"` follows `samples` random orders; its estimates sum to the same.
    `"group"` estimates the value of the first player from `samples` increments, and from as many further coalitions
    all differences at once (`group_law`): 3 values per sample, whatever the number of players. Intervals are Student's,
    for each value by itself: they presume draws enough for the mean of the increments to be nearly normal.

    >>> shapley(Game(2, lambda inside: 3.0 * inside[0] * inside[1])).evaluations
    4
    """
    require_game(game)
    one_of("how", how, WAYS)
    batch_size = whole("batch_size", batch_size)
    if how == "exact":
        return exactly(_shapley(coalition_values(game, batch_size=batch_size), game.players), 2**game.players)
    samples, spread = sample_plan(how, game.players, samples, key, confidence)
    found = _sampled(game, how, samples, key, batch_size)
    require_finite("the value of every coalition", found.mean)
    return estimated(found, spread)


def banzhaf(game: Game, *, batch_size: int = 4096) -> Attribution:
    r"""Banzhaf values $2^{1-n}\sum_{S\not\ni i}(U(S\cup i)-U(S))$: every coalition of the others equally likely.

    Unlike Shapley's they need not sum to what all are worth.

    >>> print(banzhaf(Game(3, lambda inside: 1.0 * inside.all())).values)
    [0.25 0.25 0.25]
    """
    values = coalition_values(game, batch_size=batch_size)
    return exactly(_banzhaf(values, game.players), 2**game.players)


def shapley_differences(game: Game, *, batch_size: int = 4096) -> Float[Array, "_ _ ..."]:
    r"""$s_i-s_j=\frac1{n-1}\sum_{S\not\ni i,j}\frac{U(S\cup i)-U(S\cup j)}{\binom{n-2}{|S|}}$ for all pairs, (n, n).

    >>> print(shapley_differences(Game(2, lambda inside: 3.0 * inside[0] + 5.0 * inside[1])))
    [[ 0. -2.]
     [ 2.  0.]]
    """
    values = coalition_values(game, batch_size=batch_size)
    whole("players", game.players, 2)
    return _differences(values, game.players)


def exactly(values, evaluations: int) -> Attribution:
    """An attribution without an error."""
    return Attribution(values, jnp.stack([values, values]), evaluations)


def estimated(found, spread: float) -> Attribution:
    """An attribution from means with standard errors."""
    ends = jnp.stack([found.mean - spread * found.error, found.mean + spread * found.error])
    return Attribution(found.mean, ends, found.evaluations)


def sample_plan(how: str, players: int, samples: int, key, confidence: float) -> tuple[int, float]:
    """The number of samples, checked, and the half-width of Student's interval in standard errors."""
    from scipy import stats  # loads slowly

    if key is None:
        raise ValueError(f"key must be given where coalitions are drawn, with how={how!r}.")
    if how == "group":
        whole("players", players, 2)
    samples = whole("samples", samples, 2)
    confidence = float(within("confidence", float(confidence), 0.0, 1.0, open="both"))
    return samples, float(stats.t.isf((1 - confidence) / 2, samples - 1))


def require_game(game) -> None:
    """One sentence for what is no game."""
    if not isinstance(game, Game):
        raise TypeError(f"game must be a Game(players, value), got {type(game).__name__}.")


@eqx.filter_jit
def _every_value(game, batch_size):
    numbers = jnp.arange(2**game.players)
    return each(lambda batch: jax.vmap(game.value)(members(batch, game.players)), numbers, batch_size)


@eqx.filter_jit
def _sampled(game, how, samples, key, batch_size):
    draw = along_orders if how == "permutation" else by_groups
    return draw(game.value, game.players, samples, key, batch_size)


@partial(jax.jit, static_argnames="players")
def _shapley(values, players):
    return weighted_increments(values, players, shapley_weights(players))


@partial(jax.jit, static_argnames="players")
def _banzhaf(values, players):
    return weighted_increments(values, players, np.full(players, 2.0 ** (1 - players)))


@partial(jax.jit, static_argnames="players")
def _differences(values, players):
    return weighted_differences(values, players, shapley_weights(players - 1))
