r"""Log-linear language models: the next word is the one whose vector points the way of the context."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._validate import labels, one_of, whole
from corollary.catalog import implements


@implements("T15.05")
class LogLinear(eqx.Module):
    r"""$\Pr[w_{i+1}\mid w_1,\dots,w_i]\propto\exp(v_{w_{i+1}}\cdot c_i)$ with word vectors $v_w$ of a width $D$.

    The context vector $c_i$ is that of the last token (`"last"`), the mean of those of all tokens so far (`"mean"`),
    or any causal function of the tokens with one row of width $D$ each. The logits of all contexts have rank $D$ at
    most: a law of pairs whose logarithms have more, also after a constant per row, is out of reach.
    """

    vectors: jax.Array
    contexts: jax.Array | None
    context: str | Callable

    def __init__(self, vocabulary: int, width: int, context: str | Callable = "last", *, key: PRNGKeyArray):
        vocabulary, width = whole("vocabulary", vocabulary, 2), whole("width", width)
        if not callable(context):
            one_of("context", context, ("last", "mean"))
        words, before = jax.random.normal(key, (2, vocabulary, width)) / width**0.5
        self.vectors, self.contexts, self.context = words, None if callable(context) else before, context

    def __call__(self, tokens: Int[ArrayLike, "n"]) -> Float[Array, "n _"]:
        """One row of logits for each token, of the token after it."""
        tokens = labels("tokens", tokens, self.vectors.shape[0])
        if self.contexts is None:
            rows = self.context(tokens)
        else:
            rows = self.contexts[tokens]
            if self.context == "mean":
                rows = jnp.cumsum(rows, 0) / jnp.arange(1, tokens.shape[0] + 1)[:, None]
        if jnp.shape(rows) != (want := (tokens.shape[0], self.vectors.shape[1])):
            raise ValueError(f"context must give one vector for each token, {want}, got {jnp.shape(rows)}.")
        return rows @ self.vectors.T
