"""The most probable token, again and again: what sequence-to-sequence networks generate by."""

import jax
import jax.numpy as jnp

from corollary._validate import whole


def most_probable(model, length: int, end: int | None):
    """Tokens (length,) of a `model` with `start`, `cache` and `step`, filled up with `end` after the first `end`.

    `corollary.language` has this search with its probability, and five others.
    """
    end = -1 if end is None else whole("end", end, 0, model.start - 1)

    def advance(carry, _):
        token, cache, ended = carry
        logits, cache = model.step(token, cache)
        token = jnp.where(ended, end, jnp.argmax(logits))
        return (token, cache, ended | (token == end)), token

    carry = jnp.asarray(model.start), model.cache(length), jnp.asarray(False)
    return jax.lax.scan(advance, carry, length=length)[1]
