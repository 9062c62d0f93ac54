r"""A memory that can be read, written and differentiated: the content-addressed head of a neural Turing machine.

The memory is a matrix with one row for each place. A key is compared with all rows, and the row weights
$w=\mathrm{softmax}(\beta\cos(k,M_i))$ say how much of each is read or changed. Everything is smooth; as
$\beta\to\infty$ the look-up becomes hard.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import real, whole, within
from corollary.autodiff.elementary import sigmoid
from corollary.catalog import implements


@implements("T04.14")
def address(memory: Float[ArrayLike, "n d"], key: Float[ArrayLike, "d"], sharpness: Scalar) -> Float[Array, "_"]:
    r"""The weights $\mathrm{softmax}(\beta\cos(k,M_i))$ of the rows of `memory` (n, d) for a `key` (d,).

    A row or key of length zero has cosine 0 with everything.
    """
    dims: dict = {}
    memory, key = real("memory", memory, "n d", dims), real("key", key, "d", dims)
    sharpness = within("sharpness", real("sharpness", sharpness, ""), 0.0)
    lengths = _length(memory) * _length(key)
    return jax.nn.softmax(sharpness * (memory @ key) / lengths)


@implements("T04.14")
def read(memory: Float[ArrayLike, "n d"], weights: Float[ArrayLike, "n"]) -> Float[Array, "_"]:
    r"""$\sum_iw_iM_i$."""
    dims: dict = {}
    memory, weights = real("memory", memory, "n d", dims), real("weights", weights, "n", dims)
    return weights @ memory


@implements("T04.14")
def write(
    memory: Float[ArrayLike, "n d"],
    weights: Float[ArrayLike, "n"],
    erase: Float[ArrayLike, "d"],
    add: Float[ArrayLike, "d"],
) -> Float[Array, "_ _"]:
    r"""$M_i\leftarrow M_i\odot(1-w_ie)+w_ia$: first erase with $e\in[0,1]^d$, then add."""
    dims: dict = {}
    memory, weights = real("memory", memory, "n d", dims), real("weights", weights, "n", dims)
    erase = within("erase", real("erase", erase, "d", dims), 0.0, 1.0)
    add = real("add", add, "d", dims)
    return memory * (1 - weights[:, None] * erase) + weights[:, None] * add


class HeadOutput(NamedTuple):
    """What was read, the memory afterwards, and the weights of the rows."""

    read: jax.Array
    memory: jax.Array
    weights: jax.Array

    __repr__ = shown


@implements("T04.14")
class MemoryHead(eqx.Module):
    """A read and write head: affine maps of the controller's state give key, sharpness, erasure and addition."""

    weights: jax.Array
    bias: jax.Array
    width: int = eqx.field(static=True)

    def __init__(self, state: int, width: int, *, key: PRNGKeyArray):
        state, self.width = whole("state", state), whole("width", width)
        rows = 3 * self.width + 1
        self.weights = jax.random.normal(key, (rows, state)) / jnp.sqrt(state)
        self.bias = jnp.zeros(rows)

    def __call__(self, memory: Float[ArrayLike, "n d"], state: Float[ArrayLike, "_"]) -> HeadOutput:
        """Address the memory by content, read, then write at the same place."""
        state = real("state", state, f"{self.weights.shape[1]}")
        out = self.weights @ state + self.bias
        query, erase, add, sharp = jnp.split(out, [self.width, 2 * self.width, 3 * self.width])
        weights = address(memory, jnp.tanh(query), jnp.logaddexp(sharp[0], 0.0))
        return HeadOutput(read(memory, weights), write(memory, weights, sigmoid(erase), add), weights)


def _length(rows):
    # 1 in place of 0, inside the root as well: its slope at 0 would spoil the gradient even where it is not used
    squares = jnp.sum(rows**2, axis=-1)
    return jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1.0)), 1.0)
