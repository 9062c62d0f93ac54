r"""Predictors that look at the neighbours of a point: weighted averages, broken lines, the nearest neighbour.

Each is made from points and values and called at one point, or as many as wanted in one dimension; all of them pass
through their data, the average if its kernel is infinite at 0.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import positive, real
from corollary.catalog import implements


def singular_kernel(power: Scalar, width: Scalar) -> Callable:
    r"""$K(r)=r^{-a}$ for distances $r\le h$ and 0 beyond, with $a$ = `power`, $h$ = `width`: infinite at 0."""
    power, width = (positive(n, real(n, v, "")) for n, v in (("power", power), ("width", width)))
    return jax.tree_util.Partial(_singular, power, width)


@implements("B13.15")
class NadarayaWatson(eqx.Module):
    r"""$x\mapsto\sum_iK(\|x-x_i\|)y_i\big/\sum_iK(\|x-x_i\|)$; made by `nadaraya_watson`, called at one point."""

    points: jax.Array
    values: jax.Array
    kernel: Callable

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        weights = self.kernel(_distances(self.points, x))
        # a weight that is infinite, at a point of the data, leaves nothing to the others
        infinite = jnp.isinf(weights)
        weights = jnp.where(infinite.any(), infinite.astype(weights.dtype), weights)
        return weights @ self.values / jnp.sum(weights)


@implements("B13.15")
def nadaraya_watson(
    x: Float[ArrayLike, "..."], y: Float[ArrayLike, "n"], kernel: Callable[[Array], Array]
) -> NadarayaWatson:
    r"""The average of the values with weights $K(\|x-x_i\|)$, `kernel` being a function of distances.

    It interpolates if $K(0)=\infty$, as that of `singular_kernel`. NaN where all weights are 0. `x` is (n,) or (n, d).

    >>> f = nadaraya_watson(jnp.array([0.0, 1.0]), jnp.array([2.0, 5.0]), singular_kernel(0.5, 3.0))
    >>> float(f(0.0)), round(float(f(0.5)), 3)
    (2.0, 3.5)
    """
    points, values = _data(x, y)
    if not callable(kernel):
        raise TypeError(f"kernel must be a function of distances, got {type(kernel).__name__}.")
    return NadarayaWatson(points, values, kernel)


@implements("B13.16")
class BrokenLine(eqx.Module):
    """The broken line through points that are sorted, constant outside them; made by `broken_line`."""

    points: jax.Array
    values: jax.Array

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return jnp.interp(real("x", x), self.points, self.values)


@implements("B13.16")
def broken_line(x: Float[ArrayLike, "n"], y: Float[ArrayLike, "n"]) -> BrokenLine:
    """The broken line through the points, in whatever order they come; constant before the first and after the last."""
    dims = {}
    x, y = real("x", x, "n", dims), real("y", y, "n", dims)
    order = jnp.argsort(x)
    return BrokenLine(x[order], y[order])


@implements("B13.14")
class NearestNeighbour(eqx.Module):
    """The value of the nearest point, the first of several; made by `nearest_neighbour`, called at one point."""

    points: jax.Array
    values: jax.Array

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        return self.values[jnp.argmin(_distances(self.points, x))]


@implements("B13.14")
def nearest_neighbour(x: Float[ArrayLike, "..."], y: Float[ArrayLike, "n"]) -> NearestNeighbour:
    """The predictor that repeats the value of the nearest of the points `x`, (n,) or (n, d)."""
    return NearestNeighbour(*_data(x, y))


def _singular(power, width, distance):
    return jnp.where(distance <= width, distance**-power, 0)


def _distances(points, x):
    x = real("x", x)
    if x.shape != points.shape[1:]:
        raise ValueError(f"x must be one point of shape {points.shape[1:]}, got {x.shape}.")
    return jnp.sqrt(jnp.sum((points - x).reshape(points.shape[0], -1) ** 2, 1))


def _data(x, y):
    dims = {}
    x = real("x", x)
    x = real("x", x, "n" if x.ndim == 1 else "n d", dims)
    return x, real("y", y, "n", dims)
