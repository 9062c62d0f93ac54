r"""Symmetry of hidden units: $h_W(x)=\sum_{i\le k}\sigma(w_i^\top x)$ does not change when the $w_i$ change
places.

So minima come in families of $k!$, the loss cannot be convex where the average of the family is worse than
its members, and on the set where units are equal the gradient keeps them equal: saddles lie there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets import ActivationFunction


@implements("T06.15")
class SumNet(eqx.Module):
    r"""$x\mapsto\sum_{i\le k}\sigma(w_i^\top x)$ with the rows $w_i$ of `weights` (k, d); on inputs (..., d)."""

    weights: jax.Array
    activation: ActivationFunction = eqx.field(static=True)

    def __init__(self, activation: ActivationFunction, weights: Float[ArrayLike, "k d"]):
        if not isinstance(activation, ActivationFunction):
            raise TypeError(f"activation must be an Activation of corollary.nets, got {type(activation).__name__}.")
        self.activation = activation
        self.weights = real("weights", weights, "k d")

    def __call__(self, x: Float[ArrayLike, "... d"]) -> Float[Array, "..."]:
        x = real("x", x, "... d", {"d": self.weights.shape[1]})
        return self.activation(x @ self.weights.T).sum(-1)


@implements("T06.15")
def sum_net_loss(
    activation: Callable, weights: Float[ArrayLike, "k d"], x: Float[ArrayLike, "n _"], y: Float[ArrayLike, "n"]
) -> Array:
    r"""$\frac1{2n}\sum_j(h_W(x_j)-y_j)^2$ over inputs (n, d) and labels (n,)."""
    dims = {}
    x, y = real("x", x, "n d", dims), real("y", y, "n", dims)
    return 0.5 * jnp.mean((SumNet(activation, weights)(x) - y) ** 2)


@implements("T06.15")
def all_orders(weights: Float[ArrayLike, "k d"]) -> Float[Array, "_ _ _"]:
    r"""The $k!$ weights (k!, k, d) that reordering the rows makes, for $k\le7$."""
    weights = real("weights", weights, "k d")
    units = whole("the number of units", weights.shape[0], 1, 7)
    return weights[np.array(list(itertools.permutations(range(units))))]


@implements("T06.16")
def symmetrise(weights: Float[ArrayLike, "k d"]) -> Array:
    r"""$\bar\theta=\frac1{k!}\sum_\pi\pi(\theta)$: every row becomes the mean of the rows.

    The network is then one neuron, $k\,\sigma(\frac1k\sum_iw_i^\top x)$.
    """
    weights = real("weights", weights, "k d")
    return jnp.broadcast_to(weights.mean(0), weights.shape)


@implements("T06.15")
def segment(f: Callable, a: Float[ArrayLike, "..."], b: Float[ArrayLike, "..."], points: int = 51) -> tuple:
    r"""$f((1-t)a+tb)$ for `points` values of $t$ from 0 to 1, with the $t$: the barrier between two minima."""
    if not callable(f):
        raise TypeError(f"f must be a function of a point, got {type(f).__name__}.")
    a, b, points = real("a", a), real("b", b), whole("points", points, 2)
    if a.shape != b.shape:
        raise ValueError(f"a and b must have the same shape, got {a.shape} and {b.shape}.")
    t = jnp.linspace(0.0, 1.0, points, dtype=a.dtype)
    return t, jax.vmap(lambda s: f((1 - s) * a + s * b))(t)
