r"""Language models that count: the next token depends on the last few, with the frequencies of a text."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PyTree

from corollary._types import Scalar
from corollary._validate import concrete, labels, real, whole, within
from corollary.catalog import implements
from corollary.language.generation import sequence_log_probability
from corollary.language.models import MarkovChain, Model

MOST = 2**24  # entries of the largest table


@implements("T15.02", "T15.03")
class NGram(eqx.Module):
    r"""$\Pr[w_i\mid w_{i-n+1},\dots,w_{i-1}]$ as frequencies: order 1 is the unigram, order 2 the bigram model.

    `laws[j]` has one row for each context of $j$ tokens, in lexicographic order. At the start of a text, where fewer
    than $n-1$ tokens are known, the longest law that fits is used; so it is for contexts that were never seen.
    """

    laws: tuple[jax.Array, ...]

    @classmethod
    def fit(
        cls, tokens: Int[ArrayLike, "n"], order: int, *, vocabulary: int | None = None, smoothing: Scalar = 0.0
    ) -> "NGram":
        """The most likely model of a text; `smoothing` is added to every count first.

        `vocabulary` is the number of tokens there are, the largest one of the text and those below it unless given.

        >>> NGram.fit([0, 1, 1, 0, 1], 2).laws[1].tolist()
        [[0.0, 1.0], [0.5, 0.5]]
        """
        order = whole("order", order)
        vocabulary = None if vocabulary is None else whole("vocabulary", vocabulary)
        tokens = labels("tokens", tokens, vocabulary)
        if vocabulary is None:
            if not concrete(tokens):
                raise TypeError("vocabulary must be given where tokens are traced by jit.")
            vocabulary = int(np.asarray(tokens).max()) + 1
        if vocabulary**order > MOST:
            counts = f"{vocabulary**order:,} counts of {vocabulary} tokens"
            raise ValueError(f"order {order} makes {counts}; at most {MOST:,} are possible.")
        if tokens.shape[0] < order:
            raise ValueError(f"tokens must have at least as many entries as order, got {tokens.shape[0]} and {order}.")
        smoothing = within("smoothing", real("smoothing", smoothing, ""), 0.0)
        laws = []
        for j in range(order):
            index = jnp.zeros(tokens.shape[0] - j, tokens.dtype)
            for i in range(j + 1):
                index = vocabulary * index + tokens[i : tokens.shape[0] - j + i]
            counts = jnp.zeros(vocabulary ** (j + 1), smoothing.dtype).at[index].add(1.0)
            counts = counts.reshape(-1, vocabulary) + smoothing
            total = jnp.sum(counts, -1, keepdims=True)
            # the context without its first token: row c of j tokens belongs to row c mod V^(j-1)
            shorter = jnp.tile(laws[-1], (vocabulary, 1)) if j else counts
            laws.append(jnp.where(total > 0, counts / jnp.where(total > 0, total, 1.0), shorter))
        return cls(tuple(laws))

    def chain(self) -> MarkovChain:
        """The same model as a Markov chain of tokens, for orders 1 and 2."""
        if len(self.laws) > 2:
            raise ValueError(f"order must be 1 or 2 for a chain of single tokens, got {len(self.laws)}.")
        first = self.laws[0][0]
        return MarkovChain(first, jnp.broadcast_to(self.laws[-1], (first.shape[0], first.shape[0])))

    def cache(self, length: int) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """No tokens yet: the last ones as one number, and how many they are."""
        whole("length", length)
        return jnp.zeros((), jnp.result_type(int)), jnp.zeros((), jnp.result_type(int))

    def step(self, token: Int[ArrayLike, ""], cache: PyTree) -> tuple[Float[Array, "_"], PyTree]:
        """The law after this token."""
        context, known = cache
        k, longest = self.laws[0].shape[1], len(self.laws) - 1
        context, known = (k * context + token) % k**longest, jnp.minimum(known + 1, longest)
        rows = jnp.stack([law[context % k**j] for j, law in enumerate(self.laws)])
        return jnp.log(rows[known]), (context, known)


@implements("T15.06")
def perplexity(model: Model | Callable, tokens: Int[ArrayLike, "n"]) -> Float[Array, ""]:
    r"""$\exp(\frac1{n-1}\sum_{i>1}\ln\frac1{\Pr[w_i\mid w_1,\dots,w_{i-1}]})$: $e$ to the mean loss per token.

    The first token is the start and is not predicted. Infinite if the model excludes the text.

    >>> round(float(perplexity(lambda tokens: jnp.zeros((len(tokens), 4)), [0, 1, 2, 3])), 4)
    4.0
    """
    tokens = labels("tokens", tokens, None, "n")
    if tokens.shape[0] < 2:
        raise ValueError("tokens must have at least two entries: the first one is the start.")
    return jnp.exp(-sequence_log_probability(model, tokens[:1], tokens[1:]) / (tokens.shape[0] - 1))


@implements("T15.20")
def sft_loss(network: Callable, prompt: Int[ArrayLike, "m"], tokens: Int[ArrayLike, "n"]) -> Float[Array, ""]:
    r"""$-\ln\pi(y\mid x)$, the loss of supervised fine-tuning: the cross-entropy of the answer's tokens alone.

    `network(tokens)` gives one row of logits for each token, of the token after it. It reads prompt and answer
    in one pass; the rows that predict the prompt do not count.
    """
    if not callable(network):
        raise TypeError(f"network must be a function of tokens, got {type(network).__name__}.")
    prompt, tokens = labels("prompt", prompt, None, "m"), labels("tokens", tokens, None, "n")
    logits = network(jnp.concatenate([prompt, tokens]))
    length = prompt.shape[0] + tokens.shape[0]
    if jnp.ndim(logits) != 2 or logits.shape[0] != length:
        raise ValueError(f"network must give one row of logits for each of {length} tokens, got {jnp.shape(logits)}.")
    rows = jax.nn.log_softmax(logits[prompt.shape[0] - 1 : -1])
    return -jnp.sum(jnp.take_along_axis(rows, tokens[:, None], 1))
