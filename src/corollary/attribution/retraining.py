r"""What really happens when training points are left out or weighed differently: the training is run again.

`fit(train, weights)` stands for the training everywhere: it returns a network that minimises
$\frac1n\sum_iw_i\ell(x_i,\theta)$, whatever else it does, and is a function that can be compiled and mapped. A weight 0
leaves a point out, a weight $1+n\epsilon$ adds $\epsilon$ to its share $\frac1n$. All trainings are one program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from corollary._show import shown
from corollary._types import LossLike, Scalar
from corollary._validate import real, whole, within
from corollary.attribution._targets import require_labels
from corollary.catalog import implements
from corollary.foundations import ridge
from corollary.generalization import leave_one_out
from corollary.network.batches import count, pair
from corollary.network.loss import of_examples


class Removal(NamedTuple):
    """`changes` (n, m): of the loss of each test point when each training point is removed; `losses` (m,) before."""

    changes: jax.Array
    losses: jax.Array

    __repr__ = shown


@implements("T10.02")
def leave_one_out_retraining(
    fit: Callable, loss: LossLike, train: PyTree, test: PyTree, *, batch_size: int | None = None
) -> Removal:
    r"""$\ell(z_j,\theta_{S\setminus x_i})-\ell(z_j,\theta_S)$ for every training point and every test point.

    `fit(train, weights)` trains, see the head of this file. `batch_size` trainings run side by side, all unless given.

    >>> mean = lambda train, w: (lambda m: (lambda x: m))(jnp.sum(w * train[1][:, 0]) / jnp.sum(w))
    >>> found = leave_one_out_retraining(mean, "squared", data, (x[:1], y[0]))
    >>> found.changes.shape
    (4, 1)
    """
    losses, ones = _trained_losses(fit, loss, train, test, "leave_one_out_retraining")
    everything = losses(ones)
    changes = _many(lambda i: losses(ones.at[i].set(0)), ones.size, batch_size) - everything
    return Removal(changes, everything)


@implements("T10.01")
def infinitesimal_influence(
    fit: Callable, loss: LossLike, train: PyTree, test: PyTree, *, epsilon: Scalar, batch_size: int | None = None
) -> Float[Array, "n m"]:
    r"""$I(x_i,z_j)=\frac\partial{\partial\epsilon}\ell(z_j,\theta_{x_i,\epsilon})|_0$ by retraining at $\pm\epsilon$.

    The weight of $x_i$ is $\frac1n\pm\epsilon$, the other weights stay $\frac1n$; the error of the central difference
    is of the order of $\epsilon^2$. The change of the loss that it predicts for the removal of $x_i$ is
    $-\frac1nI(x_i,z_j)$, which is what `influence` returns.
    """
    losses, ones = _trained_losses(fit, loss, train, test, "infinitesimal_influence")
    n = ones.size
    epsilon = within("epsilon", real("epsilon", epsilon, ""), 0.0, 1 / n, open="low")

    def slope(i):
        more, less = (losses(ones.at[i].add(sign * n * epsilon)) for sign in (1, -1))
        return (more - less) / (2 * epsilon)

    return _many(slope, n, batch_size)


class LeastSquaresRemoval(NamedTuple):
    """`theta` (d,) of all points, its `changes` (n, d) when each is removed, and their `leverages` (n,)."""

    theta: jax.Array
    changes: jax.Array
    leverages: jax.Array

    __repr__ = shown


@implements("T10.02")
def least_squares_removal(train: PyTree, *, penalty: Scalar = 0.0) -> LeastSquaresRemoval:
    r"""Leave-one-out of least squares in closed form, from one fit (Sherman and Morrison).

    $\theta_{-i}-\theta=-\frac{(X^\top X+n\lambda I)^{-1}x_ie_i}{1-h_i}$ with the residual $e_i=y_i-x_i\cdot\theta$ and
    the leverage $h_i=x_i^\top(X^\top X+n\lambda I)^{-1}x_i$, for the minimiser of
    $\frac1{2n}\|X\theta-y\|^2+\frac\lambda2\|\theta\|^2$, whose shares $\frac1n$ stay what they are. `train` is $(X,y)$
    with targets (n,). Infinite for a point of leverage 1, without which there is no unique fit.

    >>> least_squares_removal(([[1.0], [1.0], [1.0]], [0.0, 3.0, 3.0])).changes.round(4).tolist()
    [[1.0], [-0.5], [-0.5]]
    """
    x, y = pair("train", train)
    dims = {}
    x, y = real("train[0]", x, "n d", dims), real("train[1]", y, "n", dims)
    penalty = within("penalty", real("penalty", penalty, ""), 0.0)
    left = leave_one_out(x, y, penalty=penalty)
    n, d = x.shape
    directions = jnp.linalg.solve(x.T @ x + n * penalty * jnp.eye(d, dtype=x.dtype), x.T).T
    return LeastSquaresRemoval(ridge(x, y, penalty), -directions * left.residuals[:, None], left.leverages)


def _trained_losses(fit, loss, train, test, who):
    """The function of weights that trains and measures the loss of every test point, and weights that are all one."""
    if not callable(fit):
        raise TypeError(f"fit must be a function of data and weights that returns a network, got {type(fit).__name__}.")
    loss, train, test = of_examples(loss, who=who), pair("train", train), pair("test", test)

    def losses(weights):
        network = fit(train, weights)
        if not callable(network):
            raise TypeError(f"fit must return a network, callable with one example, got {type(network).__name__}.")
        require_labels(network, loss.function, test)
        return jax.vmap(lambda x, y: loss.function(network(x), y))(*test)

    kinds = [a.dtype for a in jax.tree.leaves(train) if jnp.issubdtype(a.dtype, jnp.floating)]
    return losses, jnp.ones(count(train), jnp.result_type(*kinds) if kinds else float)


def _many(function, n: int, batch_size: int | None):
    """A function of an index for all of them, side by side as far as told."""
    batch_size = n if batch_size is None else min(whole("batch_size", batch_size), n)
    return jax.jit(lambda indices: jax.lax.map(function, indices, batch_size=batch_size))(jnp.arange(n))
