"""Masks: which keys a query may attend to. True allows, False forbids."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float

from corollary._validate import whole
from corollary.catalog import implements


@implements("B10.61")
def causal_mask(queries: int, keys: int | None = None) -> Bool[Array, "_ _"]:
    """(queries, keys): the last query sees all keys, each one before it one key less.

    With more keys than queries the first keys are older than the first query, as those in a cache are.
    """
    queries = whole("queries", queries)
    keys = queries if keys is None else whole("keys", keys, queries)
    return jnp.tri(queries, keys, keys - queries, dtype=bool)


@implements("B10.61")
def additive_mask(mask: Bool[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""What a boolean mask adds to the logits: $M_{ij}=0$ where it allows and $-\infty$ where it forbids."""
    mask = jnp.asarray(mask)
    if mask.dtype != jnp.bool_:
        raise TypeError(f"mask must be boolean, True where a query may attend to a key, got dtype {mask.dtype}.")
    return jnp.where(mask, 0.0, -jnp.inf)
