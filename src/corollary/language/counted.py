r"""What counting alone would pay for a text: the frequencies of tokens, and of tokens after tokens, of another text."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import labels, real, whole, within


class CountedLosses(NamedTuple):
    r"""$-\ln\hat p(y)$ and $-\ln\hat p(y\mid x)$ for every place of a text, in nats."""

    unigram: Float[Array, "n"]
    bigram: Float[Array, "n"]

    __repr__ = shown


def counted_losses(
    text: tuple[Int[ArrayLike, "m"], Int[ArrayLike, "m"]],
    data: tuple[Int[ArrayLike, "n"], Int[ArrayLike, "n"]],
    *,
    vocabulary: int,
    smoothing: Scalar = 0.0,
) -> CountedLosses:
    r"""What the frequencies of `text` pay at each place of `data`; both are tokens and what stands for them, $(x, y)$.

    In a language model $y$ is the token after $x$. With $s$ the `smoothing` and $k$ the `vocabulary` of $y$,
    $\hat p(y)=\frac{c(y)+s/k}{m+s}$ and $\hat p(y\mid x)=\frac{c(x,y)+s\,\hat p(y)}{c(x)+s}$: pairs that were hardly
    seen go back to single tokens. Without smoothing, on the text itself, the means are the entropies of the text, of a
    token and of a token after a token. Places are given one by one, so that pairs do not reach over the ends of texts.

    >>> text = [0, 1, 0, 1], [1, 0, 1, 1]
    >>> [round(float(losses.mean()), 4) for losses in counted_losses(text, text, vocabulary=2)]
    [0.5623, 0.3466]
    """
    vocabulary = whole("vocabulary", vocabulary)
    smoothing = float(within("smoothing", real("smoothing", smoothing, ""), 0.0))
    (tokens, targets), (x, y) = _places("text", text, vocabulary), _places("data", data, vocabulary)
    count = np.bincount(targets, minlength=vocabulary)
    single = (count + smoothing / vocabulary) / (len(targets) + smoothing)
    before = _found(tokens, x)
    together = _found(tokens * vocabulary + targets, x * vocabulary + y)
    with np.errstate(divide="ignore", invalid="ignore"):  # a token that was never seen is infinitely unlikely
        after = (together + smoothing * single[y]) / (before + smoothing)
        after = np.where(before + smoothing > 0, after, single[y])
        return CountedLosses(jnp.asarray(-np.log(single[y])), jnp.asarray(-np.log(after)))


def _places(name: str, data, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and targets as whole numbers of 64 bits, in which a pair has room."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise TypeError(f"{name} must be a pair (x, y) of tokens and targets, got {type(data).__name__}.")
    dims: dict = {}
    x = labels(f"{name} x", data[0], None, "n", dims)
    y = labels(f"{name} y", data[1], vocabulary, "n", dims)
    return np.asarray(x, np.int64), np.asarray(y, np.int64)


def _found(among: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How often each of the wanted numbers occurs among others."""
    values, counts = np.unique(among, return_counts=True)
    place = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return np.where(values[place] == wanted, counts[place], 0)
