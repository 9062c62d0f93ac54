"""Gram matrices: the proof that one is positive semidefinite or is not, and approximation from a few columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._validate import concrete, labels, real, whole
from corollary.catalog import implements


class Definiteness(NamedTuple):
    r"""Whether a symmetric matrix is positive semidefinite, with the proof either way.

    `smallest` is the least eigenvalue and `witness` a unit vector that has it: $v^\top Gv<0$ disproves. `factor` has
    $G=FF^\top$ up to `tolerance` where the matrix is semidefinite: features, of which it is the Gram matrix.
    """

    semidefinite: jax.Array
    smallest: jax.Array
    witness: jax.Array
    factor: jax.Array
    tolerance: jax.Array

    __repr__ = shown


class Cost(NamedTuple):
    """Arithmetic operations, and numbers stored."""

    operations: int
    memory: int


@implements("M04.09", "B07.01", "T03.10")
def gram(kernel: Callable, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."] | None = None) -> Float[Array, "n m"]:
    r"""$G_{ij}=K(x_i,y_j)$ for the points in the rows; one set with itself unless `y` is given.

    `kernel` is any function of two points. One compiled map over all pairs.
    """
    if not callable(kernel):
        raise TypeError(f"kernel must be a function of two points, got {type(kernel).__name__}.")
    dims = {}
    x = _points("x", x, dims)
    y = x if y is None else _points("y", y, dims)
    out = jax.eval_shape(kernel, x[0], y[0])
    if getattr(out, "shape", None) != ():
        raise ValueError(f"kernel must return one number for two points, got {out}.")
    return jax.vmap(lambda a: jax.vmap(lambda b: kernel(a, b))(y))(x)


@implements("M04.10")
def definiteness(g: Float[ArrayLike, "n n"]) -> Definiteness:
    r"""The eigenvalue test of a symmetric matrix.

    An eigenvalue is computed to within $n\epsilon\|G\|$: what lies above minus that counts as zero.
    """
    g = real("g", g, "n n")
    if concrete(g):
        v = np.asarray(g, float)
        size, gap = float(np.abs(v).max()), float(np.abs(v - v.T).max())
        if gap > 1e3 * float(jnp.finfo(g.dtype).eps) * size:
            raise ValueError(f"g must be symmetric, got entries that differ by {gap:.3g} from their mirror images.")
    values, vectors = jnp.linalg.eigh((g + g.T) / 2)
    tolerance = g.shape[0] * jnp.finfo(g.dtype).eps * jnp.abs(values).max()
    factor = vectors * jnp.sqrt(jnp.maximum(values, 0))
    return Definiteness(values[0] >= -tolerance, values[0], vectors[:, 0], factor, tolerance)


@implements("M04.09")
def is_kernel(kernel: Callable, sampler: Callable, *, key: PRNGKeyArray, sets: int = 50, n: int = 20) -> Array:
    """Whether `kernel` is symmetric and semidefinite on `sets` random sets of `n` points.

    `sampler(key, n)` draws n points. A false answer is certain, a true one means that no counterexample was met.
    """
    sets, n = whole("sets", sets), whole("n", n)
    if not callable(sampler):
        raise TypeError(f"sampler must be a function of a key and a number, got {type(sampler).__name__}.")

    def one(key):
        g = gram(kernel, sampler(key, n))
        symmetric = jnp.abs(g - g.T).max() <= 1e3 * jnp.finfo(g.dtype).eps * jnp.abs(g).max()
        return symmetric & definiteness((g + g.T) / 2).semidefinite

    return jnp.all(jax.vmap(one)(jax.random.split(key, sets)))


@implements("M04.12")
def nystrom(kernel: Callable, x: Float[ArrayLike, "..."], landmarks: Int[ArrayLike, "r"]) -> Array:
    r"""A factor $F$ with $FF^\top=G_{\cdot L}G_{LL}^+G_{L\cdot}$ from the columns of the `landmarks`: (n, r).

    Exact where the landmarks span the features of all points. Costs $n$ times as many kernel values as landmarks, where
    the Gram matrix needs $n^2$.
    """
    x = _points("x", x, {})
    landmarks = labels("landmarks", landmarks, x.shape[0], "r")
    cross, core = gram(kernel, x, x[landmarks]), gram(kernel, x[landmarks])
    values, vectors = jnp.linalg.eigh((core + core.T) / 2)
    kept = values > values[-1] * landmarks.shape[0] * jnp.finfo(core.dtype).eps * 10
    # directions that the landmarks repeat carry no information, only rounding
    return jnp.where(kept, cross @ vectors / jnp.sqrt(jnp.where(kept, values, 1.0)), 0.0)


@implements("M04.12")
def truncation_error(g: Float[ArrayLike, "n n"]) -> Float[Array, "_"]:
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


def _points(name, value, dims):
    """Points in the rows; a plain vector is points of one coordinate."""
    value = real(name, value)
    if value.ndim not in (1, 2):
        raise ValueError(f"{name} must have shape (n,) or (n, d), got {value.shape}.")
    return real(name, value[:, None] if value.ndim == 1 else value, "n d" if name == "x" else "m d", dims)
