r"""Words as vectors, learned from counts: latent semantic indexing, and skip-grams with negative samples (word2vec)."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, labels, positive, real, whole, within
from corollary.catalog import implements


class Indexed(NamedTuple):
    """Vectors of `words` (words, r) and `documents` (documents, r), whose inner products are the nearest to the counts
    of their rank, and the singular `values` (r,) that the words carry."""

    words: jax.Array
    documents: jax.Array
    values: jax.Array

    __repr__ = shown


@implements("T17.02")
def lsi(counts: Float[ArrayLike, "n d"], rank: int) -> Indexed:
    r"""Latent semantic indexing: $U_r\Sigma_r$ for the words (rows) and $V_r$ for the documents of a matrix of counts.

    Their product is `nets.truncated_svd(counts, rank)`. Counts may be any numbers: logarithms of them, or pointwise
    mutual information, are what is mostly taken for pairs of words.

    >>> found = lsi([[2.0, 2.0, 0.0], [0.0, 0.0, 3.0]], 1)
    >>> print(jnp.abs(found.words).round(3).T, found.values)
    [[0. 3.]] [3.]
    """
    counts = real("counts", counts, "n d")
    rank = whole("rank", rank, 1, min(counts.shape))
    u, s, vt = jnp.linalg.svd(counts, full_matrices=False)
    return Indexed(u[:, :rank] * s[:rank], vt[:rank].T, s[:rank])


@implements("T17.03")
def cooccurrence(tokens: Int[ArrayLike, "n"], vocabulary: int, window: int) -> Float[Array, "_ _"]:
    """How often each word (rows) has each other word (columns) at most `window` places before or after it.

    >>> cooccurrence([0, 1, 0], 2, 1).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    vocabulary, window = whole("vocabulary", vocabulary), whole("window", window)
    tokens = labels("tokens", tokens, vocabulary)
    if window >= tokens.shape[0]:
        raise ValueError(f"window must be below the number of tokens, got {window} and {tokens.shape[0]}.")
    counts = jnp.zeros((vocabulary, vocabulary), jnp.result_type(float))
    for apart in range(1, window + 1):
        counts = counts.at[tokens[apart:], tokens[:-apart]].add(1.0)
    return counts + counts.T


@implements("T17.03")
def shifted_pmi(counts: Float[ArrayLike, "v c"], negatives: Scalar = 1.0) -> Float[Array, "v c"]:
    r"""$\ln\frac{\#(w,c)\,|D|}{\#(w)\,\#(c)}-\ln k$, the inner products at which skip-grams with $k$ `negatives` end.

    $-\infty$ where two words were never seen together.
    """
    counts, negatives = _counts(counts), positive("negatives", real("negatives", negatives, ""))
    rows, columns = counts.sum(1, keepdims=True), counts.sum(0)
    seen = counts > 0
    ratio = jnp.where(seen, counts * counts.sum() / jnp.where(seen, rows * columns, 1.0), 1.0)
    return jnp.where(seen, jnp.log(ratio), -jnp.inf) - jnp.log(negatives)


@implements("T17.03")
class SkipGram(eqx.Module):
    r"""word2vec: vectors $v_w$ of `words` and $u_c$ of `contexts`, made to tell pairs of a text from pairs by chance.

    Every pair of neighbours $(w,c)$ of a text should have a large $v_w\cdot u_c$, and $w$ with $k$ words $c'$ drawn by
    their frequency a small one: $-\ln\sigma(v_w\cdot u_c)-\sum_{c'}\ln\sigma(-v_w\cdot u_{c'})$ is its loss.
    """

    words: jax.Array
    contexts: jax.Array

    def __init__(self, vocabulary: int, width: int, *, key: PRNGKeyArray):
        vocabulary, width = whole("vocabulary", vocabulary, 2), whole("width", width)
        self.words, self.contexts = jax.random.normal(key, (2, vocabulary, width)) / (2 * width) ** 0.5

    @classmethod
    def fit(
        cls,
        counts: Float[ArrayLike, "v v"],
        width: int,
        *,
        key: PRNGKeyArray,
        negatives: Scalar = 1.0,
        steps: int = 500,
    ) -> "SkipGram":
        """The vectors of a matrix of counts, by L-BFGS on the expected loss from a random start."""
        counts, steps = _counts(counts), whole("steps", steps)
        if counts.shape[0] != counts.shape[1]:
            raise ValueError(f"counts must be square: words by words, got shape {counts.shape}.")
        positive("negatives", real("negatives", negatives, ""))
        start = cls(counts.shape[0], width, key=key)
        start = jax.tree.map(lambda a: a.astype(counts.dtype), start)
        method = optax.lbfgs(memory_size=20)

        def objective(model):
            return model.loss(counts, negatives)

        value_and_grad = optax.value_and_grad_from_state(objective)

        def advance(carry, _):
            model, state = carry
            value, slope = value_and_grad(model, state=state)
            updates, state = method.update(slope, state, model, value=value, grad=slope, value_fn=objective)
            return (optax.apply_updates(model, updates), state), None

        (model, _), _ = jax.lax.scan(advance, (start, method.init(start)), None, length=steps)
        return model

    def products(self) -> Float[Array, "_ _"]:
        r"""$v_w\cdot u_c$, words along rows and contexts along columns."""
        return self.words @ self.contexts.T

    def loss(self, counts: Float[ArrayLike, "v v"], negatives: Scalar = 1.0) -> Float[Array, ""]:
        r"""The expected loss of a pair of the text: $k$ words $c'$ are drawn, each with probability $\#(c')/|D|$."""
        counts = _counts(counts)
        total, products = counts.sum(), self.products()
        if counts.shape != products.shape:
            raise ValueError(f"counts must have the shape {products.shape} of the vocabulary, got {counts.shape}.")
        chance = negatives * counts.sum(1, keepdims=True) * counts.sum(0) / total
        return (jnp.sum(counts * jax.nn.softplus(-products)) + jnp.sum(chance * jax.nn.softplus(products))) / total

    def sampled_loss(self, pairs: Int[ArrayLike, "n 2"], noise: Int[ArrayLike, "n k"]) -> Float[Array, ""]:
        """The mean loss of these pairs of a word and a context, with words that were drawn by chance in each row."""
        vocabulary, dims = self.words.shape[0], {}
        pairs = labels("pairs", pairs, vocabulary, "n 2", dims)
        noise = labels("noise", noise, vocabulary, "n k", dims)
        words = self.words[pairs[:, 0]]
        together = jnp.sum(words * self.contexts[pairs[:, 1]], -1)
        apart = jnp.einsum("nd,nkd->nk", words, self.contexts[noise])
        return jnp.mean(jax.nn.softplus(-together) + jnp.sum(jax.nn.softplus(apart), -1))


def _counts(counts):
    counts = within("counts", real("counts", counts, "v c"), 0.0)
    if concrete(counts) and not np.asarray(counts).sum() > 0:
        raise ValueError("counts must not all be zero.")
    return counts
