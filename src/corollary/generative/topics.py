r"""Documents whose words are drawn from a mixture of topics."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, positive, real, whole, within
from corollary.catalog import implements


@implements("T14.04")
class TopicModel(eqx.Module):
    r"""Proportions $h$ of topics, $h\sim\mathrm{Dirichlet}(\alpha,\dots,\alpha)$, then words of the law $\sum_th_tA_t$.

    `topics` (t, words) holds the laws $A_t$ of words; `concentration` is $\alpha$.
    """

    topics: jax.Array
    concentration: jax.Array

    def __init__(self, topics: Float[ArrayLike, "t w"], concentration: Scalar = 1.0):
        self.topics = within("topics", real("topics", topics, "t w"), 0.0, 1.0)
        sums = np.asarray(self.topics).sum(1) if concrete(self.topics) else 1.0
        if np.any(np.abs(sums - 1) > 1e-5):
            raise ValueError(f"each row of topics must sum to 1, a law of words, got sums {sums}.")
        self.concentration = positive("concentration", real("concentration", concentration, ""))

    __repr__ = shown

    def sample(self, length: int, *, key: PRNGKeyArray) -> tuple[Float[Array, "_"], Float[Array, "_"]]:
        r"""One document of so many words: its proportions $h$ and how often each word occurs."""
        h_key, w_key = jax.random.split(key)
        h = jax.random.dirichlet(h_key, jnp.full(len(self.topics), self.concentration))
        words = jax.random.categorical(w_key, jnp.log(h @ self.topics), shape=(whole("length", length),))
        return h, jnp.bincount(words, length=self.topics.shape[1]).astype(self.topics.dtype)

    def log_likelihood(self, h: Float[ArrayLike, "_"], counts: Float[ArrayLike, "_"]) -> Float[Array, ""]:
        r"""$\sum_wc_w\ln\sum_th_tA_{tw}$, of the words in their order."""
        counts = real("counts", counts, str(self.topics.shape[1]))
        law = real("h", h, str(len(self.topics))) @ self.topics
        return jnp.sum(jax.scipy.special.xlogy(counts, law))

    def infer(self, counts: Float[ArrayLike, "_"], *, steps: int = 200) -> Float[Array, "_"]:
        r"""The most likely proportions for known topics, by EM.

        $h_t\leftarrow\frac{h_t}n\sum_wc_w\frac{A_{tw}}{(hA)_w}$, from equal ones.
        """
        counts = within("counts", real("counts", counts, str(self.topics.shape[1])), 0.0)
        if concrete(counts) and not np.asarray(counts).any():
            raise ValueError("counts must hold at least one word.")

        def advance(_, h):
            law = h @ self.topics
            return h * (self.topics @ jnp.where(counts > 0, counts / jnp.where(counts > 0, law, 1), 0)) / counts.sum()

        start = jnp.full(len(self.topics), 1 / len(self.topics), self.topics.dtype)
        return lax.fori_loop(0, whole("steps", steps), advance, start)
