r"""Stochastic beam search: sequences drawn without replacement, by a beam over perturbed log-probabilities."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Int, PRNGKeyArray

from corollary._validate import whole
from corollary.catalog import implements
from corollary.language.generation import Decoded, check_end, check_prompt, prefilled
from corollary.language.models import Model, as_model


@implements("T15.18")
def stochastic_beam(
    model: Model | Callable,
    prompt: Int[ArrayLike, "m"],
    length: int,
    width: int,
    *,
    key: PRNGKeyArray,
    end: int | None = None,
) -> Decoded:
    r"""`width` different sequences of `length` tokens after `prompt`, drawn without replacement, in the order drawn.

    Adding independent Gumbel noise to the log-probabilities of all sequences and taking the largest sums draws without
    replacement. The largest sum below a prefix is Gumbel about the prefix's own log-probability, so that the
    tree is searched from the top, the noise of the children given the maximum of the parent. The log-probabilities
    are those of the model. There are fewer than `width` where there are fewer sequences.
    """
    return _search(
        as_model(model), check_prompt(prompt), whole("length", length), whole("width", width), check_end(end), key
    )


@eqx.filter_jit
def _search(model, prompt, length, width, end, key):
    keys = jax.random.split(key, length)

    def grow(carry, n):
        tokens, last, score, noisy, cache, over = carry
        logits, cache = jax.vmap(model.step)(last, cache)
        gains = jax.nn.log_softmax(logits)
        k = gains.shape[1]
        if end is not None:
            gains = jnp.where(over[:, None], jnp.where(jnp.arange(k) == end, 0.0, -jnp.inf), gains)
        total = score[:, None] + gains
        drawn = _with_maximum(total + jax.random.gumbel(keys[n], total.shape, total.dtype), noisy)
        noisy, best = jax.lax.top_k(drawn.ravel(), min(width, drawn.size))
        parent, token = best // k, (best % k).astype(tokens.dtype)
        tokens = tokens[parent].at[:, n].set(token)
        over = over[parent] if end is None else over[parent] | (token == end)
        return tokens, token, total.ravel()[best], noisy, jax.tree.map(lambda a: a[parent], cache), over

    cache = jax.tree.map(lambda a: a[None], prefilled(model, prompt, length))
    dtype = jax.eval_shape(lambda c: model.step(prompt[-1], jax.tree.map(lambda a: a[0], c))[0], cache).dtype
    none = jnp.zeros(1, dtype)
    beam = jnp.zeros((1, length), prompt.dtype), prompt[-1:], none, none, cache, jnp.zeros(1, bool)
    n = 0
    while n < length and beam[1].shape[0] < width:
        beam, n = grow(beam, n), n + 1
    if n < length:
        beam, _ = jax.lax.scan(lambda b, n: (grow(b, n), None), beam, jnp.arange(n, length))
    return Decoded(beam[0], beam[2])


def _with_maximum(gumbels, maximum):
    r"""Independent Gumbel variables (rows), given that the largest of each row is `maximum`.

    $-\ln(e^{-T}-e^{-Z}+e^{-g})$ with the largest $Z$ of the row and the wanted $T$, without loss of digits.
    """
    top = jnp.max(gumbels, -1, keepdims=True)
    gone = ~jnp.isfinite(gumbels)
    safe = jnp.where(gone, top - 1, gumbels)
    below = maximum[:, None] - safe + jnp.log(-jnp.expm1(jnp.where(safe < top, safe - top, -1.0)))
    moved = maximum[:, None] - jnp.maximum(below, 0) - jnp.log1p(jnp.exp(-jnp.abs(below)))
    # a hypothesis that is excluded itself has no children
    return jnp.where(gone | ~jnp.isfinite(maximum[:, None]), -jnp.inf, jnp.where(safe < top, moved, maximum[:, None]))
