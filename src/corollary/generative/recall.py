r"""What a sampler makes against what it has seen: copies of training examples, and modes that never come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._validate import labels as checked_labels
from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.foundations import wilson_interval
from corollary.generative._distances import called, nearest, tables


class NearestTraining(NamedTuple):
    """How far each sample is from the nearest training example, and which one that is."""

    distance: jax.Array
    index: jax.Array

    __repr__ = shown


def nearest_training(samples: Float[ArrayLike, "n ..."], train: Float[ArrayLike, "m ..."]) -> NearestTraining:
    """The nearest training example of each sample, in Euclidean distance: 0 is a copy, exactly.

    >>> nearest_training(x[2:], x).index.tolist()
    [2, 3]
    """
    return NearestTraining(*nearest(*tables(samples=samples, train=train)))


def mode_counts(
    samples: Float[ArrayLike, "n ..."], centres: Float[ArrayLike, "m ..."], labels: Int[ArrayLike, "m"] | None = None
) -> Int[Array, "_"]:
    """How many samples are nearest to each centre; with `labels`, to centres of each label.

    The centres may be means of clusters, or labelled examples.

    >>> mode_counts([[0.1], [0.2], [2.1]], [[0.0], [1.0], [2.0]]).tolist()
    [2, 0, 1]
    """
    samples, centres = tables(samples=samples, centres=centres)
    kinds = jnp.arange(len(centres)) if labels is None else checked_labels("labels", labels, None, "m")
    if len(kinds) != len(centres):
        raise ValueError(f"labels must hold one label for each of the {len(centres)} centres, got {len(kinds)}.")
    count = len(centres) if labels is None else int(kinds.max()) + 1
    return jnp.bincount(kinds[nearest(samples, centres)[1]], length=count)


def cluster_centres(x: Float[ArrayLike, "n ..."], count: int, *, key: PRNGKeyArray, steps: int = 25) -> Array:
    """Means of `count` clusters by Lloyd's iteration, from examples drawn with odds by their squared distances."""
    (rows,) = tables(x=x)
    count, steps = whole("count", count, 1, len(rows)), whole("steps", steps)
    return _lloyd(rows, count, steps, key).reshape(count, *jnp.shape(x)[1:])


@partial(jax.jit, static_argnums=(1, 2))
def _lloyd(rows, count, steps, key):
    first_key, key = jax.random.split(key)
    first = rows[jax.random.randint(first_key, (), 0, len(rows))]
    squares = lambda centre: jnp.sum((rows - centre) ** 2, 1)  # noqa: E731

    def seeded(least, key):
        odds = jnp.where(jnp.any(least > 0), least, 1.0)
        centre = rows[jax.random.categorical(key, jnp.log(odds))]
        return jnp.minimum(least, squares(centre)), centre

    _, others = lax.scan(seeded, squares(first), jax.random.split(key, count - 1))
    start = jnp.concatenate([first[None], others])

    def moved(_, centres):
        # centred for the rounding; the term of the rows themselves is the same for all centres
        product = (rows - rows.mean(0)) @ (centres - rows.mean(0)).T
        at = jnp.argmin(jnp.sum((centres - rows.mean(0)) ** 2, 1) - 2 * product, 1)
        belongs = jax.nn.one_hot(at, count, dtype=rows.dtype)
        size = belongs.sum(0)[:, None]
        return jnp.where(size > 0, belongs.T @ rows / jnp.maximum(size, 1), centres)

    return lax.fori_loop(0, steps, moved, start)


class PredictedAccuracy(NamedTuple):
    """The accuracy on generated examples, with its 95 % interval as far as their number goes."""

    value: jax.Array
    interval: tuple

    __repr__ = shown


@implements("T16.19")
def predicted_accuracy(
    classifier: Callable[[Any], Any], sample: Callable, size: int = 1000, *, key: PRNGKeyArray
) -> PredictedAccuracy:
    """The accuracy of a classifier on examples of a generator that was trained on the same data: no test set.

    `sample(size, key=key)` returns examples and their labels, `classifier(x)` of one example a score for each class.
    """
    if not callable(classifier):
        raise TypeError(f"classifier must be a function, got {type(classifier).__name__}.")
    made = called(sample, whole("size", size), key)
    if not isinstance(made, tuple | list) or len(made) != 2:
        raise ValueError(f"sample(size, key=key) must return examples and labels (x, y), got {type(made).__name__}.")
    x, y = real("x", made[0]), checked_labels("y", made[1], None)
    if x.ndim == 0 or len(x) != len(y):
        raise ValueError(f"sample(size, key=key) must return as many labels as examples, got {len(y)} for {x.shape}.")
    scores = jax.vmap(classifier)(x)
    if jnp.ndim(scores) != 2:
        raise ValueError(f"classifier(x) must return a score for each class, got shape {jnp.shape(scores)[1:]}.")
    right = jnp.argmax(scores, 1) == y
    return PredictedAccuracy(right.mean(dtype=x.dtype), wilson_interval(right.sum(), len(y)))
