"""What is put on top of an encoder for a task: a class of the whole, of every token, or a span of tokens."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import real
from corollary.catalog import implements
from corollary.nets.layers import FullyConnected


@implements("E06.18")
class ClassHead(eqx.Module):
    """Classes of the whole sequence from its first token, [CLS]: sentiment, or whether a sentence follows another."""

    layer: FullyConnected

    def __init__(self, width: int, classes: int, *, key: PRNGKeyArray):
        self.layer = FullyConnected(width, classes, key=key)

    def __call__(self, x: Float[ArrayLike, "T width"]) -> Float[Array, "_"]:
        """Logits (classes,) from the tokens `x` (T, width)."""
        return self.layer(real("x", x, "T width", finite=False)[0])


@implements("E06.18")
class TokenHead(eqx.Module):
    """Classes of every token: its part of speech, or the word that a mask hides."""

    layer: FullyConnected

    def __init__(self, width: int, classes: int, *, key: PRNGKeyArray):
        self.layer = FullyConnected(width, classes, key=key)

    def __call__(self, x: Float[ArrayLike, "T width"]) -> Float[Array, "T _"]:
        """Logits (T, classes) from the tokens `x` (T, width)."""
        return jax.vmap(self.layer)(real("x", x, "T width", finite=False))


@implements("E06.18")
class SpanHead(eqx.Module):
    """Two scores of every token, as the first and as the last of the answer: the start and the end of a span."""

    layer: FullyConnected

    def __init__(self, width: int, *, key: PRNGKeyArray):
        self.layer = FullyConnected(width, 2, key=key)

    def __call__(self, x: Float[ArrayLike, "T width"]) -> Float[Array, "_ _"]:
        """Scores (2, T) of the tokens `x` (T, width) as start and as end."""
        return jax.vmap(self.layer)(real("x", x, "T width", finite=False)).T


class Span(NamedTuple):
    """First and last token of a span, both included, and the sum of their scores."""

    start: jax.Array
    end: jax.Array
    score: jax.Array

    __repr__ = shown


@implements("E06.18")
def best_span(starts: Float[ArrayLike, "T"], ends: Float[ArrayLike, "T"]) -> Span:
    r"""The span $i\le j$ with the largest $s_i+e_j$ in one pass: the best start so far, for every end."""
    dims = {}
    starts, ends = real("starts", starts, "T", dims), real("ends", ends, "T", dims)
    best = jax.lax.cummax(starts)
    end = jnp.argmax(best + ends)
    start = jnp.argmax(jnp.where(jnp.arange(dims["T"]) <= end, starts, -jnp.inf))
    return Span(start, end, starts[start] + ends[end])
