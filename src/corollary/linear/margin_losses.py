r"""Losses of a linear classifier with labels $y=\pm1$: the share of mistakes, and functions of the margin in its place.

The margin of a point is $y(w\cdot x+b)$, positive where it is classified correctly. A parameter vector is
$\theta=(w_1,\dots,w_d,b)$ and features are (n, d), as everywhere in this room.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import one_of, positive, real
from corollary.catalog import implements
from corollary.linear._shapes import extended, features, parameters
from corollary.linear._signs import signs


@implements("M04.03")
def linear_margins(
    theta: Float[ArrayLike, "d+1"], x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$y(w\cdot x+b)$ of every point: (n,)."""
    theta, x, y = _problem(theta, x, y)
    return y * (x @ theta)


@implements("M04.02", "B05.01")
def zero_one_loss(
    theta: Float[ArrayLike, "d+1"], x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "..."], *, at_zero: int = 1
) -> Float[Array, ""]:
    r"""The share of points with $y\ne\operatorname{sign}(w\cdot x+b)$; `at_zero` is $\operatorname{sign}(0)$, 1 or 0.

    It is constant between jumps, so its gradient is zero almost everywhere and helps nobody.
    """
    theta, x, y = _problem(theta, x, y)
    z, at_zero = x @ theta, one_of("at_zero", at_zero, (0, 1))
    return jnp.mean(jnp.where(z == 0, at_zero, jnp.sign(z)) != y, dtype=z.dtype)


@implements("M04.03")
def perceptron_loss(margin: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\max(0,-m)$ of a margin $m$: what the text calls hinge loss. Zero parameters minimise it."""
    return jnp.maximum(-real("margin", margin), 0)


@implements("M04.03")
def hinge_loss(margin: Float[ArrayLike, "..."], *, width: Scalar = 1.0) -> Float[Array, "..."]:
    r"""$\max(0,c-m)$ of a margin $m$, the hinge loss of support vector machines with $c=1$."""
    width = positive("width", real("width", width, ""))
    return jnp.maximum(width - real("margin", margin), 0)


@implements("M04.03")
def logistic_margin_loss(margin: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\ln(1+e^{-m})$ of a margin $m$: the cross-entropy of logistic regression with the label $(1+y)/2$."""
    return jax.nn.softplus(-real("margin", margin))


@implements("M04.03")
def perceptron_loss_gradients(
    theta: Float[ArrayLike, "d+1"], x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "..."], *, at_kink: int = 0
) -> Float[Array, "..."]:
    r"""$-y(x,1)$ for the points of negative margin, 0 for those of positive margin: (n, d + 1).

    At margin 0 both are subgradients. `at_kink=0` takes the second, as the text prints it: from $\theta=0$ nothing then
    ever moves. `at_kink=1` takes the first, which is the perceptron's update.
    """
    theta, x, y = _problem(theta, x, y)
    m, at_kink = y * (x @ theta), one_of("at_kink", at_kink, (0, 1))
    moves = (m < 0) | ((m == 0) & (at_kink == 1))
    return jnp.where(moves[:, None], -y[:, None] * x, 0)


def _problem(theta, x, y):
    dims = {}
    x = features(x, dims)
    return parameters(theta, dims), extended(x), signs("y", y, "n", dims).astype(x.dtype)
