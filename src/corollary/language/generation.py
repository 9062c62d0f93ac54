"""The probability of a sequence, and sequences one token at a time: one compiled loop over tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Int, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import labels, real, whole, within
from corollary.catalog import implements
from corollary.language.filters import truncated
from corollary.language.models import Model, as_model


class Decoded(NamedTuple):
    """Sequences of tokens and their log-probabilities under the model; several along a leading axis."""

    tokens: jax.Array
    log_probability: jax.Array

    __repr__ = shown


@implements("B10.47", "E05.24", "T15.01")
def sequence_log_probability(
    model: Model | Callable, prompt: Int[ArrayLike, "m"], tokens: Int[ArrayLike, "n"], *, end: int | None = None
) -> jax.Array:
    """The logarithm of the product of `p(token | prompt, tokens before it)`, all tokens known beforehand.

    With `end` a sequence is over after the first of these tokens; what comes after it does not count.
    """
    model, prompt = as_model(model), check_prompt(prompt)
    return _forced(model, prompt, labels("tokens", tokens, None, "n"), check_end(end))


@implements("B10.48", "T15.15")
def greedy_search(
    model: Model | Callable, prompt: Int[ArrayLike, "m"], length: int, *, end: int | None = None
) -> Decoded:
    """`length` tokens after `prompt`, each the most probable one; together they need not be.

    Of equally probable tokens the first. After `end` only `end` follows, at no cost.

    >>> greedy_search(lambda tokens: jax.nn.one_hot((tokens + 1) % 4, 4), [0], 3).tokens.tolist()
    [1, 2, 3]
    """
    return _generate(as_model(model), check_prompt(prompt), whole("length", length), check_end(end), Greedy(), None)


@implements("B10.52", "B10.53", "B10.54", "T15.14", "T15.16", "T15.17", "T15.18")
def sample_sequence(
    model: Model | Callable,
    prompt: Int[ArrayLike, "m"],
    length: int,
    *,
    key: PRNGKeyArray,
    temperature: Scalar = 1.0,
    top_k: int | None = None,
    top_p: Scalar | None = None,
    end: int | None = None,
) -> Decoded:
    """`length` tokens after `prompt`, each drawn from the model's law given those before it: ancestral sampling.

    `temperature` divides the logits first. Then `top_k` keeps that many tokens, and `top_p` the smallest set with that
    probability. The log-probability is the one under the model as it is. After `end` only `end` follows. Many
    sequences are one `vmap` over keys.

    >>> sample_sequence(lambda tokens: jnp.zeros((len(tokens), 4)), [0], 3, key=key).tokens.shape
    (3,)
    """
    temperature = real("temperature", temperature, "")
    within("temperature", temperature, 0.0, open="low")
    if top_p is not None:
        top_p = within("top_p", real("top_p", top_p, ""), 0.0, 1.0)
    rule = Drawn(temperature, None if top_k is None else whole("top_k", top_k), top_p)
    return _generate(as_model(model), check_prompt(prompt), whole("length", length), check_end(end), rule, key)


class Greedy(eqx.Module):
    """The most probable token."""

    def __call__(self, logits, key):
        return jnp.argmax(logits)


class Drawn(eqx.Module):
    """A token drawn at random from the truncated law."""

    temperature: jax.Array
    top_k: int | None = eqx.field(static=True)
    top_p: jax.Array | None

    def __call__(self, logits, key):
        return jax.random.categorical(key, truncated(logits / self.temperature, self.top_k, self.top_p))


def check_prompt(prompt) -> jax.Array:
    """`prompt` as at least one token."""
    return labels("prompt", prompt, None, "m")


def check_end(end) -> int | None:
    """`end` as a token or None."""
    return None if end is None else whole("end", end, 0)


def prefilled(model, prompt, length: int):
    """The state after all of `prompt` but its last token, with room for `length` more that are fed to the model."""
    cache = model.cache(prompt.shape[0] + length - 1)
    cache, _ = jax.lax.scan(lambda cache, token: (model.step(token, cache)[1], None), cache, prompt[:-1])
    return cache


@eqx.filter_jit
def _forced(model, prompt, tokens, end):
    def advance(carry, token):
        last, cache, over = carry
        logits, cache = model.step(last, cache)
        value = jnp.where(over, 0.0, jax.nn.log_softmax(logits)[token])
        return (token, cache, over if end is None else over | (token == end)), value

    start = (prompt[-1], prefilled(model, prompt, tokens.shape[0]), jnp.zeros((), bool))
    return jnp.sum(jax.lax.scan(advance, start, tokens)[1])


@eqx.filter_jit
def _generate(model, prompt, length, end, rule, key):
    keys = None if key is None else jax.random.split(key, length)

    def advance(carry, key):
        last, cache, over = carry
        logits, cache = model.step(last, cache)
        token = rule(logits, key).astype(prompt.dtype)
        value = jax.nn.log_softmax(logits)[token]
        if end is not None:
            token, value = jnp.where(over, end, token), jnp.where(over, 0.0, value)
            over = over | (token == end)
        return (token, cache, over), (token, value)

    start = (prompt[-1], prefilled(model, prompt, length), jnp.zeros((), bool))
    _, (tokens, values) = jax.lax.scan(advance, start, keys, length=length)
    return Decoded(tokens, jnp.sum(values))
