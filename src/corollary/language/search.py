"""Beam search: the best sequences that a limited number of hypotheses can find, and all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Int

from corollary._validate import whole
from corollary.catalog import implements
from corollary.language.generation import Decoded, check_end, check_prompt, prefilled
from corollary.language.models import Model, as_model

MOST = 2**22  # sequences that exhaustive search looks at


@implements("B10.49", "T15.18")
def beam_search(
    model: Model | Callable, prompt: Int[ArrayLike, "m"], length: int, width: int, *, end: int | None = None
) -> Decoded:
    """The `width` most probable hypotheses of `length` tokens after `prompt`, best first.

    In every step each of them is continued with all tokens and the best `width` stay; ties go to the earlier
    hypothesis, then to the smaller token. One of width 1 is greedy search, one of `k**(length - 1)` or more finds the
    best sequence, and in between more width can be worse. A hypothesis that came to `end` stays as it is. There are
    fewer than `width` where there are fewer sequences.
    """
    return _search(
        as_model(model), check_prompt(prompt), whole("length", length), whole("width", width), check_end(end)
    )


@implements("B10.47")
def exhaustive_search(
    model: Model | Callable, prompt: Int[ArrayLike, "m"], length: int, *, end: int | None = None
) -> Decoded:
    """All `k**length` sequences of `length` tokens after `prompt`, best first."""
    model, prompt, length = as_model(model), check_prompt(prompt), whole("length", length)
    total = vocabulary_of(model) ** length
    if total > MOST:
        raise ValueError(f"length {length} makes {total:,} sequences; at most {MOST:,} can be searched.")
    return _search(model, prompt, length, total, check_end(end))


def vocabulary_of(model) -> int:
    """How many tokens a model knows: the length of its logits."""
    cache = eqx.filter_eval_shape(model.cache, 1)
    logits, _ = eqx.filter_eval_shape(lambda c: model.step(jnp.zeros((), int), c), cache)
    return logits.shape[-1]


@eqx.filter_jit
def _search(model, prompt, length, width, end):
    def grow(carry, n):
        """Every hypothesis continued with every token, and the best of all that."""
        tokens, last, score, cache, over = carry
        logits, cache = jax.vmap(model.step)(last, cache)
        gains = jax.nn.log_softmax(logits)
        k = gains.shape[1]
        if end is not None:
            stay = jnp.where(jnp.arange(k) == end, 0.0, -jnp.inf)
            gains = jnp.where(over[:, None], stay, gains)
        total = (score[:, None] + gains).ravel()
        score, best = jax.lax.top_k(total, min(width, total.size))
        parent, token = best // k, (best % k).astype(tokens.dtype)
        tokens = tokens[parent].at[:, n].set(token)
        over = over[parent] if end is None else over[parent] | (token == end)
        return tokens, token, score, jax.tree.map(lambda a: a[parent], cache), over

    # the beam is as wide as there are prefixes until these are more than its width
    cache = jax.tree.map(lambda a: a[None], prefilled(model, prompt, length))
    dtype = jax.eval_shape(lambda c: model.step(prompt[-1], jax.tree.map(lambda a: a[0], c))[0], cache).dtype
    beam = jnp.zeros((1, length), prompt.dtype), prompt[-1:], jnp.zeros(1, dtype), cache, jnp.zeros(1, bool)
    n = 0
    while n < length and beam[1].shape[0] < width:
        beam, n = grow(beam, n), n + 1
    if n < length:
        beam, _ = jax.lax.scan(lambda b, n: (grow(b, n), None), beam, jnp.arange(n, length))
    return Decoded(beam[0], beam[2])


@implements("B10.49", "B10.50")
def table_beam_search(initial: Mapping, expansions: Mapping, width: int, steps: int) -> list[tuple[list, float]]:
    """Listing 10.4: beam search where the next token depends on the last one, by dictionaries of probabilities.

    `initial` has the probabilities of the first token, `expansions[token]` those of the tokens after it. Hypotheses
    without expansions die. The result is a list of sequences with their probabilities, best first.
    """
    width, steps = whole("width", width), whole("steps", steps)
    for name, law in [("initial", initial), *((f"expansions[{t!r}]", law) for t, law in expansions.items())]:
        values = np.asarray([law[t] for t in law], float)
        if (values < 0).any() or not np.isfinite(values).all() or values.sum() > 1 + 1e-9:
            raise ValueError(f"{name} must hold probabilities with a sum of at most 1, got {dict(law)}.")
    beam = _top([([token], p) for token, p in initial.items()], width)
    for n in range(1, steps):
        grown = [([*tokens, token], p * q) for tokens, p in beam for token, q in expansions.get(tokens[-1], {}).items()]
        if not grown:
            raise ValueError(
                f"expansions must continue at least one of {[b[0][-1] for b in beam]} at step {n}, got none."
            )
        beam = _top(grown, width)
    return beam


def _top(hypotheses, width):
    return sorted(hypotheses, key=lambda h: h[1], reverse=True)[:width]
