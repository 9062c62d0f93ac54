r"""The decoder of a transformer: attention to the earlier tokens of the target, then to the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._validate import one_of
from corollary.catalog import implements
from corollary.nets.activations import relu
from corollary.nets.attention.block import (
    BIASES,
    Sublayer,
    cached_attention,
    keys_of,
    token_network,
    tokens_of,
)
from corollary.nets.attention.encoder import BlockStack
from corollary.nets.attention.multi_head import MultiHeadAttention
from corollary.nets.initialisations import uniform_fan_in


@implements("B10.41")
class DecoderBlock(eqx.Module):
    """Masked self-attention, attention to a context, and a network of each token, each beside a shortcut.

    Queries of the second attention come from the target, keys and values from the context, which is the encoder's
    output. Output $i$ depends on the target tokens $1..i$ and on the whole context. Options as for `EncoderBlock`.
    """

    attention: MultiHeadAttention
    cross: MultiHeadAttention
    feed_forward: eqx.Module
    around: tuple[Sublayer, Sublayer, Sublayer]

    def __init__(
        self,
        width: int,
        heads: int = 1,
        hidden: int | None = None,
        *,
        key: PRNGKeyArray,
        order: str = "post",
        activation: Callable = relu,
        feed_forward: Callable | None = None,
        bias: str = "all",
        dropout: float = 0.0,
        initialisation: Callable = uniform_fan_in,
    ):
        keys = jax.random.split(key, 3)
        has_bias = one_of("bias", bias, BIASES) == "all"
        options = {"bias": has_bias, "initialisation": initialisation}
        self.attention = MultiHeadAttention(width, heads, key=keys[0], **options)
        self.cross = MultiHeadAttention(width, heads, key=keys[1], **options)
        self.feed_forward = token_network(
            width, hidden, activation, feed_forward, bias=bias, initialisation=initialisation, key=keys[2]
        )
        self.around = tuple(Sublayer(width, order, 1.0, dropout) for _ in range(3))

    def __call__(
        self,
        x: Float[ArrayLike, "..."],
        context: Float[ArrayLike, "..."],
        *,
        causal: bool = True,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "..."]:
        """The target tokens `x` (T, width) after the block; `causal=False` leaves out the mask that makes a decoder."""
        keys = keys_of(key, 3)
        x = self.around[0](x, lambda x: self.attention(x, causal=causal), keys[0])
        x = self.around[1](x, lambda x: self.cross(x, context), keys[1])
        return self.around[2](x, jax.vmap(self.feed_forward), keys[2])

    def step(
        self,
        x: Float[ArrayLike, "..."],
        keys: Float[ArrayLike, "..."],
        values: Float[ArrayLike, "..."],
        position: Int[ArrayLike, ""],
        context: Sequence[Array],
    ) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
        """One more target token `x` (width,), as in `EncoderBlock.step`; `context` is `cross.keys_values(...)`."""
        tokens, keys, values = cached_attention(self.attention, self.around[0], x[None], keys, values, position)
        tokens = self.around[1](tokens, lambda x: self.cross.attend(x, *context))
        return self.around[2](tokens, jax.vmap(self.feed_forward))[0], keys, values


@implements("M13.42")
class PrintedDecoderBlock(eqx.Module):
    """The decoder block as M, Section 13.9.2, describes it: free attention, then masked attention, then the network.

    Its first attention has no mask, so that it is no decoder: every output sees every token. And it never sees the
    encoder. Kept to show both; `DecoderBlock` is the one of the paper that M cites.
    """

    attention: MultiHeadAttention
    masked: MultiHeadAttention
    feed_forward: eqx.Module
    around: tuple[Sublayer, Sublayer, Sublayer]

    def __init__(self, width: int, heads: int = 1, hidden: int | None = None, *, key: PRNGKeyArray):
        keys = jax.random.split(key, 3)
        self.attention = MultiHeadAttention(width, heads, key=keys[0])
        self.masked = MultiHeadAttention(width, heads, key=keys[1])
        self.feed_forward = token_network(
            width, hidden, relu, None, bias="hidden", initialisation=uniform_fan_in, key=keys[2]
        )
        self.around = tuple(Sublayer(width, "post", 1.0, 0.0) for _ in range(3))

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The tokens `x` (T, width) after the block."""
        x = self.around[0](x, self.attention)
        x = self.around[1](x, lambda x: self.masked(x, causal=True))
        return self.around[2](x, jax.vmap(self.feed_forward))


@implements("E06.11")
class Decoder(eqx.Module):
    """`depth` decoder blocks on one context. Options beyond these are those of `DecoderBlock`."""

    stack: BlockStack
    norm: eqx.nn.LayerNorm | None

    def __init__(
        self,
        width: int,
        heads: int,
        depth: int,
        hidden: int | None = None,
        *,
        key: PRNGKeyArray,
        unroll: int = 4,
        **options: Any,
    ):
        def make(key):
            return DecoderBlock(width, heads, hidden, key=key, **options)

        self.stack = BlockStack(make, depth, key=key, unroll=unroll)
        self.norm = eqx.nn.LayerNorm(width) if options.get("order") == "pre" else None

    @property
    def width(self) -> int:
        return self.stack.blocks.attention.query.weight.shape[-1]

    def __call__(
        self,
        x: Float[ArrayLike, "T width"],
        context: Float[ArrayLike, "_ width"],
        *,
        causal: bool = True,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "T _"]:
        """The target tokens `x` (T, width) after all blocks, on a `context` (S, width)."""
        x, context = tokens_of("x", x, self.width), tokens_of("context", context, self.width)
        x = self.stack(x, context, causal=causal, key=key)
        return x if self.norm is None else jax.vmap(self.norm)(x)

    def contexts(self, context: Float[ArrayLike, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Keys and values of the context in every block, (depth, S, heads, size) each: computed once per source."""

        def turn(block, x, key):
            return x, block.cross.keys_values(context)

        return self.stack.run(turn, jnp.zeros(()))[1]

    def step(
        self,
        x: Float[ArrayLike, "..."],
        keys: Float[ArrayLike, "..."],
        values: Float[ArrayLike, "..."],
        position: Int[ArrayLike, ""],
        contexts: Sequence[Array],
    ) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
        """One more target token `x` (width,) through all blocks; the caches are (depth, length, heads, size)."""

        def turn(block, x, key, extra):
            x, *cache = block.step(x, extra[0], extra[1], position, extra[2])
            return x, tuple(cache)

        x, (keys, values) = self.stack.run(turn, x, (keys, values, contexts))
        return x if self.norm is None else self.norm(x), keys, values
