"""What can be decoded: anything with `cache` and `step`, and three such models.

- `model.cache(length)` is the state before the first token, with room for `length` tokens: any pytree of arrays.
- `model.step(token, cache)` takes one token in and gives the logits of the next one and the new state.

The keys and values of a transformer, the hidden state of a recurrent network and the last token of a Markov chain are
such states. The first token of a text is its start and carries no probability.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray, PyTree

from corollary._validate import whole
from corollary.catalog import implements
from corollary.language._laws import law


@runtime_checkable
class Model(Protocol):
    """A language model that reads one token after another."""

    def cache(self, length: int) -> Any:
        """The state before any token, with room for `length` of them."""

    def step(self, token: Int[ArrayLike, ""], cache: PyTree) -> tuple[jax.Array, Any]:
        """The logits of the next token, and the state after `token`."""


class Recomputed(eqx.Module):
    """A function of all tokens as a model: every step computes everything again.

    `logits(tokens)` takes an array of token ids and gives one row of logits per token, for the token after it. It must
    be causal: row `i` may depend on tokens up to `i` only, because what comes after them is not there yet.
    """

    logits: Callable

    def cache(self, length: int) -> tuple[Int[Array, "_"], Int[Array, ""]]:
        """No tokens yet."""
        return jnp.zeros(whole("length", length), jnp.result_type(int)), jnp.zeros((), jnp.result_type(int))

    def step(
        self, token: Int[ArrayLike, ""], cache: PyTree
    ) -> tuple[Float[Array, "..."], tuple[Int[Array, "..."], Int[Array, "..."]]]:
        """The row of logits at the new token."""
        tokens, at = cache
        tokens = tokens.at[at].set(token)
        rows = self.logits(tokens)
        if jnp.ndim(rows) != 2 or rows.shape[0] != tokens.shape[0]:
            got = jnp.shape(rows)
            raise ValueError(f"logits must have one row for each of the {tokens.shape[0]} tokens, got shape {got}.")
        return rows[at], (tokens, at + 1)


class LastTokens(eqx.Module):
    """A function of tokens as a model that sees the last `length` of them: text without end from a finite context.

    `logits(tokens)` is as for `Recomputed`. As long as there is room this is the same; then the oldest token is
    forgotten at every step, and the others move by one place.
    """

    logits: Callable
    length: int = eqx.field(static=True)

    def __init__(self, logits: Callable, length: int):
        if not callable(logits):
            raise TypeError(f"logits must be a function of tokens, got {type(logits).__name__}.")
        self.logits, self.length = logits, whole("length", length)

    def cache(self, length: int) -> tuple[Int[Array, "_"], Int[Array, ""]]:
        """No tokens yet."""
        whole("length", length)
        return Recomputed(self.logits).cache(self.length)

    def step(self, token: Int[ArrayLike, ""], cache: PyTree) -> tuple[Float[Array, "_"], PyTree]:
        """The row of logits at the new token."""
        tokens, at = cache
        full = at == self.length
        tokens, at = jnp.where(full, jnp.roll(tokens, -1), tokens), jnp.where(full, at - 1, at)
        return Recomputed(self.logits).step(token, (tokens, at))


@implements("B10.47")
class ConditionalTable(eqx.Module):
    """Every conditional probability of sequences up to a length, one by one: the tree of all prefixes.

    `p` has one row per prefix, the probabilities of the `k` tokens after it: first the empty one, then the prefixes of
    one token, of two, and so on, each in lexicographic order. Row `k i + 1 + t` follows row `i` with token `t`.
    """

    p: jax.Array
    depth: int = eqx.field(static=True)

    def __init__(self, p: Float[ArrayLike, "..."]):
        p = law("p", p, "nodes k")
        nodes, k = p.shape
        depth, level, count = 0, 1, 0
        while count < nodes:
            depth, count, level = depth + 1, count + level, level * k
        if count != nodes or k < 2:
            raise ValueError(f"p must have 1 + k + ... + k^(depth-1) rows of k > 1 probabilities, got shape {p.shape}.")
        self.p, self.depth = p, depth

    @classmethod
    def random(
        cls, k: int, depth: int, *, key: PRNGKeyArray, concentration: float = 1.0, dtype: DTypeLike | None = None
    ) -> "ConditionalTable":
        """Rows drawn independently from a symmetric Dirichlet law."""
        k, depth = whole("k", k, 2), whole("depth", depth)
        alpha = jnp.full(k, concentration, dtype)
        return cls(jax.random.dirichlet(key, alpha, ((k**depth - 1) // (k - 1),)))

    def cache(self, length: int) -> Int[Array, ""]:
        """Before the start."""
        whole("length", length, 1, self.depth)
        return jnp.full((), -1)

    def step(
        self, token: Int[ArrayLike, ""], cache: Int[ArrayLike, ""]
    ) -> tuple[Float[Array, "..."], Int[Array, "..."]]:
        """One level down; the first token, the start, leads to the root whatever it is."""
        node = jnp.where(cache < 0, 0, self.p.shape[1] * cache + 1 + token)
        return jnp.log(self.p[node]), node


class MarkovChain(eqx.Module):
    """Tokens that depend on the last one only: `initial` after the start, then the rows of `transition`."""

    initial: jax.Array
    transition: jax.Array

    def __init__(self, initial: Float[ArrayLike, "..."], transition: Float[ArrayLike, "..."]):
        dims = {}
        self.initial = law("initial", initial, "k", dims)
        self.transition = law("transition", transition, "k k", dims)

    def cache(self, length: int) -> Bool[Array, ""]:
        """Before the start."""
        whole("length", length)
        return jnp.zeros((), bool)

    def step(
        self, token: Int[ArrayLike, ""], cache: Bool[ArrayLike, ""]
    ) -> tuple[Float[Array, "..."], Bool[Array, "..."]]:
        """The law after this token."""
        return jnp.log(jnp.where(cache, self.transition[token], self.initial)), jnp.ones((), bool)


def as_model(model) -> Model:
    """`model`, if it has `cache` and `step`; a function of all tokens as `Recomputed`."""
    if isinstance(model, Model):
        return model
    if callable(model):
        return Recomputed(model)
    raise TypeError(f"model must have cache and step, or be a function of tokens, got {type(model).__name__}.")
