r"""The transformer: an encoder reads the source, a decoder writes the target one token after the other.

network = Transformer(source=30, target=30, length=20, width=64, heads=4, depth=2, key=key)
network(source, target)                       # logits of every target token given those before it: teacher forcing
network.generate(source, length=20, end=1)    # the most probable token, again and again
network.given(source)                         # a language model of the target, for `corollary.language`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._types import NetworkLike
from corollary._validate import labels, whole
from corollary.catalog import implements
from corollary.nets._greedy import most_probable
from corollary.nets.attention.block import keys_of
from corollary.nets.attention.cache import KeyValueCache, check_room, empty_cache, room
from corollary.nets.attention.decoder import Decoder
from corollary.nets.attention.embedding import TokenEmbedding
from corollary.nets.attention.encoder import Encoder
from corollary.nets.attention.language_model import after_start, token_cross_entropy
from corollary.nets.initialisations import normal
from corollary.nets.layers import FullyConnected
from corollary.network.parts import takes_key


@implements("B10.42", "E06.11", "E06.12", "M13.42")
class Transformer(eqx.Module):
    r"""$p(y_n\mid y_{1:n-1},x)$: embeddings and positions, encoder blocks, decoder blocks, a linear map and softmax.

    `source` and `target` are the numbers of tokens on both sides; one more target token, `start`, stands before the
    first. The defaults are those of the paper that the texts follow: sinusoidal positions, ReLU, normalisation after
    each shortcut. Embeddings have variance 1 in each coordinate, about the size of the positions added to them.
    `unroll` blocks are one turn of the compiled loops over them (`unroll=depth` runs fastest).
    """

    source: TokenEmbedding
    target: TokenEmbedding
    encoder: Encoder
    decoder: Decoder
    readout: FullyConnected
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        source: int,
        target: int,
        length: int,
        width: int,
        heads: int,
        depth: int,
        *,
        key: PRNGKeyArray,
        hidden: int | None = None,
        positions: str = "sinusoidal",
        dropout: float = 0.0,
        unroll: int = 4,
        **options: Any,
    ):
        keys = jax.random.split(key, 5)
        target = whole("target", target)
        embeddings = {"positions": positions, "initialisation": normal(1.0)}
        self.source = TokenEmbedding(whole("source", source), length, width, key=keys[0], **embeddings)
        self.target = TokenEmbedding(target + 1, length, width, key=keys[1], **embeddings)
        options |= {"dropout": dropout, "unroll": unroll}
        self.encoder = Encoder(width, heads, depth, hidden, key=keys[2], **options)
        self.decoder = Decoder(width, heads, depth, hidden, key=keys[3], **options)
        self.readout = FullyConnected(width, target, key=keys[4])
        self.dropout = float(dropout)

    @property
    def start(self) -> int:
        """The target token that stands before the first one."""
        return self.readout.weight.shape[0]

    def encode(self, source: Int[ArrayLike, "..."], *, key: PRNGKeyArray | None = None) -> Float[Array, "..."]:
        """The context (S, width) that the decoder attends to."""
        keys = keys_of(key, 2)
        return self.encoder(self.source(source, dropout=self.dropout, key=keys[0]), key=keys[1])

    def decode(
        self,
        context: Float[ArrayLike, "..."],
        tokens: Int[ArrayLike, "..."],
        *,
        causal: bool = True,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "..."]:
        """Logits (T, target) of the token after each of `tokens` (T,), of which the first is `start`."""
        keys = keys_of(key, 2)
        x = self.target(tokens, dropout=self.dropout, key=keys[0])
        return jax.vmap(self.readout)(self.decoder(x, context, causal=causal, key=keys[1]))

    def __call__(
        self,
        source: Int[ArrayLike, "..."],
        target: Int[ArrayLike, "T"],
        *,
        causal: bool = True,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "..."]:
        """Logits (T, target) of each token of `target` (T,) given the ones before it and `source` (S,)."""
        keys = keys_of(key, 2)
        target = labels("target", target, self.start, "T")
        return self.decode(
            self.encode(source, key=keys[0]), after_start(target, self.start), causal=causal, key=keys[1]
        )

    def log_probability(self, source: Int[ArrayLike, "..."], target: Int[ArrayLike, "..."]) -> Float[Array, ""]:
        r"""$\sum_n\ln p(y_n\mid y_{1:n-1},x)$."""
        return -token_cross_entropy(self(source, target), jnp.asarray(target)).sum()

    def given(self, source: Int[ArrayLike, "..."]) -> "Conditioned":
        """The language model of the target that this source leaves."""
        return Conditioned(self, self.decoder.contexts(self.encode(source)))

    def generate(self, source: Int[ArrayLike, "..."], length: int, end: int | None = None) -> Int[Array, "..."]:
        """The target (length,) by the most probable token at every step, filled up with `end` after the first."""
        return most_probable(self.given(source), whole("length", length, 1, self.target.length), end)


class Conditioned(eqx.Module):
    """The decoder of a transformer with the source put in: `cache` and `step` as those of `LanguageModel`."""

    network: Transformer
    contexts: tuple[jax.Array, jax.Array]

    @property
    def vocabulary(self) -> int:
        return self.network.start

    @property
    def start(self) -> int:
        """The token that stands before the first one."""
        return self.network.start

    def cache(self, length: int | None = None) -> KeyValueCache:
        """What `step` remembers, before the first token, with room for `length` tokens."""
        return empty_cache(self.network.decoder.stack, room(length, self.network.target.length))

    def step(self, token: Int[ArrayLike, ""], cache: KeyValueCache) -> tuple[Float[Array, "_"], Any]:
        """Logits (vocabulary,) of the token after `token`, which comes after those in the cache; and the new cache."""
        check_room(cache)
        network, token = self.network, labels("token", token, self.vocabulary + 1, "")
        x = network.target(token[None], cache.position)[0]
        x, keys, values = network.decoder.step(x, cache.keys, cache.values, cache.position, self.contexts)
        return network.readout(x), KeyValueCache(keys, values, cache.position + 1)


def teacher_forcing_loss(
    network: NetworkLike, batch: Sequence[Array], *, key: PRNGKeyArray | None = None
) -> Float[Array, ""]:
    r"""Mean of $-\ln p(y_n\mid y_{1:n-1},x)$ over all tokens of the targets, in nats.

    `BatchLoss(teacher_forcing_loss)` trains by it: `batch` is the pair of sources (batch, S) and targets (batch, T).
    With a key, dropout acts where there is some.
    """
    source, target = batch
    source, target = jnp.asarray(source), labels("target", target, network.start, "batch T")
    if source.ndim != 2 or source.shape[0] != target.shape[0]:
        raise ValueError(f"source must have shape ({target.shape[0]}, S), one row per target, got {source.shape}.")
    if key is None or not takes_key(network):
        logits = jax.vmap(network)(source, target)
    else:
        keys = jax.random.split(key, len(source))
        logits = jax.vmap(lambda x, y, key: network(x, y, key=key))(source, target, keys)
    return token_cross_entropy(logits, target).mean()
