r"""The separating hyperplane of greatest margin, with a proof that it is one.

Without a bias the greatest margin is the distance of the origin from the convex hull of the points $y_ix_i$; with a
bias it is half the distance between the hulls of the two classes. Both are the length of the shortest vector of a
polytope, and that vector is the normal. The margin of any hyperplane is a lower bound, the length of any vector of the
polytope an upper one; where they meet, the result is proved. Data that nothing separates have zero in the polytope: the
multipliers that combine it are then the proof.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, real, whole
from corollary.catalog import implements
from corollary.linear._shapes import features
from corollary.linear._signs import halfspaces, signs
from corollary.linear.min_norm import wolfe


class Separator(NamedTuple):
    r"""A unit vector `w` and a bias `b` that separate with `margin`; no other margin is larger than `bound`.

    `multipliers` are the weights of the convex combination behind `bound`: they sum to one (with a bias, to one in each
    class), and $\|\sum_i\lambda_iy_ix_i\|$ is the bound (with a bias, twice the bound). Without separability `margin`
    is zero or less and `bound` is zero up to rounding.
    """

    w: jax.Array
    b: jax.Array
    margin: jax.Array
    bound: jax.Array
    multipliers: jax.Array
    steps: jax.Array

    __repr__ = shown


@implements("E01.06")
def max_margin(
    x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "..."], *, bias: bool = True, steps: int = 10_000
) -> Separator:
    r"""The hyperplane that maximises $\gamma[w,b](S)$, by Wolfe's method; `b` is 0 without `bias`.

    With a bias both labels must be there: the hyperplane of a single class could be as far away as one likes.
    Where that cannot be looked at (under `jit`), everything is NaN.

    >>> round(float(max_margin([[-1.0], [2.0]], [-1, 1]).margin), 3)
    1.5
    """
    dims = {}
    x, steps = features(x, dims), whole("steps", steps)
    y = signs("y", y, "n", dims).astype(x.dtype)
    if bias and concrete(y) and np.abs(np.asarray(y).sum()) == y.shape[0]:
        raise ValueError("y must hold both labels: with a bias the margin of a single class has no bound.")
    return _two_hulls(x, y, steps) if bias else _one_hull(x, y, steps)


@implements("E01.07")
def linearly_separable(
    x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "..."], *, bias: bool = True, steps: int = 10_000
) -> Bool[Array, ""]:
    r"""Whether some $(w,b)$ has $y_i(w\cdot x_i+b)>0$ for all $i$: compiled, for many data sets side by side.

    A margin in the space of $(x,1)$ below the rounding error of its own computation counts as none. `separability`
    decides the same by linear programming and hands out the certificates.
    """
    dims = {}
    x, steps = features(x, dims), whole("steps", steps)
    y = signs("y", y, "n", dims).astype(x.dtype)
    return _separable(halfspaces(x, y, bias), steps)


@implements("E01.13", "M04.05")
def novikoff_bound(x: Float[ArrayLike, "n *d"], gamma: Scalar) -> Float[Array, ""]:
    r"""$R^2/\gamma^2$ with $R=\max\|x_i\|$: the perceptron without bias makes at most so many updates on data of margin
    $\gamma$. With a bias, take the points $(x,1)$ and the margin there."""
    x, gamma = features(x, {}), real("gamma", gamma, "")
    if concrete(gamma) and not np.asarray(gamma) > 0:
        raise ValueError(f"gamma must be positive: the bound needs separable data, got {np.asarray(gamma):g}.")
    return jnp.max(jnp.sum(x * x, axis=1)) / gamma**2


@partial(jax.jit, static_argnames="steps")
def _one_hull(x, y, steps):
    z = halfspaces(x, y, bias=False)
    scale = _scale(z)
    scaled = z / scale
    corral = wolfe(_vertex(scaled), jnp.mean(scaled, axis=0), steps)
    length = jnp.linalg.norm(corral.point)
    w = corral.point / jnp.where(length > 0, length, 1)
    multipliers = jnp.zeros(x.shape[0], x.dtype).at[corral.tags].add(corral.weights)
    return Separator(w, jnp.zeros((), x.dtype), jnp.min(z @ w), scale * length, multipliers, corral.steps)


@partial(jax.jit, static_argnames="steps")
def _two_hulls(x, y, steps):
    centre = jnp.mean(x, axis=0)  # moving the data changes b alone, and small numbers round less
    scale = _scale(x - centre)
    scaled, upper = (x - centre) / scale, y > 0
    there = jnp.any(upper) & jnp.any(~upper)

    def support(p):
        """The difference of a point of each class that has the least product with `p`."""
        products = scaled @ p
        i = jnp.argmin(jnp.where(upper, products, jnp.inf))
        j = jnp.argmax(jnp.where(upper, -jnp.inf, products))
        return (scaled[i] - scaled[j]) / 2, jnp.stack([i, j])

    corral = wolfe(support, jnp.mean(scaled * y[:, None], axis=0), steps)
    length = jnp.linalg.norm(corral.point)
    w = corral.point / jnp.where(length > 0, length, 1)
    products = (x - centre) @ w
    low = jnp.min(jnp.where(upper, products, jnp.inf))
    high = jnp.max(jnp.where(upper, -jnp.inf, products))
    multipliers = jnp.zeros(x.shape[0], x.dtype).at[corral.tags].add(corral.weights[:, None])
    found = Separator(w, -(low + high) / 2 - centre @ w, (low - high) / 2, scale * length, multipliers, corral.steps)
    return found._replace(**{n: jnp.where(there, getattr(found, n), jnp.nan) for n in found._fields if n != "steps"})


@partial(jax.jit, static_argnames="steps")
def _separable(z, steps):
    # neither the unit of a feature nor the length of a point matters: all of them are of the order of one here
    z = z / _scale(z, axis=0)
    length = jnp.linalg.norm(z, axis=1, keepdims=True)
    z = z / jnp.where(length > 0, length, 1)
    rounding = 8 * z.shape[1] * jnp.finfo(z.dtype).eps

    def enough(p, v):
        return p @ v > rounding * jnp.linalg.norm(p)

    corral = wolfe(_vertex(z), jnp.mean(z, axis=0), steps, enough)
    return enough(corral.point, _vertex(z)(corral.point)[0])


def _vertex(z):
    def support(p):
        at = jnp.argmin(z @ p)
        return z[at], at

    return support


def _scale(z, axis=None):
    scale = jnp.max(jnp.abs(z), axis=axis)
    return jnp.where(scale > 0, scale, 1)
