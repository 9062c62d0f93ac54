r"""BERT: an encoder of whole sentences, trained to fill in words that were taken out.

A sequence is [CLS], the tokens, [SEP], and maybe a second sentence and another [SEP]. The vectors of its tokens see the
words on both sides; heads turn them into answers. All weights are trained on, also those of the encoder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._validate import labels, whole
from corollary.catalog import implements
from corollary.nets.attention.block import keys_of
from corollary.nets.attention.embedding import TokenEmbedding
from corollary.nets.attention.encoder import Encoder
from corollary.nets.attention.heads import ClassHead, TokenHead
from corollary.nets.initialisations import normal


class Sentences(NamedTuple):
    """Tokens (T,) of one or two sentences with their special tokens, and 0 or 1 for the sentence each is part of."""

    tokens: jax.Array
    segments: jax.Array

    __repr__ = shown


@implements("E06.15")
class BERT(eqx.Module):
    """Token, position and segment vectors, normalised, then encoder blocks: one vector for each token in its context.

    The words are 0 to `vocabulary - 1`; after them come the special tokens `cls`, `sep` and `mask`. `unroll`
    blocks are one turn of the compiled loop over them (`unroll=depth` runs fastest). Options beyond these are those of
    `EncoderBlock`.
    """

    embedding: TokenEmbedding
    segment: jax.Array
    norm: eqx.nn.LayerNorm
    encoder: Encoder
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        vocabulary: int,
        length: int,
        width: int,
        heads: int,
        depth: int,
        *,
        key: PRNGKeyArray,
        hidden: int | None = None,
        positions: str = "learned",
        activation: Callable = jax.nn.gelu,
        dropout: float = 0.0,
        unroll: int = 4,
        **options: Any,
    ):
        keys = jax.random.split(key, 3)
        self.embedding = TokenEmbedding(
            whole("vocabulary", vocabulary) + 3, length, width, key=keys[0], positions=positions
        )
        self.segment = normal(0.02)(keys[1], (2, width), jnp.result_type(float))
        self.norm = eqx.nn.LayerNorm(width)
        self.encoder = Encoder(
            width, heads, depth, hidden, key=keys[2], activation=activation, dropout=dropout, unroll=unroll, **options
        )
        self.dropout = float(dropout)

    @property
    def vocabulary(self) -> int:
        return self.embedding.weight.shape[0] - 3

    @property
    def cls(self) -> int:
        """The token that stands first and whose vector speaks for the whole."""
        return self.vocabulary

    @property
    def sep(self) -> int:
        """The token after each sentence."""
        return self.vocabulary + 1

    @property
    def mask(self) -> int:
        """The token in the place of a word that is to be guessed."""
        return self.vocabulary + 2

    def __call__(
        self,
        tokens: Int[ArrayLike, "..."],
        segments: Int[ArrayLike, "_"] | None = None,
        mask: Bool[ArrayLike, "..."] | None = None,
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "..."]:
        """The vectors (T, width) of `tokens` (T,); `mask` as in attention, everybody sees everybody without."""
        keys = keys_of(key, 2)
        x = self.embedding(tokens, dropout=self.dropout, key=keys[0])
        if segments is not None:
            segments = labels("segments", segments, 2, str(x.shape[0]))
            x = x + jax.nn.one_hot(segments, 2, dtype=self.segment.dtype) @ self.segment
        return self.encoder(jax.vmap(self.norm)(x), mask, key=keys[1])

    def sentences(self, first: Int[ArrayLike, "n"], second: Int[ArrayLike, "m"] | None = None) -> Sentences:
        """[CLS] first [SEP], and then second [SEP] where there is one."""
        first = labels("first", first, self.vocabulary, "n")
        cls, sep = jnp.asarray([self.cls]), jnp.asarray([self.sep])
        parts = [cls, first, sep]
        if second is not None:
            parts += [labels("second", second, self.vocabulary, "m"), sep]
        tokens = jnp.concatenate(parts)
        return Sentences(tokens, (jnp.arange(tokens.shape[0]) > first.shape[0] + 1).astype(tokens.dtype))


@implements("E06.16", "E06.17")
class PretrainingBERT(eqx.Module):
    """BERT with the two heads that it is trained with, jointly: the hidden words, and whether the second sentence
    follows the first."""

    encoder: BERT
    words: TokenHead
    follows: ClassHead

    def __init__(self, encoder: BERT, *, key: PRNGKeyArray):
        word_key, follow_key = jax.random.split(key)
        width = encoder.segment.shape[1]
        self.encoder = encoder
        self.words = TokenHead(width, encoder.vocabulary, key=word_key)
        self.follows = ClassHead(width, 2, key=follow_key)

    def __call__(
        self,
        tokens: Int[ArrayLike, "..."],
        segments: Int[ArrayLike, "..."] | None = None,
        mask: Bool[ArrayLike, "..."] | None = None,
        *,
        key: PRNGKeyArray | None = None,
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Logits (T, vocabulary) of the words and (2,) of "no" and "yes, it follows"."""
        x = self.encoder(tokens, segments, mask, key=key)
        return self.words(x), self.follows(x)
