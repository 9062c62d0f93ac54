r"""Gram matrices that are too large: approximation from a few columns, and what each formulation costs."""

from typing import NamedTuple

import jax.numpy as jnp

from corollary._validate import labels, real, whole
from corollary.catalog import implements
from corollary.kernels.gram import gram


class Cost(NamedTuple):
    """Arithmetic operations, and numbers stored."""

    operations: int
    memory: int


@implements("M04.12")
def nystrom(kernel, x, landmarks):
    r"""A factor $F$ with $FF^\top=G_{\cdot L}G_{LL}^+G_{L\cdot}$ from the columns of the `landmarks`: (n, r).

    Exact where the landmarks span the features of all points. Costs $n$ times as many kernel values as landmarks, where
    the Gram matrix needs $n^2$.
    """
    x = real("x", x)
    x = x[:, None] if x.ndim == 1 else x
    x = real("x", x, "n d")
    landmarks = labels("landmarks", landmarks, x.shape[0], "r")
    cross, core = gram(kernel, x, x[landmarks]), gram(kernel, x[landmarks])
    values, vectors = jnp.linalg.eigh((core + core.T) / 2)
    kept = values > values[-1] * landmarks.shape[0] * jnp.finfo(core.dtype).eps * 10
    # directions that the landmarks repeat carry no information, only rounding
    return jnp.where(kept, cross @ vectors / jnp.sqrt(jnp.where(kept, values, 1.0)), 0.0)


@implements("M04.12")
def truncation_error(g):
    r"""$\|G-G_r\|_F$ of the best approximation of each rank $0,\dots,n$: no other method can do better."""
    g = real("g", g, "n n")
    squares = jnp.sort(jnp.linalg.eigvalsh((g + g.T) / 2) ** 2)
    return jnp.sqrt(jnp.concatenate([jnp.zeros(1, g.dtype), jnp.cumsum(squares)]))[::-1]


@implements("M04.12")
def gram_cost(points: int, kernel_operations: int) -> Cost:
    r"""What the Gram formulation asks for: a kernel value for each of $M^2$ pairs, all of them kept."""
    points = whole("points", points)
    return Cost(whole("kernel_operations", kernel_operations) * points**2, points**2)


@implements("M04.12")
def feature_cost(points: int, features: int, feature_operations: int) -> Cost:
    r"""What the feature formulation asks for: $M\dim\psi$ features, all of them kept."""
    points, features = whole("points", points), whole("features", features)
    return Cost(points * features * whole("feature_operations", feature_operations), points * features)
