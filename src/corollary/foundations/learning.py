r"""The setting of learning: data and their law, losses of a parameter, and the parameter that minimises them.

A loss is a function `loss(theta, x, y)` of a parameter (any pytree) and one datapoint; `point_loss` makes one of a
model and an error function. Averages are taken under a `Dataset` (the empirical measure) or a `FiniteLaw` (the truth,
where it has finitely many values): both know how to take an expectation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import labels, real, whole, within
from corollary.catalog import implements
from corollary.foundations._laws import probabilities


@implements("M00.02")
class Dataset(eqx.Module):
    r"""A multiset $\mathcal D$ of datapoints, with its empirical measure $\frac1{|\mathcal D|}\sum\delta_{(x,y)}$.

    `x` and `y` hold one datapoint a row. Order means nothing, repetition counts.
    """

    x: jax.Array
    y: jax.Array

    def __init__(self, x: PyTree, y: PyTree):
        self.x, self.y = _rows("x", x), _rows("y", y)
        if self.x.shape[0] != self.y.shape[0]:
            raise ValueError(
                f"x and y must have the same number of rows, got shapes {self.x.shape} and {self.y.shape}."
            )

    def __len__(self) -> int:
        return self.x.shape[0]

    def expectation(self, g: Callable) -> PyTree:
        r"""$E_{\mathcal D}[g]=\frac1{|\mathcal D|}\sum g(x,y)$; `g` may return any pytree of arrays."""
        return jax.tree.map(lambda v: (1.0 * v).mean(0), jax.vmap(_function("g", g))(self.x, self.y))

    def sample(self, size: int, *, key: PRNGKeyArray, replace: bool = True) -> "Dataset":
        r"""`size` datapoints drawn from $P_{\mathcal D}$, or from the multiset without putting back."""
        size = whole("size", size, 1, None if replace else len(self))
        at = jax.random.choice(key, len(self), (size,), replace=replace)
        return Dataset(self.x[at], self.y[at])


@implements("T01.01")
class FiniteLaw(eqx.Module):
    r"""A law $\mathcal D$ on finitely many datapoints: row k of `x` and `y` has probability `probability[k]`."""

    x: jax.Array
    y: jax.Array
    probability: jax.Array

    def __init__(self, x: PyTree, y: PyTree, probability: Float[ArrayLike, "..."]):
        points = Dataset(x, y)
        self.x, self.y = points.x, points.y
        self.probability = probabilities("probability", probability, "k", {"k": len(points)})

    def expectation(self, g: Callable) -> PyTree:
        r"""$E_{(x,y)\sim\mathcal D}[g(x,y)]$, as the exact sum."""
        values = jax.vmap(_function("g", g))(self.x, self.y)
        return jax.tree.map(lambda v: jnp.tensordot(self.probability, 1.0 * v, 1), values)

    def sample(self, size: int, *, key: PRNGKeyArray) -> Dataset:
        """`size` independent draws."""
        at = jax.random.choice(key, self.x.shape[0], (whole("size", size),), p=self.probability)
        return Dataset(self.x[at], self.y[at])

    def samples(self, size: int) -> tuple[Int[Array, "_ _"], Float[Array, "_"]]:
        """Every sample of this size: the rows drawn, (k^size, size), and the probability of drawing them so."""
        k, size = self.x.shape[0], whole("size", size)
        if k**size > 2**22:
            raise ValueError(f"size must give at most 2^22 samples, got {k}^{size}.")
        rows = jnp.arange(k**size)[:, None] // k ** jnp.arange(size) % k
        return rows, jnp.prod(self.probability[rows], axis=1)


@implements("M01.04")
def point_loss(model: Callable, error: Callable) -> Callable:
    r"""$\lambda_{(x,y)}(\theta)=\ell_y(m(x;\theta))$ from `model(theta, x)` and `error(y, prediction)`."""
    _function("model", model), _function("error", error)
    return lambda theta, x, y: error(y, model(theta, x))


@implements("T01.01", "M01.04", "M01.16", "B05.02")
def training_loss(loss: Callable, theta: PyTree, data: Dataset) -> Float[Array, ""]:
    r"""$\hat L(\theta)=\frac1n\sum_i\ell((x_i,y_i),\theta)$; on data that were not trained on, the test loss."""
    _function("loss", loss), _of_kind("data", data, Dataset)
    return data.expectation(lambda x, y: loss(theta, x, y))


@implements("T01.01", "M00.02", "B05.02")
def expected_loss(loss: Callable, theta: PyTree, law: FiniteLaw) -> Float[Array, ""]:
    r"""$L(\theta)=E_{(x,y)\sim\mathcal D}[\ell((x,y),\theta)]$, the population loss, exactly."""
    _function("loss", loss), _of_kind("law", law, FiniteLaw)
    return law.expectation(lambda x, y: loss(theta, x, y))


@implements("M01.16")
def generalisation_gap(loss: Callable, theta: PyTree, train: Dataset, test: Dataset | FiniteLaw) -> Float[Array, ""]:
    r"""What `theta` loses on `test`, new data or the law itself, beyond what it loses on `train`."""
    _of_kind("test", test, (Dataset, FiniteLaw))
    outside = training_loss if isinstance(test, Dataset) else expected_loss
    return outside(loss, theta, test) - training_loss(loss, theta, train)


@implements("T01.04")
def regularised(loss: Callable, regulariser: Callable, penalty: Scalar) -> Callable:
    r"""$\theta\mapsto\hat L(\theta)+\lambda R(\theta)$ from two functions of the parameter and $\lambda\ge0$."""
    _function("loss", loss), _function("regulariser", regulariser)
    penalty = within("penalty", real("penalty", penalty, ""), 0.0)
    return lambda theta: loss(theta) + penalty * regulariser(theta)


class Minimisers(NamedTuple):
    """What `erm` returns: the first minimiser's index, its loss, the loss of each hypothesis, and which attain it."""

    index: jax.Array
    loss: jax.Array
    losses: jax.Array
    attained: jax.Array

    __repr__ = shown


@implements("T01.03", "M01.08", "B05.02")
def erm(loss: Callable, hypotheses: Float[ArrayLike, "..."], data: Dataset) -> Minimisers:
    r"""$\hat h\in\arg\min_{h\in\mathcal H}\hat L(h)$ over a finite class: `hypotheses` is a pytree with one per row.

    Of several minimisers the first is taken; `attained` marks all of them.
    """
    sizes = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(hypotheses)}
    if len(sizes) != 1 or sizes & {(), (0,)}:
        raise ValueError(
            f"hypotheses must hold one hypothesis per row, the same number in every leaf, got {sorted(sizes)}."
        )
    losses = jax.vmap(lambda h: training_loss(loss, h, data))(hypotheses)
    index = jnp.argmin(losses)
    return Minimisers(index, losses[index], losses, losses == losses[index])


class Threshold(NamedTuple):
    """A classifier of the line: label 1 above `at`, and the share of `loss` it gets wrong."""

    at: jax.Array
    loss: jax.Array

    __repr__ = shown


@implements("T01.03")
def erm_threshold(x: Float[ArrayLike, "n"], y: Int[ArrayLike, "n"]) -> Threshold:
    r"""The best $h_c(x)=\mathbf 1\{x>c\}$ for labels 0 and 1, by one sort: $c$ is $-\infty$ or one of the $x$."""
    dims = {}
    x, y = real("x", x, "n", dims), labels("y", y, 2, "n", dims)
    order = jnp.argsort(x)
    x, y = x[order], y[order]
    # with c at the k-th x: the ones up to k are wrong, and the zeros beyond
    wrong = jnp.cumsum(y) + jnp.sum(1 - y) - jnp.cumsum(1 - y)
    # of equal x only the last is a place to cut after
    cut = jnp.append(x[1:] > x[:-1], True)
    wrong = jnp.append(jnp.sum(1 - y), jnp.where(cut, wrong, x.shape[0] + 1))
    best = jnp.argmin(wrong)
    return Threshold(jnp.append(-jnp.inf, x)[best], wrong[best] / x.shape[0])


@implements("T01.04", "M01.08")
def ridge(x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n"], penalty: Scalar = 0.0) -> Float[Array, "d"]:
    r"""The minimiser $(X^\top X/n+\lambda I)^{-1}X^\top y/n$ of $\frac1{2n}\|Xw-y\|^2+\frac\lambda2\|w\|^2$.

    With `penalty` 0 the least squares solution of least norm.

    >>> ridge([[1.0], [2.0]], [1.0, 2.0]).round(3).tolist()
    [1.0]
    """
    dims = {}
    x, y = real("x", x, "n d", dims), real("y", y, "n", dims)
    penalty = within("penalty", real("penalty", penalty, ""), 0.0)
    # on the singular values: no normal equations, and penalty 0 needs no case of its own
    u, s, vt = jnp.linalg.svd(x, full_matrices=False)
    kept = s > s[0] * max(x.shape) * jnp.finfo(x.dtype).eps
    n = x.shape[0]
    filtered = jnp.where(kept | (penalty > 0), s / jnp.where(kept | (penalty > 0), s**2 + n * penalty, 1), 0)
    return vt.T @ (filtered * (u.T @ y))


def _rows(name, value):
    try:
        value = jnp.asarray(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of numbers, got {type(value).__name__}.") from None
    if value.ndim == 0 or value.shape[0] == 0:
        raise ValueError(f"{name} must hold at least one datapoint, one per row, got shape {np.shape(value)}.")
    return value


def _function(name, value):
    if not callable(value):
        raise TypeError(f"{name} must be a function, got {type(value).__name__}.")
    return value


def _of_kind(name, value, kinds):
    if not isinstance(value, kinds):
        names = " or ".join(k.__name__ for k in (kinds if isinstance(kinds, tuple) else (kinds,)))
        raise TypeError(f"{name} must be a {names}, got {type(value).__name__}.")
