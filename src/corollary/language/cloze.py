r"""Cloze questions: multiple choice on the next word, and what a model loses on them against a human."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import entr, rel_entr
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._validate import whole
from corollary.catalog import implements
from corollary.language._laws import law


@implements("T15.13", "T15.27")
class ClozeQuestion(NamedTuple):
    """Which of the `options` each word belongs to (..., words), and how probable they are to `human` and `model`.

    Words may be anything that an answer is one of: of two answers themselves, each is its own option.

    >>> winograd = ClozeQuestion(jnp.arange(2), jnp.array([1.0, 0.0]), jnp.array([0.5, 0.5]))
    >>> round(float(winograd.loss), 4), float(winograd.entropy), round(float(winograd.excess), 4)
    (0.6931, 0.0, 0.6931)
    """

    options: jax.Array
    human: jax.Array
    model: jax.Array

    __repr__ = shown

    @property
    def entropy(self) -> Float[Array, "..."]:
        """What the human does not know of the answer, in nats."""
        return jnp.sum(entr(self.human), -1)

    @property
    def excess(self) -> Float[Array, "..."]:
        """What the model pays beyond that; infinite where it excludes an answer that the human gives."""
        return jnp.sum(rel_entr(self.human, self.model), -1)

    @property
    def loss(self) -> Float[Array, "..."]:
        """The cross-entropy of the model's answer."""
        return self.entropy + self.excess

    @property
    def disagreement(self) -> Float[Array, "..."]:
        """How often the answers differ where they are drawn to differ as rarely as their laws allow."""
        return jnp.sum(jnp.abs(self.human - self.model), -1) / 2


@implements("T15.27", "T15.28")
def cloze_question(
    human: Float[ArrayLike, "... k"], model: Float[ArrayLike, "... k"], choices: int = 2
) -> ClozeQuestion:
    r"""The question about the next word that tells a model from a human best, given the laws of both.

    With two choices: is it one of the words that the human finds more probable than the model (option 0)? Of all
    questions with two answers, this one has the greatest disagreement: the total variation of the laws. More choices,
    an even number, cut the range of $\ln\frac{p(w)}{q(w)}$ further, above and below 0, into parts of equal width.

    >>> cloze_question([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]).options.tolist()
    [0, 1, 1]
    """
    dims = {}
    p, q = law("human", human, dims=dims), law("model", model, dims=dims)
    if (choices := whole("choices", choices, 2)) % 2:
        raise ValueError(f"choices must be even: half of them above the ratio 1 and half below, got {choices}.")
    half = choices // 2
    ratio = jnp.log(jnp.where(p > 0, p, 1.0)) - jnp.log(jnp.where(q > 0, q, 1.0))
    known = (p > 0) & (q > 0)
    # how far the ratio is on its own side of 1, in parts of the farthest one; at the ends where a law is zero
    far = jnp.where(known, jnp.abs(ratio), 0.0)
    above = p > q
    most = jnp.where(
        above,
        jnp.max(jnp.where(above, far, 0.0), -1, keepdims=True),
        jnp.max(jnp.where(above, 0.0, far), -1, keepdims=True),
    )
    part = jnp.where(known & (most > 0), far / jnp.where(most > 0, most, 1.0), jnp.where(p == q, 0.0, 1.0))
    place = jnp.minimum(jnp.floor(half * part), half - 1).astype(int)
    options = jnp.where(above, half - 1 - place, half + place)
    held = jax.nn.one_hot(options, choices, dtype=p.dtype)
    return ClozeQuestion(options, jnp.sum(held * p[..., None], -2), jnp.sum(held * q[..., None], -2))
