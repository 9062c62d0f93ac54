r"""Bias and variance of whatever is fitted to data: one program that draws the data again and again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import one_of, real, whole
from corollary.catalog import implements
from corollary.network._code import by_code

LOSSES = ("squared", "brier")


class BiasVariance(NamedTuple):
    r"""At each point the squared `bias` $\|\mathbb E\hat f-f\|^2$ and the `variance` of the prediction.

    The variance is $\mathbb E\|\hat f-\mathbb E\hat f\|^2$, and `excess` is $\mathbb E\|\hat f-f\|^2$, the sum:
    exactly so, as all means are over the same data. Of a mean over `runs` data sets the squared bias is too large by
    variance / `runs`, on average. `mean` is $\mathbb E\hat f$, and `error` the standard error of the mean of `excess`
    over the points.
    """

    bias: Array
    variance: Array
    excess: Array
    mean: Array
    error: Array
    __repr__ = shown


@implements("M01.19", "B13.05", "B13.06")
def bias_variance(
    fit: Callable,
    draw: Callable,
    x: Float[ArrayLike, "..."],
    *,
    truth: Callable,
    runs: int,
    loss: str = "squared",
    key: PRNGKeyArray,
) -> BiasVariance:
    r"""Bias and variance at the points `x` of `fit(data, key)` over data sets `draw(key)`, one program for all.

    `fit` returns a predictor, a function of one point; `truth` is $f(x)=\mathbb E[y|x]$, a function of one point too.
    The excess of the squared loss of a new $y$ over its least value is `bias` + `variance`. The same for `"brier"`,
    with vectors of probabilities, summed over the classes. For other losses there is no such sum.

    >>> law = Planted(jnp.sin, jax.random.uniform, 0.1)
    >>> b = bias_variance(
    ...     lambda data, key: polynomial_fit(*data, 1), lambda key: law.sample(9, key=key), jnp.linspace(0, 1, 5),
    ...     truth=jnp.sin, runs=20, key=key)
    >>> bool(jnp.allclose(b.bias + b.variance, b.excess))
    True
    """
    for name, value in (("fit", fit), ("draw", draw), ("truth", truth)):
        if not callable(value):
            raise TypeError(f"{name} must be a function, got {type(value).__name__}.")
    if loss in ("zero_one", "0-1", "01"):
        raise ValueError(
            "There is no sum of bias and variance for the 0-1 loss: a variance can undo a bias. Take loss='brier' with "
            "the probabilities of the classes."
        )
    one_of("loss", loss, LOSSES)
    x, runs = real("x", x), whole("runs", runs, 2)
    target = jax.eval_shape(jax.vmap(truth), x)
    if loss == "brier" and len(target.shape) != 2:
        raise ValueError(
            f"truth must return the probabilities of the classes for the Brier score, got shape {target.shape[1:]}."
        )
    predictions = _predictions(by_code(fit), by_code(draw), x, jax.random.split(key, runs))
    return _decomposed(predictions, jax.vmap(truth)(x))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _predictions(fit, draw, x, keys):
    def one(key):
        draw_key, fit_key = jax.random.split(key)
        return jax.vmap(fit(draw(draw_key), fit_key))(x)

    return jax.vmap(one)(keys)


@jax.jit
def _decomposed(predictions, target):
    if predictions.shape[1:] != target.shape:
        raise ValueError(f"fit must predict what truth returns, shape {target.shape[1:]}, got {predictions.shape[2:]}.")
    mean = jnp.mean(predictions, 0)

    def size(difference):  # at each point, over the coordinates of a vector
        return jnp.sum(difference.reshape(*difference.shape[: difference.ndim - target.ndim + 1], -1) ** 2, -1)

    off = size(predictions - target)
    error = jnp.std(jnp.mean(off, 1), ddof=1) / predictions.shape[0] ** 0.5
    return BiasVariance(size(mean - target), jnp.mean(size(predictions - mean), 0), jnp.mean(off, 0), mean, error)
