r"""Kernels: functions of two points. Any function of two points fits where a kernel is asked for.

Each is a frozen module called on two points; `gram` in this room evaluates one on all pairs of two sets.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements


@implements("M04.09", "T03.10")
class LinearKernel(eqx.Module):
    r"""$K(x,x')=x\cdot x'$."""

    def __call__(self, x: Float[ArrayLike, "d"], y: Float[ArrayLike, "d"]) -> Array:
        x, y = _pair(x, y)
        return x @ y


@implements("M04.08", "M04.09", "B07.01", "T03.11", "T03.12")
class PolynomialKernel(eqx.Module):
    r"""$K(x,x')=(x\cdot x'+c)^p$; `degree` 2 and `offset` 0 give the quadratic kernel of the features $x_ix_j$."""

    degree: int = eqx.field(static=True)
    offset: jax.Array

    def __init__(self, degree: int = 2, offset: Scalar = 0.0):
        self.degree = whole("degree", degree)
        self.offset = within("offset", real("offset", offset, ""), 0.0)

    def __call__(self, x: Float[ArrayLike, "d"], y: Float[ArrayLike, "d"]) -> Array:
        x, y = _pair(x, y)
        return (x @ y + self.offset.astype(x.dtype)) ** self.degree


@implements("M04.09", "B07.01", "T03.12")
class GaussianKernel(eqx.Module):
    r"""$K(x,x')=\exp(-\|x-x'\|^2/2h^2)$ of this `width` $h$."""

    width: jax.Array

    def __init__(self, width: Scalar = 1.0):
        self.width = positive("width", real("width", width, ""))

    def __call__(self, x: Float[ArrayLike, "d"], y: Float[ArrayLike, "d"]) -> Array:
        x, y = _pair(x, y)
        return jnp.exp(-jnp.sum((x - y) ** 2) / (2 * self.width.astype(x.dtype) ** 2))


@implements("M04.09", "T03.12")
class LaplaceKernel(eqx.Module):
    r"""$K(x,x')=\exp(-\|x-x'\|_1/h)$ of this `width` $h$; `order` 2 takes the Euclidean norm instead."""

    width: jax.Array
    order: int = eqx.field(static=True)

    def __init__(self, width: Scalar = 1.0, order: int = 1):
        self.width = positive("width", real("width", width, ""))
        self.order = whole("order", order, 1, 2)

    def __call__(self, x: Float[ArrayLike, "d"], y: Float[ArrayLike, "d"]) -> Array:
        x, y = _pair(x, y)
        if self.order == 1:
            return jnp.exp(-jnp.sum(jnp.abs(x - y)) / self.width.astype(x.dtype))
        square = jnp.sum((x - y) ** 2)
        # the root has no derivative where the points coincide; the cone's tip gets slope zero
        distance = jnp.sqrt(jnp.where(square > 0, square, 1)) * (square > 0)
        return jnp.exp(-distance / self.width.astype(x.dtype))


@implements("M04.09")
class ArcCosineKernel(eqx.Module):
    r"""$K(x,x')=2\,\mathbb E[\sigma(w\cdot x)\sigma(w\cdot x')]$ over $w\sim\mathcal N(0,I)$: infinitely many units.

    `order` 0 is the step $\sigma(z)=1_{z>0}$, $K=1-\theta/\pi$ with $\theta$ the angle between the points; 1 is ReLU,
    $K=\frac1\pi\|x\|\|x'\|(\sin\theta+(\pi-\theta)\cos\theta)$.
    """

    order: int = eqx.field(static=True)

    def __init__(self, order: int = 1):
        self.order = whole("order", order, 0, 1)

    def __call__(self, x: Float[ArrayLike, "d"], y: Float[ArrayLike, "d"]) -> Array:
        x, y = _pair(x, y)
        cross = jnp.sqrt(jnp.maximum((x @ x) * (y @ y) - (x @ y) ** 2, 0))
        theta = jnp.arctan2(cross, x @ y)  # exact at 0 and π, where an arc cosine loses half the digits
        if self.order == 0:
            return 1 - theta / np.pi
        return (cross + (np.pi - theta) * (x @ y)) / np.pi


@implements("M04.13")
class BrownianKernel(eqx.Module):
    r"""$K(s,t)=\min(s,t)$ on the half-line, the covariance of Brownian motion; points have one coordinate."""

    def __call__(self, x: Float[ArrayLike, "d"], y: Float[ArrayLike, "d"]) -> Float[Array, ""]:
        x, y = _pair(x, y)
        if x.shape != (1,):
            raise ValueError(f"x must be a point of one coordinate, got shape {x.shape}.")
        return jnp.minimum(x, y)[0]


@implements("M04.09", "B07.01", "T03.10")
class FeatureKernel(eqx.Module):
    r"""$K(x,x')=\psi(x)\cdot\psi(x')$ of a feature map $\psi$ from points to vectors."""

    features: object = eqx.field(static=True)

    def __check_init__(self):
        if not callable(self.features):
            raise TypeError(f"features must be a function of a point, got {type(self.features).__name__}.")

    def __call__(self, x: Float[ArrayLike, "d"], y: Float[ArrayLike, "d"]) -> Array:
        x, y = _pair(x, y)
        return self.features(x) @ self.features(y)


def _pair(x, y):
    dims = {}
    x, y = real("x", x, "d", dims), real("y", y, "d", dims)
    dtype = jnp.result_type(x, y)
    return x.astype(dtype), y.astype(dtype)
