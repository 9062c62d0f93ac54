"""The two tasks that BERT learns from plain text: fill in hidden words, and tell whether a sentence follows another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._validate import labels, whole, within
from corollary.catalog import implements
from corollary.nets.attention.language_model import token_cross_entropy

RATE = 0.15
SHARES = (0.8, 0.1, 0.1)


class Masked(NamedTuple):
    """Tokens with some of them hidden, the tokens as they were, and which of them are to be predicted."""

    inputs: jax.Array
    targets: jax.Array
    chosen: jax.Array

    __repr__ = shown


@implements("E06.16")
def mask_tokens(
    tokens: Int[ArrayLike, "... T"],
    vocabulary: int,
    mask: int,
    *,
    key: PRNGKeyArray,
    rate: float = RATE,
    shares: Sequence[float] = SHARES,
) -> Masked:
    """Choose each token with probability `rate`; a chosen one becomes `mask`, a random word, or stays as it is.

    `shares` are the probabilities of the three, 80 %, 10 % and 10 % unless given: words that stay or are replaced keep
    the model from trusting the words it sees. Tokens of `vocabulary` and above (special ones) are never chosen.
    """
    tokens = labels("tokens", tokens, None, "... T")
    vocabulary, mask = whole("vocabulary", vocabulary), whole("mask", mask, 0)
    within("rate", rate, 0.0, 1.0)
    shares = np.asarray(shares, float)
    if shares.shape != (3,) or (shares < 0).any() or abs(shares.sum() - 1) > 1e-6:
        raise ValueError(f"shares must be three probabilities that sum to 1, got {shares.tolist()}.")
    choose_key, part_key, word_key = jax.random.split(key, 3)
    chosen = (jax.random.uniform(choose_key, tokens.shape) < rate) & (tokens < vocabulary)
    part = jax.random.uniform(part_key, tokens.shape)
    words = jax.random.randint(word_key, tokens.shape, 0, vocabulary, tokens.dtype)
    hidden = jnp.where(part < shares[0], mask, jnp.where(part < shares[0] + shares[1], words, tokens))
    return Masked(jnp.where(chosen, hidden, tokens), tokens, chosen)


@implements("E06.16")
def masked_loss(
    logits: Float[ArrayLike, "..."], targets: Int[ArrayLike, "..."], chosen: Bool[ArrayLike, "..."]
) -> Float[Array, ""]:
    """Mean of the cross-entropy over the chosen tokens alone, in nats: logits (..., T, words); 0 if none is chosen.

    Targets that are not chosen may be anything, special tokens too.
    """
    chosen = jnp.asarray(chosen)
    targets = jnp.where(chosen, jnp.asarray(targets), 0)
    losses = token_cross_entropy(logits, targets)
    if chosen.shape != losses.shape:
        raise ValueError(f"chosen must have shape {losses.shape}, as the targets, got {chosen.shape}.")
    return jnp.sum(jnp.where(chosen, losses, 0)) / jnp.maximum(jnp.sum(chosen), 1)


class Pairs(NamedTuple):
    """Two sentences (n, L) each, and 1 where the second is the one that follows the first, else 0."""

    first: jax.Array
    second: jax.Array
    follows: jax.Array

    __repr__ = shown


@implements("E06.17")
def sentence_pairs(sentences: Int[ArrayLike, "n L"], *, key: PRNGKeyArray) -> Pairs:
    """Each sentence (n, L) but the last with its successor, or, half of the time, with another drawn at random.

    The random one is drawn among all sentences that are not the successor.
    """
    sentences = labels("sentences", sentences, None, "n L")
    n = sentences.shape[0]
    if n < 3:
        raise ValueError(f"sentences must hold at least 3, so that one other than the next can be drawn, got {n}.")
    coin_key, other_key = jax.random.split(key)
    follows = jax.random.bernoulli(coin_key, shape=(n - 1,))
    after = jnp.arange(1, n)
    # a distance of 1 to n - 1 around the circle never comes back to the successor
    other = (after + jax.random.randint(other_key, (n - 1,), 1, n)) % n
    return Pairs(sentences[:-1], sentences[jnp.where(follows, after, other)], follows.astype(sentences.dtype))
