"""Attention with queries that do not depend on the input: tokens in any order go in, always so many come out."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.attention.multi_head import MultiHeadAttention
from corollary.nets.initialisations import uniform_fan_in


@implements("M13.36")
class AttentionPooling(eqx.Module):
    r"""$\mathrm{softmax}(Q_0K^\top/\sqrt{d_k})VW_o$ with learned queries: (T, inputs) to (queries, outputs).

    `seeds` (queries, inputs) are what the queries of all heads are projected from, $Q_0=SW^Q$.
    """

    seeds: jax.Array
    attention: MultiHeadAttention

    def __init__(self, inputs: int, queries: int = 1, heads: int = 1, *, key: PRNGKeyArray, **options: Any):
        queries = whole("queries", queries)
        seed_key, key = jax.random.split(key)
        self.attention = MultiHeadAttention(inputs, heads, key=key, **options)
        self.seeds = uniform_fan_in(seed_key, (queries, inputs), self.attention.query.weight.dtype)

    def __call__(
        self, x: Float[ArrayLike, "T inputs"], mask: Bool[ArrayLike, "..."] | None = None
    ) -> Float[Array, "_ _"]:
        """The summaries (queries, outputs) of the tokens `x` (T, inputs), whatever their order."""
        x = real("x", x, "T inputs", finite=False)
        return self.attention(self.seeds.astype(x.dtype), x, mask)

    def weights(
        self, x: Float[ArrayLike, "T inputs"], mask: Bool[ArrayLike, "..."] | None = None
    ) -> Float[Array, "_ _ _"]:
        """The share of each token in each summary: (heads, queries, T)."""
        x = real("x", x, "T inputs", finite=False)
        return self.attention.weights(self.seeds.astype(x.dtype), x, mask)
