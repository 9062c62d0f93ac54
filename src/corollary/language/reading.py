r"""How a network reads: whether its outputs move with later tokens, and with the order of earlier ones.

A network of tokens gives a row of outputs for each of them. Tokens are changed, the rows are compared: no derivative is
taken, so that any network can be asked. Constants that are added to a row mean nothing to a softmax and do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._validate import labels, whole
from corollary.network.batches import each


class LookAhead(NamedTuple):
    """Mean squares that the rows of each sequence move by when the tokens after a place are others.

    `earlier` is that of the rows up to that place, exactly 0 in a causal network; `later` that of the rows after it.
    """

    earlier: Float[Array, "n"]
    later: Float[Array, "n"]

    __repr__ = shown


class OrderEffect(NamedTuple):
    """Squares that the last row of each sequence moves by when the tokens before it are permuted, or replaced."""

    permuted: Float[Array, "n"]
    replaced: Float[Array, "n"]

    __repr__ = shown


def look_ahead(
    network: Callable,
    x: Int[ArrayLike, "n T"],
    *,
    key: PRNGKeyArray,
    known: Bool[ArrayLike, "n T"] | None = None,
    beside: PyTree = None,
    draws: int = 4,
    batch_size: int = 64,
) -> LookAhead:
    """What rows move by when later tokens change: of every sequence at `draws` places drawn at random.

    `network(tokens)` takes one sequence and gives a row for each of its tokens; with `beside`, a pytree of other inputs
    with the sequences along the first axis, it is `network(tokens, beside)`. Tokens after the place are drawn from all
    of `x`. Rows count where `known`, everywhere unless given.

    >>> tokens = jnp.array([[0, 1, 2, 3], [3, 1, 0, 2]])
    >>> float(look_ahead(lambda tokens: jnp.eye(4)[tokens], tokens, key=key).earlier.max())
    0.0
    """
    x, known, draws = _checked(network, x, known, draws, 2)
    cut_key, token_key = jax.random.split(key)
    cuts = jax.random.randint(cut_key, (x.shape[0], draws), 1, x.shape[1])
    drawn = jax.random.choice(token_key, x.ravel(), (x.shape[0], draws, x.shape[1]))
    return LookAhead(*_ahead(network, (x, known, cuts, drawn), beside, whole("batch_size", batch_size)))


def order_effect(
    network: Callable,
    x: Int[ArrayLike, "n T"],
    *,
    key: PRNGKeyArray,
    known: Bool[ArrayLike, "n T"] | None = None,
    beside: PyTree = None,
    draws: int = 4,
    batch_size: int = 64,
) -> OrderEffect:
    """What the last row moves by when the tokens before it stand in another order, and when they are others.

    Arguments are those of `look_ahead`. The last row is that of the last known place, and tokens change at known places
    alone: where padding stands is no order of tokens. Permutations are random, so that some may change nothing.

    >>> tokens = jnp.array([[0, 1, 2, 3], [3, 1, 0, 2]])
    >>> mean = lambda tokens: jnp.cumsum(jnp.eye(4)[tokens], 0)
    >>> float(order_effect(mean, tokens, key=key).permuted.max())
    0.0
    """
    x, known, draws = _checked(network, x, known, draws, 3)
    order_key, token_key = jax.random.split(key)
    ranks = jax.random.uniform(order_key, (x.shape[0], draws, x.shape[1]))
    drawn = jax.random.choice(token_key, x.ravel(), ranks.shape)
    return OrderEffect(*_order(network, (x, known, ranks, drawn), beside, whole("batch_size", batch_size)))


def _checked(network, x, known, draws, least):
    if not callable(network):
        raise TypeError(f"network must be a function of tokens, got {type(network).__name__}.")
    x = labels("x", x, None, "n T")
    if x.shape[0] == 0 or x.shape[1] < least:
        raise ValueError(f"x must hold sequences of at least {least} tokens, got shape {x.shape}.")
    known = jnp.ones(x.shape, bool) if known is None else jnp.asarray(known)
    if known.shape != x.shape or known.dtype != bool:
        raise ValueError(f"known must be an array of booleans of shape {x.shape}, got {known.dtype} {known.shape}.")
    return x, known, whole("draws", draws)


def _rows(network, tokens, beside):
    """The rows of one sequence less what is common to a row."""
    out = network(tokens) if beside is None else network(tokens, beside)
    if jnp.ndim(out) != 2 or out.shape[0] != tokens.shape[0]:
        raise ValueError(f"network must give a row for each of {tokens.shape[0]} tokens, got shape {jnp.shape(out)}.")
    return out - jnp.mean(out, -1, keepdims=True)


@eqx.filter_jit
def _ahead(network, data, beside, batch_size):
    def one(given):
        (x, known, cuts, drawn), beside = given
        place = jnp.arange(x.shape[0])
        plain, *others = _all_rows(network, [x, jnp.where(place < cuts[:, None], x, drawn)], beside)
        far = jnp.sum((others[0] - plain) ** 2, -1)
        sides = place < cuts[:, None], place >= cuts[:, None]
        return [jnp.mean(jax.vmap(_mean)(far, known & side)) for side in sides]

    return each(jax.vmap(one), (data, beside), batch_size)


@eqx.filter_jit
def _order(network, data, beside, batch_size):
    def one(given):
        (x, known, ranks, drawn), beside = given
        place = jnp.arange(x.shape[0])
        last = jnp.max(jnp.where(known, place, 0))
        early = known & (place < last)
        own = jnp.argsort(jnp.where(early, place, x.shape[0]))
        # what is not early comes last, as it stands
        order = jnp.argsort(jnp.where(early, ranks, np.inf), axis=-1)
        permuted = jax.vmap(lambda order: x.at[own].set(x[order]))(order)
        plain, *others = _all_rows(network, [x, permuted, jnp.where(early, drawn, x)], beside)
        return [jnp.mean(jnp.sum((other[:, last] - plain[last]) ** 2, -1)) for other in others]

    return each(jax.vmap(one), (data, beside), batch_size)


def _all_rows(network, texts, beside):
    """The rows of the first text, and those of each stack of others: by one program, so that they round alike."""
    first, *others = texts
    rows = jax.vmap(lambda tokens: _rows(network, tokens, beside))(jnp.concatenate([first[None], *others]))
    ends = np.cumsum([1, *(len(other) for other in others)])
    return [rows[0], *(rows[a:b] for a, b in pairwise(ends))]


def _mean(values, where):
    return jnp.sum(jnp.where(where, values, 0.0)) / jnp.maximum(jnp.sum(where), 1)
