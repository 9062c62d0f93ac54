"""Recurrence first, attention afterwards: the tokens that attend to each other are hidden states."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.attention.multi_head import MultiHeadAttention
from corollary.nets.recurrent.bidirectional import Bidirectional
from corollary.nets.recurrent.lstm import LSTM
from corollary.nets.recurrent.unroll import unroll


@implements("M13.45")
class LSTMAttention(eqx.Module):
    """From sequences (T, inputs) to (T, units): an LSTM, or one in each direction, and self-attention on top of it.

    The hidden states know the order of their inputs, so that no positional encoding is needed. `causal` lets a step
    attend to itself and what came before.
    """

    recurrent: Any
    attention: MultiHeadAttention

    def __init__(
        self, inputs: int, units: int, heads: int = 1, *, key: PRNGKeyArray, bidirectional: bool = False, **options: Any
    ):
        units = whole("units", units)
        first, second, mix = jax.random.split(key, 3)
        self.recurrent = LSTM(inputs, units, key=first, **options)
        if bidirectional:
            self.recurrent = Bidirectional(self.recurrent, LSTM(inputs, units, key=second, **options))
        tokens = 2 * units if bidirectional else units
        self.attention = MultiHeadAttention(tokens, heads, key=mix, outputs=units)

    def tokens(self, xs: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The hidden states of all steps."""
        return self.recurrent(xs) if isinstance(self.recurrent, Bidirectional) else unroll(self.recurrent, xs).hidden

    def __call__(self, xs: Float[ArrayLike, "T n"], *, causal: bool = False) -> Float[Array, "_ _"]:
        return self.attention(self.tokens(real("xs", xs, "T n", finite=False)), causal=causal)

    def weights(self, xs: Float[ArrayLike, "T n"], *, causal: bool = False) -> Float[Array, "_ _ _"]:
        """Which step attends to which, (heads, T, T)."""
        return self.attention.weights(self.tokens(real("xs", xs, "T n", finite=False)), causal=causal)
