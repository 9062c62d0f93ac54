r"""Separable data in one dimension: the gap between the classes, and how it closes as the data grow."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, log_ndtr
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from corollary._show import shown
from corollary._validate import concrete, labels, real, whole, within
from corollary.catalog import implements


class Gap(NamedTuple):
    """The open interval between two separated classes; `sign` is +1 if class 1 lies on its right, else -1."""

    lower: jax.Array
    upper: jax.Array
    sign: jax.Array

    __repr__ = shown

    @property
    def midpoint(self) -> Float[Array, ""]:
        return 0.5 * (self.lower + self.upper)

    @property
    def width(self) -> Float[Array, ""]:
        return self.upper - self.lower


@implements("M03.18")
def is_separable(x: Float[ArrayLike, "n"], y: Int[ArrayLike, "n"]) -> Bool[Array, ""]:
    """Whether some threshold has all of class 1 strictly on one side and all of class 0 on the other.

    A single class is separable: its threshold lies outside the data.
    """
    rising, falling = _gaps(*_data(x, y))
    return (rising.width > 0) | (falling.width > 0)


@implements("M03.17", "M03.18")
def class_gap(x: Float[ArrayLike, "n"], y: Int[ArrayLike, "n"]) -> Gap:
    """The interval in which a threshold separates the classes; its `midpoint` is the limit of the ridge path.

    Raises if the classes overlap or one is absent; under `jit` such data give NaN ends.
    """
    x, y = _data(x, y)
    rising, falling = _gaps(x, y)
    gap = jax.tree.map(lambda a, b: jnp.where(rising.width > 0, a, b), rising, falling)
    good = (gap.width > 0) & jnp.isfinite(gap.width)
    if concrete(good) and not bool(good):
        raise ValueError("x must be separated by y: no threshold has one class on each side.")
    return Gap(jnp.where(good, gap.lower, jnp.nan), jnp.where(good, gap.upper, jnp.nan), gap.sign)


@implements("M03.19")
def min_abs_survival(level: Float[ArrayLike, "..."], n: int) -> Float[Array, "..."]:
    r"""$P\{n\min_{i\le n}|X_i|>\ell\}=(1-\mathrm{erf}\frac{\ell}{n\sqrt2})^n$ for standard normals: exact."""
    level, n = within("level", real("level", level), 0.0), whole("n", n)
    u = level / n
    # log1p keeps small levels exact, the normal tail keeps large ones from becoming log 0.
    near = jnp.log1p(-erf(jnp.minimum(u, 1) / 2**0.5))
    far = jnp.log(2.0) + log_ndtr(-jnp.maximum(u, 1))
    return jnp.exp(n * jnp.where(u < 1, near, far))


@implements("M03.19")
def min_abs_limit_survival(level: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$e^{-\ell\sqrt{2/\pi}}$, the limit of `min_abs_survival`: exponential with rate $\sqrt{2/\pi}$."""
    level = within("level", real("level", level), 0.0)
    return jnp.exp(-level * (2 / np.pi) ** 0.5)


@implements("M03.19")
def min_abs_mean(n: int) -> Float[Array, ""]:
    r"""$\mathbb E\min_{i\le n}|X_i|=\frac1n\int_0^\infty P\{n\min|X_i|>\ell\}\,d\ell$, by Gauss-Laguerre quadrature."""
    n = whole("n", n)
    nodes, weights = np.polynomial.laguerre.laggauss(64)
    mean = (np.pi / 2) ** 0.5
    return jnp.sum(weights * jnp.exp(nodes) * min_abs_survival(mean * nodes, n)) * mean / n


@implements("M03.19")
def min_abs_limit_mean(n: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\sqrt{\pi/2}/n=1.2533/n$: the mean is the reciprocal of the rate, not the rate."""
    n = within("n", real("n", n), 1.0)
    return (np.pi / 2) ** 0.5 / n


@implements("M03.19")
def limit_mean_gap(n: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$2\sqrt{2\pi}/n=5.013/n$, to leading order the mean distance from the largest negative to the least positive."""
    n = within("n", real("n", n), 1.0)
    return 2 * (2 * np.pi) ** 0.5 / n


def _data(x, y):
    dims = {}
    return real("x", x, "n", dims), labels("y", y, 2, "n", dims)


def _gaps(x, y):
    """The gap with class 1 on the right, and with class 1 on the left; of negative width where they overlap."""
    top0, low0 = jnp.max(x, where=y == 0, initial=-jnp.inf), jnp.min(x, where=y == 0, initial=jnp.inf)
    top1, low1 = jnp.max(x, where=y == 1, initial=-jnp.inf), jnp.min(x, where=y == 1, initial=jnp.inf)
    one = jnp.ones((), x.dtype)
    return Gap(top0, low1, one), Gap(top1, low0, -one)
