r"""A language model: a transformer that only decodes, each token from the ones before it.

    network = LanguageModel(vocabulary=65, length=256, width=384, heads=6, depth=6, key=key)
    network(tokens)                                            # logits of the token after each of them
    next_token_loss(network, sequences)                        # mean of -ln p(y_n | start, y_1..y_{n-1})

`cache` and `step` give the same one token at a time: what `corollary.language` decodes with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._types import NetworkLike
from corollary._validate import labels, real, whole
from corollary.catalog import implements
from corollary.nets.attention.block import keys_of
from corollary.nets.attention.cache import KeyValueCache, check_room, empty_cache, room
from corollary.nets.attention.embedding import TokenEmbedding
from corollary.nets.attention.encoder import Encoder
from corollary.nets.initialisations import normal


@implements("B10.63", "T15.07")
class LanguageModel(eqx.Module):
    r"""$p(y_n\mid y_{1:n-1})=\mathrm{softmax}(Eh_n)$ with $h$ the output of causal blocks and $E$ the embedding matrix.

    The tokens are 0 to `vocabulary - 1`; `start`, one more, stands before the first. `length` is the longest input.
    Blocks are normalised before (`order="pre"`), have GELU units and no biases, and those of their matrices that end
    a shortcut start smaller by $\sqrt{2\,\text{depth}}$, so that depth does not change the size of the sum. The blocks
    are one compiled loop with `unroll` of them per turn: `unroll=depth` runs fastest and takes longest to compile.

    >>> LanguageModel(vocabulary=5, length=8, width=4, heads=2, depth=1, key=key)(jnp.arange(3)).shape
    (3, 5)
    """

    embedding: TokenEmbedding
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
        initialisation: Callable | None = None,
    ):
        initialisation = normal(0.02) if initialisation is None else initialisation
        token_key, block_key = jax.random.split(key)
        self.embedding = TokenEmbedding(
            whole("vocabulary", vocabulary) + 1,
            length,
            width,
            key=token_key,
            positions=positions,
            initialisation=initialisation,
        )
        encoder = Encoder(
            width,
            heads,
            depth,
            hidden,
            key=block_key,
            order="pre",
            activation=activation,
            bias="none",
            dropout=dropout,
            unroll=unroll,
            initialisation=initialisation,
        )
        self.encoder = eqx.tree_at(_ends, encoder, replace_fn=lambda w: w * (2 * depth) ** -0.5)
        self.dropout = float(dropout)

    @property
    def vocabulary(self) -> int:
        return self.embedding.weight.shape[0] - 1

    @property
    def start(self) -> int:
        """The token that stands before the first one."""
        return self.vocabulary

    def __call__(self, tokens: Int[ArrayLike, "..."], *, key: PRNGKeyArray | None = None) -> Float[Array, "..."]:
        """Logits (T, vocabulary) of the token that follows each of `tokens` (T,). With a key, dropout acts."""
        keys = keys_of(key, 2)
        x = self.embedding(tokens, dropout=self.dropout, key=keys[0])
        return self._logits(self.encoder(x, causal=True, key=keys[1]))

    def log_probability(self, tokens: Int[ArrayLike, "T"]) -> Float[Array, ""]:
        r"""$\sum_n\ln p(y_n\mid y_{1:n-1})$ of a whole sequence, from the start."""
        tokens = labels("tokens", tokens, self.vocabulary, "T")
        return -token_cross_entropy(self(after_start(tokens, self.start)), tokens).sum()

    def cache(self, length: int | None = None) -> KeyValueCache:
        """What `step` remembers, before the first token, with room for `length` tokens."""
        limit = self.embedding.length
        instead = f": corollary.language.LastTokens(model, {limit}) goes on with the last {limit} of them"
        return empty_cache(self.encoder.stack, room(length, limit, instead=instead))

    def step(self, token: Int[ArrayLike, ""], cache: KeyValueCache) -> tuple[Float[Array, "_"], Any]:
        """Logits (vocabulary,) of the token after `token`, which comes after those in the cache; and the new cache."""
        check_room(cache)
        token = labels("token", token, self.vocabulary + 1, "")
        x = self.embedding(token[None], cache.position)[0]
        x, keys, values = self.encoder.step(x, cache.keys, cache.values, cache.position)
        return self._logits(x), KeyValueCache(keys, values, cache.position + 1)

    def _logits(self, x):
        return x @ self.embedding.weight[: self.vocabulary].T


@implements("B10.63")
def next_token_loss(
    network: NetworkLike,
    sequences: Int[ArrayLike, "batch T"],
    *,
    key: PRNGKeyArray | None = None,
    dtype: DTypeLike | None = None,
    start: bool = True,
) -> Float[Array, ""]:
    r"""Mean of $-\ln p(y_n\mid y_{1:n-1})$ over all tokens of `sequences` (batch, T), in nats.

    Inputs are (start, $y_1,\dots,y_{T-1}$) and targets $(y_1,\dots,y_T)$. With `start=False` the sequences are pieces
    of a longer text: the first token of each is only looked at. `dtype` computes in another precision (bfloat16) than
    the parameters have; the softmax stays in single precision at least. With a key, dropout acts.
    """
    sequences = labels("sequences", sequences, network.vocabulary, "batch T")
    if not start and sequences.shape[1] < 2:
        raise ValueError("sequences must be of two tokens or more when no start stands before them.")
    network = network if dtype is None else in_dtype(network, dtype)
    targets = sequences if start else sequences[:, 1:]
    inputs = after_start(sequences, network.start) if start else sequences[:, :-1]
    if key is None:
        logits = jax.vmap(network)(inputs)
    else:
        logits = jax.vmap(lambda tokens, key: network(tokens, key=key))(inputs, jax.random.split(key, len(inputs)))
    return token_cross_entropy(logits, targets).mean()


def token_cross_entropy(logits: Float[ArrayLike, "..."], targets: Int[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$-\ln\mathrm{softmax}_y(z)$ for logits (..., classes) and targets (...), in single precision at least.

    A comparison picks the target's logit, because it melts into the sums before and after: no copy of the logits in
    another precision, no scattering in the gradient.
    """
    logits = real("logits", logits, finite=False)
    if jnp.shape(targets) != logits.shape[:-1]:
        raise ValueError(f"targets must have shape {logits.shape[:-1]}, as the logits, got {jnp.shape(targets)}.")
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    hit = jnp.asarray(targets)[..., None] == jnp.arange(logits.shape[-1])
    return jax.nn.logsumexp(wide, axis=-1) - jnp.sum(jnp.where(hit, wide, 0), axis=-1)


def in_dtype(network: NetworkLike, dtype: DTypeLike) -> LanguageModel:
    """The network with its floating-point arrays in another precision; gradients come back in the first one."""
    return jax.tree.map(lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, network)


def after_start(tokens, start: int):
    """Tokens along the last axis moved by one, with the start token before them and without the last one."""
    first = jnp.full((*tokens.shape[:-1], 1), start, tokens.dtype)
    return jnp.concatenate([first, tokens[..., :-1]], axis=-1)


def _ends(encoder):
    blocks = encoder.stack.blocks
    return [blocks.attention.output.weight, blocks.feed_forward.layers[-1].weight]
