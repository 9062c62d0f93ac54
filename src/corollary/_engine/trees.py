"""Arithmetic on pytrees of real arrays, and random ones: a pytree is the vector of all its entries, leaf by leaf."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree


def each(function: Callable, first, *rest):
    """`function` on the leaves of trees of one structure; the result keeps the precision of the first."""
    return jax.tree.map(lambda a, *others: function(a, *others).astype(a.dtype), first, *rest)


def size_of(tree) -> int:
    """The number of entries."""
    return sum(jnp.size(leaf) for leaf in jax.tree.leaves(tree))


def squared_norm(tree):
    """The sum of the squares of all entries."""
    return sum(jnp.sum(jnp.ravel(leaf) ** 2) for leaf in jax.tree.leaves(tree))


def drawn_like(draw: Callable, tree):
    """`draw(size, dtype)`, a vector, in the shape of `tree`: the same entries however a vector is cut into leaves."""
    flat, shape_back = ravel_pytree(tree)
    return shape_back(draw(flat.size, flat.dtype).astype(flat.dtype))


def normal_like(key, tree):
    """Independent standard normal entries in the shape of `tree`."""
    return drawn_like(lambda size, dtype: jax.random.normal(key, (size,), dtype), tree)


#: further than any loop counts
_APART = 2**32 - 1


class Draws(NamedTuple):
    """A source of random keys as plain arrays, so that it can be a part of a state that is mapped, chosen and saved."""

    data: Any
    count: Any


def draws_from(key) -> Draws:
    """The source that `key` begins; no loop that counts its steps from the same key draws the same numbers."""
    return Draws(jax.random.key_data(jax.random.fold_in(key, _APART)), jnp.zeros((), jnp.int32))


def next_key(draws: Draws, key):
    """The key of the next draw, of the kind of `key`, and the source after it."""
    base = jax.random.wrap_key_data(draws.data, impl=jax.random.key_impl(key))
    return jax.random.fold_in(base, draws.count), draws._replace(count=draws.count + 1)
