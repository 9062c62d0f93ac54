"""Blocks in a row: the encoder, which sees whole sequences, and the stack of any blocks as one compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from corollary._validate import whole
from corollary.catalog import implements
from corollary.nets.attention.block import EncoderBlock, tokens_of


class BlockStack(eqx.Module):
    """`depth` blocks of one kind, each with parameters of its own, which lie in one module along a leading axis.

    `make(key)` builds one block. One loop runs them, so that the time to compile does not grow with the depth;
    up to `unroll` of them are one turn of the loop, between which less has to be stored: all of them run fastest.
    """

    blocks: eqx.Module
    depth: int = eqx.field(static=True)
    unroll: int = eqx.field(static=True)

    def __init__(self, make: Callable, depth: int, *, key: PRNGKeyArray, unroll: int = 4):
        self.depth = whole("depth", depth)
        self.unroll = min(whole("unroll", unroll), self.depth)
        self.blocks = eqx.filter_vmap(make)(jax.random.split(key, self.depth))

    def __call__(
        self, x: Float[ArrayLike, "..."], *arguments: Any, key: PRNGKeyArray | None = None, **options: Any
    ) -> Float[Array, "..."]:
        """`x` after all blocks, each called as `block(x, *arguments, key=..., **options)`."""
        return self.run(lambda block, x, key: (block(x, *arguments, key=key, **options), None), x, key=key)[0]

    def run(
        self,
        turn: Callable,
        x: Float[ArrayLike, "..."],
        extras: Sequence[Any] | None = None,
        *,
        key: PRNGKeyArray | None = None,
    ) -> tuple:
        """Carry `x` through `turn(block, x, key)`, or `turn(block, x, key, extra)`, which returns it and an output.

        `extras` have one entry per block along their first axis; so have the stacked outputs.
        """
        arrays, rest = eqx.partition(self.blocks, eqx.is_array)
        keys = None if key is None else jax.random.split(key, self.depth)
        x = x.astype(jnp.result_type(x, *jax.tree.leaves(eqx.filter(arrays, eqx.is_inexact_array))))

        def advance(x, given):
            arrays, key, extra = given
            block = eqx.combine(arrays, rest)
            return turn(block, x, key) if extra is None else turn(block, x, key, extra)

        return jax.lax.scan(advance, x, (arrays, keys, extras), unroll=self.unroll)


@implements("E06.10")
class Encoder(eqx.Module):
    """`depth` encoder blocks: every output token has seen every input token.

    Options beyond these are those of `EncoderBlock`. Without positions among the tokens the encoder commutes with
    permutations of them. With `order="pre"` the last output is normalised once more, as no block did it.
    """

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
            return EncoderBlock(width, heads, hidden, key=key, **options)

        self.stack = BlockStack(make, depth, key=key, unroll=unroll)
        self.norm = eqx.nn.LayerNorm(width) if options.get("order") == "pre" else None

    @property
    def width(self) -> int:
        return self.stack.blocks.attention.query.weight.shape[-1]

    def __call__(
        self,
        x: Float[ArrayLike, "T width"],
        mask: Bool[ArrayLike, "..."] | None = None,
        *,
        causal: bool = False,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "T width"]:
        """The tokens `x` (T, width) after all blocks."""
        x = self.stack(tokens_of("x", x, self.width), mask, causal=causal, key=key)
        return x if self.norm is None else jax.vmap(self.norm)(x)

    def layers(
        self, x: Float[ArrayLike, "T width"], mask: Bool[ArrayLike, "..."] | None = None, *, causal: bool = False
    ) -> Float[Array, "_ _ _"]:
        """The tokens after every block: (depth, T, width), without the last normalisation of `order="pre"`."""

        def turn(block, x, key):
            out = block(x, mask, causal=causal)
            return out, out

        return self.stack.run(turn, tokens_of("x", x, self.width))[1]

    def step(
        self,
        x: Float[ArrayLike, "..."],
        keys: Float[ArrayLike, "..."],
        values: Float[ArrayLike, "..."],
        position: Int[ArrayLike, ""],
    ) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
        """One more token `x` (width,) through all blocks, causally; the caches are (depth, length, heads, size)."""

        def turn(block, x, key, extra):
            x, *cache = block.step(x, *extra, position)
            return x, tuple(cache)

        x, (keys, values) = self.stack.run(turn, x, (keys, values))
        return x if self.norm is None else self.norm(x), keys, values
