"""Metrics: what is reported, as opposed to what is minimised."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._show import shown
from corollary._validate import labels, positive, real, whole, within
from corollary.catalog import implements
from corollary.foundations import wilson_interval


@implements("M02.11")
def mean_relative_error(y: Float[ArrayLike, "n"], prediction: Float[ArrayLike, "n"]) -> Float[Array, ""]:
    r"""$\frac1n\sum|y-y'|/y$, for positive labels."""
    dims = {}
    y, prediction = positive("y", real("y", y, "n", dims)), real("prediction", prediction, "n", dims)
    return jnp.mean(jnp.abs(y - prediction) / y)


@implements("M03.10")
def error_rate(y: Int[ArrayLike, "n"], predicted: Int[ArrayLike, "n"]) -> Float[Array, ""]:
    """The share of wrong labels."""
    dims = {}
    y, predicted = labels("y", y, None, "n", dims), labels("predicted", predicted, None, "n", dims)
    return jnp.mean(y != predicted, dtype=jnp.result_type(float))


@implements("M03.10")
def confusion_matrix(y: Int[ArrayLike, "n"], predicted: Int[ArrayLike, "n"], classes: int) -> Int[Array, "_ _"]:
    """Counts, one row for each true class and one column for each predicted one.

    >>> confusion_matrix([0, 1, 1], [0, 1, 0], 2).tolist()
    [[1, 0], [1, 1]]
    """
    classes, dims = whole("classes", classes, 2), {}
    y, predicted = labels("y", y, classes, "n", dims), labels("predicted", predicted, classes, "n", dims)
    return jnp.zeros((classes, classes), y.dtype).at[y, predicted].add(1)


@implements("M03.10")
def balanced_error(y: Int[ArrayLike, "n"], predicted: Int[ArrayLike, "n"], classes: int) -> Float[Array, ""]:
    """The mean over the classes present in `y` of the error within each."""
    return weighted_error(y, predicted, jnp.ones(whole("classes", classes, 2)))


@implements("M03.10")
def weighted_error(
    y: Int[ArrayLike, "n"], predicted: Int[ArrayLike, "n"], weights: Float[ArrayLike, "J"]
) -> Float[Array, ""]:
    """The weighted mean of the errors within each class, over the classes present in `y`.

    Weights equal to the class frequencies give `error_rate`, equal weights `balanced_error`.
    """
    weights = within("weights", real("weights", weights, "J"), 0.0)
    counts = confusion_matrix(y, predicted, weights.shape[0])
    total = counts.sum(axis=1)
    errors = 1 - jnp.diagonal(counts) / jnp.maximum(total, 1)
    weights = jnp.where(total > 0, weights, 0)
    positive("weights on the classes present", weights.sum())
    return weights @ errors / weights.sum()


class Bins(NamedTuple):
    """What `binned_frequency` returns, one entry per bin."""

    centre: jax.Array
    frequency: jax.Array
    count: jax.Array
    lower: jax.Array
    upper: jax.Array

    __repr__ = shown


@implements("M03.03")
def binned_frequency(x: Float[ArrayLike, "n"], y: Float[ArrayLike, "n"], bins: int, level: float = 0.95) -> Bins:
    """Per bin of the feature: the mean of `y`, how many points fell in, and the Wilson interval.

    `y` is 0 or 1, or anything between (the bin averages of a fitted curve). `bins` is a number of equal bins from
    the least to the greatest `x`, or the increasing edges; points outside the edges are left out, the last edge
    belongs to the last bin. An empty bin has count 0, frequency NaN and the interval [0, 1].
    """
    dims = {}
    x, y = real("x", x, "n", dims), within("y", real("y", y, "n", dims), 0.0, 1.0)
    edges = _edges(x, bins)
    m = edges.shape[0] - 1
    last = jnp.searchsorted(edges, x, side="right") - 1
    at = jnp.where(x == edges[-1], m - 1, last)
    at = jnp.where((x < edges[0]) | (x > edges[-1]), m, at)
    count = jnp.zeros(m + 1, y.dtype).at[at].add(1)[:m]
    total = jnp.zeros(m + 1, y.dtype).at[at].add(y)[:m]
    lower, upper = wilson_interval(total, count, level)
    return Bins((edges[1:] + edges[:-1]) / 2, total / count, count.astype(int), lower, upper)


def _edges(x, bins):
    if np.ndim(bins) == 0:
        return jnp.linspace(x.min(), x.max(), whole("bins", bins) + 1)
    edges = real("bins", bins, "m")
    if edges.shape[0] < 2:
        raise ValueError(f"bins must hold at least two edges, got {edges.shape[0]}.")
    positive("the steps between the edges in bins", jnp.diff(edges))
    return edges
