r"""Shapley values from coalitions drawn at random, with the numbers of draws that guarantee an error.

Along a random order of the players every increment is an unbiased draw of its player's value. Group testing asks for
differences of values instead, for which one coalition serves all pairs of players at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements
from corollary.foundations import samples_needed
from corollary.network.batches import each


class Estimate(NamedTuple):
    """Means of independent draws, their standard errors, and how many values were asked for."""

    mean: jax.Array
    error: jax.Array
    evaluations: int


@implements("T10.16")
def group_law(players: int) -> Float[Array, "_"]:
    r"""$p(k)=\frac1Z\big(\frac1k+\frac1{n-k}\big)$ for the sizes $k=1,\dots,n-1$, $Z=2\sum_{k<n}\frac1k$.

    For $S$ of a size with this law, uniform among the sets of its size, $E[Z\,U(S)(1_{i\in S}-1_{j\in S})]=s_i-s_j$ for
    all players at once.

    >>> print(group_law(4))
    [0.364 0.273 0.364]
    """
    k = jnp.arange(1.0, whole("players", players, 2))
    return (1 / k + 1 / (players - k)) / group_constant(players)


def group_constant(players: int) -> float:
    r"""$Z=2\sum_{k<n}\frac1k$, the factor of `group_law`.

    >>> round(group_constant(4), 4)
    3.6667
    """
    return 2 * sum(1 / k for k in range(1, whole("players", players, 2)))


@implements("T10.14")
def permutations_needed(players: int, epsilon: Scalar, delta: Scalar, bound: Scalar) -> Float[Array, ""]:
    r"""Orders after which $\|\hat s-s\|_2\le\epsilon$ with probability $1-\delta$: $\lceil2R^2\frac n{\epsilon^2}
    \ln\frac{2n}\delta\rceil$.

    `bound` $=R\ge|U(S\cup i)-U(S)|$ for all $S$ and $i$. By Hoeffding's inequality each value is then within
    $\epsilon/\sqrt n$.

    >>> int(permutations_needed(10, 1.0, 0.05, 1.0))
    120
    """
    players = whole("players", players)
    epsilon, delta, bound = _accuracy(epsilon, delta, bound)
    return samples_needed(epsilon / players**0.5, delta / players, 2 * bound)


@implements("T10.17")
def group_samples_needed(
    players: int, epsilon: Scalar, delta: Scalar, bound: Scalar, largest: Scalar
) -> Float[Array, ""]:
    r"""Draws of each of the two steps after which $\|\hat s-s\|_2\le\epsilon$ with probability $1-\delta$.

    $\lceil8\max(R,ZB)^2\frac n{\epsilon^2}\ln\frac{2n}\delta\rceil$: `bound` $=R\ge|U(S\cup i)-U(S)|$, and `largest`
    $=B\ge|U(S)-\frac12(U(\emptyset)+U([n]))|$ for all sets. Bounded increments alone allow a $B$ of the order of $nR$.

    >>> int(group_samples_needed(2, 1.0, 0.5, 1.0, 1.0))
    134
    """
    players = whole("players", players, 2)
    epsilon, delta, bound = _accuracy(epsilon, delta, bound)
    reach = group_constant(players) * positive("largest", real("largest", largest, ""))
    return samples_needed(epsilon / (2 * players**0.5), delta / players, 2 * jnp.maximum(bound, reach))


def _accuracy(epsilon, delta, bound):
    epsilon, bound = positive("epsilon", real("epsilon", epsilon, "")), positive("bound", real("bound", bound, ""))
    return epsilon, within("delta", real("delta", delta, ""), 0.0, 1.0, open="both"), bound


def along_orders(value: Callable, players: int, samples: int, key, batch_size: int) -> Estimate:
    """Increments of all players along `samples` random orders."""
    first, last = _ends(value, players)

    def one(key):
        place = jax.random.permutation(key, players)
        inner = jax.vmap(lambda size: value(place < size))(jnp.arange(1, players))
        return jnp.diff(jnp.concatenate([first[None], inner, last[None]]), axis=0)[place]

    increments = each(jax.vmap(one), jax.random.split(key, samples), max(1, batch_size // players))
    return Estimate(*_mean(increments), 2 + samples * (players - 1))


def by_groups(value: Callable, players: int, samples: int, key, batch_size: int) -> Estimate:
    """The value of the first player from its increments, the others from differences by group testing."""
    first, last = _ends(value, players)
    # a constant has no part in any difference, and the middle of the two ends makes what is left small
    middle, constant, law = (first + last) / 2, group_constant(players), group_law(players)

    def increment(key):
        place = jax.random.permutation(key, players)
        before = place < place[0]
        return value(before.at[0].set(True)) - value(before)

    def differences(key):
        size_key, place_key = jax.random.split(key)
        size = 1 + jax.random.choice(size_key, players - 1, p=law)
        inside = jax.random.permutation(place_key, players) < size
        excess = constant * (value(inside) - middle)
        signs = (inside[0].astype(int) - inside).reshape(players, *[1] * excess.ndim)
        return signs * excess

    one_key, all_key = jax.random.split(key)
    size = max(1, batch_size)
    own, own_error = _mean(each(jax.vmap(increment), jax.random.split(one_key, samples), size))
    apart, error = _mean(each(jax.vmap(differences), jax.random.split(all_key, samples), size))
    return Estimate(own - apart, jnp.sqrt(own_error**2 + error**2), 2 + 3 * samples)


def _ends(value, players: int):
    return value(jnp.zeros(players, bool)), value(jnp.ones(players, bool))


def _mean(draws):
    return draws.mean(0), draws.std(0, ddof=1) / draws.shape[0] ** 0.5
