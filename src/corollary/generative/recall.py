r"""What a sampler makes against what it has seen: copies of training examples, and modes that never come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
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
