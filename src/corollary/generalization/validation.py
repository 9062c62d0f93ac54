r"""Choosing by data that were not trained on: a split, a validation curve, folds, one point left out in closed form.

`fit(data, key)`, or `fit(data, value, key)` for each of several `values` of a hyper-parameter, returns a predictor, a
function of one example. Values in an array are mapped over in one program. Values in a list or a range are taken one
after the other, and may be shapes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import LossLike, Scalar
from corollary._validate import positive, real, within
from corollary.catalog import implements
from corollary.network._code import by_code
from corollary.network.loss import of_examples


@implements("M11.01")
def three_way_split(
    data: PyTree, fractions: Sequence[float] = (0.7, 0.15, 0.15), *, key: PRNGKeyArray
) -> tuple[PyTree, PyTree, PyTree]:
    """Training, validation and test data: disjoint, of these shares, and all of the data, in random order.

    >>> [len(part[0]) for part in three_way_split((jnp.arange(20.0), jnp.arange(20.0)), key=key)]
    [14, 3, 3]
    """
    fractions = np.asarray(fractions, float)
    if fractions.shape != (3,) or (fractions <= 0).any() or abs(fractions.sum() - 1) > 1e-9:
        raise ValueError(f"fractions must be three positive numbers with sum 1, got {fractions.tolist()}.")
    n = _count(data)
    first, second = (round(share * n) for share in np.cumsum(fractions)[:2])
    if not 0 < first < second < n:
        raise ValueError(f"data must be enough for three parts of shares {fractions.tolist()}, got {n} examples.")
    order = jax.random.permutation(key, n)
    return tuple(_rows(data, order[a:b]) for a, b in ((0, first), (first, second), (second, n)))


class ValidationCurve(NamedTuple):
    """The mean loss on `train` and `validation` data for each value; `best` is the index of the least of the latter."""

    train: Array
    validation: Array
    best: Array
    __repr__ = shown


@implements("M11.04")
def validation_curve(
    fit: Callable,
    train: PyTree,
    validation: PyTree,
    values: Any,
    *,
    loss: LossLike = "squared",
    key: PRNGKeyArray,
) -> ValidationCurve:
    """The mean `loss` of `fit(train, value, key)` on both parts of the data, for each of the `values`."""
    _count(train), _count(validation)
    fit, loss = _checked(fit), of_examples(loss, who="validation_curve")
    inside, outside = _over(lambda fit, *value: _curve(fit, loss, train, validation, key, *value), fit, values)
    return ValidationCurve(inside, outside, jnp.argmin(outside))


class CrossValidation(NamedTuple):
    """`scores` are the mean losses on the held-out parts, (folds,), or (values, folds); `mean` that over the folds.

    `error` is the standard error of that mean as if folds were independent, which they are not quite. `best` is the
    index of the value of the least mean, None without values.
    """

    scores: Array
    mean: Array
    error: Array
    best: Array | None
    __repr__ = shown


@implements("M11.09")
def cross_validate(
    fit: Callable,
    data: PyTree,
    splitter: Any,
    *,
    values: Any = None,
    loss: LossLike = "squared",
    key: PRNGKeyArray,
) -> CrossValidation:
    """The mean `loss` on each part that is held out, of `fit` to the rest, for each of the `values` if there are any.

    `splitter` is one of scikit-learn's, such as `KFold(10, shuffle=True, random_state=0)`, or a list of pairs of
    indices (training, held out). Parts of the same size, and values in an array, are mapped over in one program.

    >>> from sklearn.model_selection import KFold
    >>> c = cross_validate(
    ...     lambda data, key: polynomial_fit(*data, 1), (jnp.arange(6.0), jnp.arange(6.0)), KFold(3), key=key)
    >>> c.scores.shape
    (3,)
    """
    n = _count(data)
    fit, loss = _checked(fit), of_examples(loss, who="cross_validate")
    folds = _folds(splitter, data, n)
    keys = jax.random.split(key, len(folds))
    sizes = [(len(train), len(held)) for train, held in folds]
    scores = None
    for size in sorted(set(sizes)):
        at = np.asarray([i for i, s in enumerate(sizes) if s == size])
        train, held = (np.stack([folds[i][part] for i in at]) for part in range(2))
        score = functools.partial(_scored, loss, data, train, held, keys[at])
        found = score(fit) if values is None else _over(score, fit, values)
        scores = jnp.zeros((*found.shape[:-1], len(folds)), found.dtype) if scores is None else scores
        scores = scores.at[..., at].set(found)
    mean, error = jnp.mean(scores, -1), jnp.std(scores, -1, ddof=min(1, len(folds) - 1)) / len(folds) ** 0.5
    return CrossValidation(scores, mean, error, None if values is None else jnp.argmin(mean))


class LeaveOneOut(NamedTuple):
    """`residuals` of each point for the fit without it, and the `leverages` of the points."""

    residuals: Array
    leverages: Array
    __repr__ = shown


@implements("M11.09")
def leave_one_out(features: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n"], *, penalty: Scalar = 0.0) -> LeaveOneOut:
    r"""Least squares without each point in turn, from one fit: $\frac{y_i-\hat y_i}{1-h_{ii}}$.

    $H=\Phi(\Phi^\top\Phi+n\lambda I)^{-1}\Phi^\top$ with $\lambda$ = `penalty`; the fits to $n-1$ points keep the same
    $n\lambda$. Infinite or NaN for a point whose leverage is 1: without it there is no unique fit.
    """
    dims = {}
    features, y = real("features", features, "n d", dims), real("y", y, "n", dims)
    penalty = within("penalty", real("penalty", penalty, ""), 0.0)
    n = features.shape[0]
    u, s, _ = jnp.linalg.svd(features, full_matrices=False)
    kept = s > max(features.shape) * jnp.finfo(s.dtype).eps * s[0]
    share = jnp.where(kept, s**2 / jnp.where(kept, s**2 + n * penalty, 1), 0)
    leverages = u**2 @ share
    return LeaveOneOut((y - u @ (share * (u.T @ y))) / (1 - leverages), leverages)


@implements("M11.01")
def diagnose(train: Scalar, validation: Scalar, floor: Scalar, *, factor: Scalar = 2.0) -> str:
    """What the errors on training and validation data say: `"bias"`, `"variance"` or `"ok"`.

    `floor` is the error that noise alone makes. `"bias"`: the training error is above `factor` times that, take a
    richer family. `"variance"`: it is not, and the validation error is, take a simpler family or more data.

    >>> diagnose(0.1, 3.0, 0.8)
    'variance'
    """
    named = {"train": train, "validation": validation, "floor": floor}
    train, validation, floor = (float(within(n, real(n, v, ""), 0.0)) for n, v in named.items())
    allowed = float(positive("factor", real("factor", factor, ""))) * floor
    return "bias" if train > allowed else "variance" if validation > allowed else "ok"


@functools.partial(jax.jit, static_argnums=(0, 1))
def _curve(fit, loss, train, validation, key, *value):
    predictor = fit(train, *value, key)
    return tuple(loss.of_outputs(jax.vmap(predictor)(x), y) for x, y in (train, validation))


def _scored(loss, data, train, held, keys, fit, *value):
    return _scores(fit, loss, data, train, held, keys, *value)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _scores(fit, loss, data, train, held, keys, *value):
    """The loss on the held-out rows for each fold."""

    def one(train, held, key):
        predictor = fit(_rows(data, train), *value, key)
        x, y = _rows(data, held)
        return loss.of_outputs(jax.vmap(predictor)(x), y)

    return jax.vmap(one)(train, held, keys)


def _over(score, fit, values):
    """`score(fit, value)` for all values, along a new first axis."""
    if isinstance(values, list | tuple | range):
        if not len(values):
            raise ValueError("values must not be empty.")
        found = [score(_given(fit, value)) for value in values]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)
    leaves = jax.tree.leaves(values)
    if not leaves or any(jnp.ndim(leaf) == 0 or not len(leaf) for leaf in leaves):
        raise ValueError("values must have a first axis of the values to try, or be a list of them.")
    return jax.vmap(lambda value: score(fit, value))(values)


def _given(fit, value):
    """`fit` for one value, which is a part of the program: it may be a shape."""
    return by_code(lambda data, key: fit(data, value, key))


def _folds(splitter, data, n):
    if hasattr(splitter, "split") and not isinstance(splitter, str):
        x, y = (np.asarray(jax.tree.leaves(part)[0]) for part in data)
        pairs = splitter.split(x, y)
    elif isinstance(splitter, list | tuple):
        pairs = splitter
    else:
        raise TypeError(
            "splitter must be one of scikit-learn's, such as KFold(10), or a list of pairs of indices, "
            f"got {type(splitter).__name__}."
        )
    folds = []
    for pair in pairs:
        train, held = (np.asarray(part, int) for part in pair)
        if not train.size or not held.size:
            raise ValueError("splitter must leave something to train on and something to hold out in every fold.")
        if min(train.min(), held.min()) < 0 or max(train.max(), held.max()) >= n:
            raise ValueError(f"splitter must give indices from 0 to {n - 1}.")
        if both := set(train.tolist()) & set(held.tolist()):
            raise ValueError(f"splitter must not train on what it holds out, got example {min(both)} in both parts.")
        folds.append((train, held))
    if not folds:
        raise ValueError("splitter must give at least one fold.")
    return folds


def _checked(fit):
    if not callable(fit):
        raise TypeError(f"fit must be a function of data and key that returns a predictor, got {type(fit).__name__}.")
    return by_code(fit)


def _count(data):
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise TypeError("data must be a pair (x, y).")
    sizes = {jnp.shape(leaf)[0] if jnp.ndim(leaf) else None for leaf in jax.tree.leaves(data)}
    if len(sizes) != 1 or None in sizes:
        raise ValueError("data must have one first axis, that of the examples, in x and in y.")
    return sizes.pop()


def _rows(data, rows):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[rows], data)
