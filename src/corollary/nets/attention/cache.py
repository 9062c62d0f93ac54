"""What a decoder keeps of the tokens it has seen, so that the next one costs one row of attention and not all of it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from corollary._show import shown
from corollary._validate import concrete, whole


class KeyValueCache(NamedTuple):
    """Keys and values of every block, (depth, length, heads, size) each, of which the first `position` are filled."""

    keys: jax.Array
    values: jax.Array
    position: jax.Array

    __repr__ = shown


def empty_cache(stack, length: int) -> KeyValueCache:
    """The cache of a stack of blocks before the first token, with room for `length` of them."""
    attention, length = stack.blocks.attention, whole("length", length)

    def rows(layer):
        return jnp.zeros(
            (stack.depth, length, attention.heads, layer.weight.shape[-2] // attention.heads), layer.weight.dtype
        )

    return KeyValueCache(rows(attention.key), rows(attention.value), jnp.zeros((), jnp.int32))


def room(length: int | None, limit: int, *, instead: str = "") -> int:
    """`length` tokens, or as many as the model takes; one sentence if that is more than it takes, and what to do."""
    length = limit if length is None else whole("length", length)
    if length > limit:
        raise ValueError(
            f"the model takes at most {limit} tokens, prompt included, and {length} are asked for{instead}."
        )
    return length


def check_room(cache: KeyValueCache):
    """Refuse a token for which there is no room, where that can be seen: inside a trace it cannot."""
    length = cache.keys.shape[1]
    if concrete(cache.position) and int(cache.position) >= length:
        raise ValueError(f"cache must have room for another token, but all {length} places are filled.")
