"""Tokens as vectors: a row of a table for what a token is, plus a vector for where it stands."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._validate import labels, one_of, whole
from corollary.nets.attention.block import drop
from corollary.nets.attention.positions import LearnedPositions, sinusoidal_positions
from corollary.nets.initialisations import normal

POSITIONS = ("learned", "sinusoidal", "none")

# With this many rows or fewer a product with one-hot rows is faster than looking them up, and above all its gradient:
# rows that occur often are then summed by a matrix product and not one by one.
FEW = 1024


class TokenEmbedding(eqx.Module):
    """Row `token` of a table, plus a vector for its position: learned, sinusoidal, or none.

    `length` is the largest number of positions.
    """

    weight: jax.Array
    places: LearnedPositions | None
    positions: str = eqx.field(static=True)
    length: int = eqx.field(static=True)

    def __init__(
        self,
        vocabulary: int,
        length: int,
        width: int,
        *,
        key: PRNGKeyArray,
        positions: str = "learned",
        initialisation: Callable | None = None,
    ):
        initialisation = normal(0.02) if initialisation is None else initialisation
        shape = whole("vocabulary", vocabulary), whole("width", width)
        self.length, self.positions = whole("length", length), one_of("positions", positions, POSITIONS)
        token_key, place_key = jax.random.split(key)
        self.weight = initialisation(token_key, shape, jnp.result_type(float))
        learned = positions == "learned"
        self.places = LearnedPositions(length, width, key=place_key, initialisation=initialisation) if learned else None

    def __call__(
        self,
        tokens: Int[ArrayLike, "T"],
        start: int | jax.Array = 0,
        *,
        dropout: float = 0.0,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "T _"]:
        """Tokens (T,) at the positions `start`, `start + 1`, … as vectors (T, width)."""
        rows, width = self.weight.shape
        tokens = labels("tokens", tokens, rows, "T")
        if tokens.shape[0] > self.length:
            raise ValueError(f"tokens must hold at most {self.length} tokens, got {tokens.shape[0]}.")
        dtype = self.weight.dtype
        x = jax.nn.one_hot(tokens, rows, dtype=dtype) @ self.weight if rows <= FEW else self.weight[tokens]
        if self.positions == "learned":
            x = self.places(x, start)
        elif self.positions == "sinusoidal":
            table = sinusoidal_positions(self.length, width, dtype=dtype)
            x = x + jax.lax.dynamic_slice_in_dim(table, start, x.shape[0])
        return drop(x, dropout, key)
