r"""The squared loss of a linear network $x\mapsto W_N\cdots W_1x$, its gradient, and the form of its critical points.

The loss depends on the data through their second moments alone. Weights are given from the first layer on, as in
`nets.DeepLinearNetwork.weights`; a network with one hidden layer, $ABx$, has the weights $(B,A)$. Examples are rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, positive, real
from corollary.catalog import implements
from corollary.landscape._chain import around, chain, product


class SecondMoments(NamedTuple):
    r"""$\Sigma_{xx}=\sum_ix_ix_i^\top$, $\Sigma_{yx}=\sum_iy_ix_i^\top$ and $\Sigma_{yy}=\sum_iy_iy_i^\top$."""

    xx: jax.Array
    yx: jax.Array
    yy: jax.Array

    __repr__ = shown


@implements("B06.04")
def second_moments(x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n k"]) -> SecondMoments:
    """The second moments, not centred and not divided by their number, of inputs (n, d) and targets (n, k)."""
    x, y = _data(x, y)
    return SecondMoments(x.T @ x, y.T @ x, y.T @ y)


@implements("B06.04", "B06.09")
def deep_linear_loss(
    weights: Sequence[Array], x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n k"]
) -> Float[Array, ""]:
    r"""$\frac12\sum_i\|y_i-W_N\cdots W_1x_i\|^2$ (6.9)."""
    weights, x, y = _network(weights, x, y)
    for w in weights:
        x = x @ w.T
    return jnp.sum((y - x) ** 2) / 2


@implements("B06.04")
def squared_loss_of_moments(matrix: Float[ArrayLike, "k d"], second: SecondMoments) -> Float[Array, ""]:
    r"""$\frac12\mathrm{tr}(\Sigma_{yy}-2W\Sigma_{xy}+W\Sigma_{xx}W^\top)$: the squared loss (6.19) of the map $W$."""
    dims = {}
    matrix = real("matrix", matrix, "k d", dims)
    xx, yx, yy = _moments(second, dims)
    return (jnp.trace(yy) - 2 * jnp.sum(matrix * yx) + jnp.sum(matrix @ xx * matrix)) / 2


@implements("B06.05", "B06.09")
def squared_loss_gradient(
    weights: Sequence[Array], x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n k"]
) -> tuple[jax.Array, ...]:
    r"""$\partial L/\partial W_l=-(W_N\cdots W_{l+1})^\top(\Sigma_{yx}-W\Sigma_{xx})(W_{l-1}\cdots W_1)^\top$.

    For $N=2$ these are (6.13) and (6.14); computed from the second moments, without differentiation.
    """
    weights, x, y = _network(weights, x, y)
    xx, yx, _ = second_moments(x, y)
    error = product(weights) @ xx - yx
    return tuple(after.T @ error @ before.T for after, before in around(weights))


def least_squares_map(x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n k"]) -> Float[Array, "_ _"]:
    r"""$\Sigma_{yx}\Sigma_{xx}^{-1}$, the matrix of the linear regression of the targets on the inputs."""
    x, y = _data(x, y)
    second = second_moments(x, y)
    _invertible(second.xx)
    return jnp.linalg.solve(second.xx, second.yx.T).T


@implements("B06.07", "B06.10")
def projected_least_squares(
    weights: Sequence[Array],
    x: Float[ArrayLike, "n d"],
    y: Float[ArrayLike, "n k"],
    rank_tolerance: Scalar | None = None,
) -> Float[Array, "_ _"]:
    r"""$P_C\Sigma_{yx}\Sigma_{xx}^{-1}$ with the orthogonal projector $P_C$ on the range of $C=W_N\cdots W_2$.

    What $W_N\cdots W_1$ must be at a critical point, for every rank of $C$. Singular values of $C$ below
    `rank_tolerance` times the largest one count as zero ($\epsilon$ times the larger side of $C$ unless given).
    """
    weights, x, y = _network(weights, x, y, low=2)
    outer = product(weights[1:])
    if rank_tolerance is None:
        rank_tolerance = float(jnp.finfo(outer.dtype).eps) * max(outer.shape)
    rank_tolerance = positive("rank_tolerance", real("rank_tolerance", rank_tolerance, ""))
    left, values, _ = jnp.linalg.svd(outer, full_matrices=False)
    # strictly above, so that the zero matrix has no range
    range_of_outer = jnp.where(values > rank_tolerance * values[0], left, 0)
    return range_of_outer @ (range_of_outer.T @ least_squares_map(x, y))


def _data(x, y):
    dims = {}
    x, y = real("x", x, "n d", dims), real("y", y, "n k", dims)
    dtype = jnp.result_type(x, y)
    return x.astype(dtype), y.astype(dtype)


def _network(weights, x, y, low: int = 1):
    weights, (x, y) = chain("weights", weights, low), _data(x, y)
    if x.shape[1] != weights[0].shape[1]:
        raise ValueError(f"x must have {weights[0].shape[1]} columns, as many as the first matrix, got {x.shape}.")
    if y.shape[1] != weights[-1].shape[0]:
        raise ValueError(f"y must have {weights[-1].shape[0]} columns, one per row of the last matrix, got {y.shape}.")
    return weights, x, y


def _moments(second, dims):
    if not isinstance(second, SecondMoments):
        raise TypeError(f"second must be Moments, got {type(second).__name__}.")
    shapes = {"xx": "d d", "yx": "k d", "yy": "k k"}
    return tuple(real(f"second.{name}", getattr(second, name), shape, dims) for name, shape in shapes.items())


def _invertible(xx):
    """Refuse inputs that do not span their space."""
    if concrete(xx):
        values = np.linalg.eigvalsh(np.asarray(xx))
        if values[0] <= values[-1] * len(values) * np.finfo(values.dtype).eps:
            raise ValueError("x must span the space of inputs: the second moment of the inputs is singular.")
