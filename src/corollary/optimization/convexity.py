r"""Convexity by chords, tangents, gradients and curvature; what makes a point a minimum and a direction one of descent.

Samples can refute convexity, never prove it. The functions of two points are for one pair; `vmap` them over many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import one_of, positive, real, whole, within
from corollary.catalog import implements


@implements("B05.03", "B05.32", "M17.03", "T06.01")
def chord_gap(f: Callable, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."], weight: Scalar = 0.5) -> Array:
    r"""$\alpha f(x)+(1-\alpha)f(y)-f(\alpha x+(1-\alpha)y)$: never negative iff $f$ is convex.

    Positive for $x\ne y$ and $0<\alpha<1$ iff strictly convex, at least $\frac{\mu}2\alpha(1-\alpha)\|x-y\|^2$ iff
    $\mu$-strongly.
    """
    f, x, y = _pair(f, x, y)
    weight = within("weight", real("weight", weight, ""), 0.0, 1.0)
    return weight * f(x) + (1 - weight) * f(y) - f(weight * x + (1 - weight) * y)


class Violation(NamedTuple):
    r"""How far $f$ rises above a chord, $f(\alpha x+(1-\alpha)y)-\alpha f(x)-(1-\alpha)f(y)$, and the chord."""

    value: jax.Array
    x: jax.Array
    y: jax.Array
    weight: jax.Array

    __repr__ = shown


@implements("B05.03")
def convexity_violation(
    f: Callable, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."], *, steps: int = 50, step: Scalar = 0.1
) -> Violation:
    r"""The chord near that of `x` and `y` above which $f$ rises most: a search uphill of $-$`chord_gap` in both ends
    and the weight, of `steps` steps of length `step`, of which the best is returned.

    A value above rounding refutes convexity; none proves it. `vmap` it over many pairs.
    """
    f, x, y = _pair(f, x, y)
    steps, step = whole("steps", steps), positive("step", real("step", step, ""))

    def above(ends):
        # a logistic keeps the weight inside
        return -chord_gap(f, ends[0], ends[1], jax.nn.sigmoid(ends[2]))

    def advance(state, _):
        ends, best = state
        value, slope = jax.value_and_grad(above)(ends)
        best = jax.tree.map(lambda new, old: jnp.where(value > best[0], new, old), (value, ends), best)
        length = jnp.sqrt(sum(jnp.sum(g**2) for g in slope))
        scale = step / jnp.where(length > 0, length, 1)
        return (jax.tree.map(lambda e, g: e + (scale * g).astype(e.dtype), ends, slope), best), None

    first = x, y, jnp.zeros((), x.dtype)
    (ends, best), _ = jax.lax.scan(advance, (first, (jnp.full((), -jnp.inf, x.dtype), first)), length=steps)
    last = above(ends)
    value, (x, y, logit) = jax.tree.map(lambda a, b: jnp.where(last > best[0], a, b), (last, ends), best)
    return Violation(value, x, y, jax.nn.sigmoid(logit))


@implements("B05.15", "B05.32", "M17.03", "T06.01")
def tangent_gap(f: Callable, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."]) -> Array:
    r"""$f(y)-f(x)-\nabla f(x)\cdot(y-x)$, how far $f$ is above its tangent at $x$.

    Never negative iff $f$ is convex, at least $\frac\mu2\|y-x\|^2$ iff $\mu$-strongly, within $\pm\frac L2\|y-x\|^2$
    if $L$-smooth.
    """
    f, x, y = _pair(f, x, y)
    value, slope = jax.value_and_grad(f)(x)
    return f(y) - value - jnp.vdot(slope, y - x)


@implements("M17.04", "M17.06")
def gradient_product(f: Callable, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."]) -> Array:
    r"""$\langle\nabla f(x)-\nabla f(y),x-y\rangle$: never negative iff $f$ is convex, at least $\mu\|x-y\|^2$ iff
    $\mu$-strongly, at most $L\|x-y\|^2$ if $L$-smooth.
    """
    f, x, y = _pair(f, x, y)
    return jnp.vdot(jax.grad(f)(x) - jax.grad(f)(y), x - y)


@implements("B05.15", "E03.04", "M17.03", "M17.06", "T02.06")
def curvature_range(f: Callable, points: Float[ArrayLike, "..."]) -> tuple:
    r"""The least and the largest eigenvalue of $\nabla^2f$ over `points` (n, ...).

    An upper bound of the strong convexity $\mu$, and the larger of the two in size a lower bound of the smoothness $L$:
    what is sampled lies within what is true everywhere.
    """
    f, points = _function(f), real("points", points)
    if points.ndim == 0 or points.shape[0] == 0:
        raise ValueError(f"points must hold at least one point, one per row, got shape {points.shape}.")
    size = points[0].size
    # one matrix after the other: two batched decompositions in one program can wait for each other's threads for ever
    spectra = jax.lax.map(lambda x: jnp.linalg.eigvalsh(jax.hessian(f)(x).reshape(size, size)), points)
    return spectra[:, 0].min(), spectra[:, -1].max()


@implements("B05.03")
def leaves_set(member: Callable, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."], weight: Scalar = 0.5) -> Array:
    r"""Whether $x$ and $y$ are members and $\alpha x+(1-\alpha)y$ is not: true for some pair iff the set is not
    convex.
    """
    member, x, y = _pair(member, x, y, "member")
    weight = within("weight", real("weight", weight, ""), 0.0, 1.0)
    return member(x) & member(y) & ~member(weight * x + (1 - weight) * y)


class CriticalPoint(NamedTuple):
    r"""What first and second derivatives say of a point.

    `stationary`: $\nabla f=0$; `second_order`: and $\nabla^2f\succeq0$, which is necessary for a local minimum and
    what T (Definition 2.1.5) calls one. `minimum` and `maximum`: definite Hessian, sufficient; `saddle`: both signs;
    `inconclusive`: stationary and singular without both signs, where the derivatives do not decide.
    """

    gradient_norm: jax.Array
    eigenvalues: jax.Array
    stationary: jax.Array
    second_order: jax.Array
    minimum: jax.Array
    maximum: jax.Array
    saddle: jax.Array
    inconclusive: jax.Array

    __repr__ = shown


@implements("B05.06", "B06.01", "M07.13", "T02.09", "T06.05", "T06.18")
def classify_critical_point(f: Callable, x: Float[ArrayLike, "..."], tolerance: Scalar | None = None) -> CriticalPoint:
    r"""The verdict of $\nabla f(x)$ and of the signs of $\nabla^2f(x)$; up to `tolerance`, $\sqrt\epsilon$ of the dtype
    unless given, a number counts as zero.
    """
    f, x = _function(f), real("x", x)
    if tolerance is None:
        tolerance = float(jnp.finfo(x.dtype).eps) ** 0.5
    tolerance = positive("tolerance", real("tolerance", tolerance, ""))
    norm = jnp.linalg.norm(jnp.ravel(jax.grad(f)(x)))
    spectrum = jnp.linalg.eigvalsh(jax.hessian(f)(x).reshape(x.size, x.size))
    stationary, up, down = norm <= tolerance, spectrum > tolerance, spectrum < -tolerance
    saddle = stationary & up.any() & down.any()
    minimum, maximum = stationary & up.all(), stationary & down.all()
    return CriticalPoint(
        norm,
        spectrum,
        stationary,
        stationary & ~down.any(),
        minimum,
        maximum,
        saddle,
        stationary & ~(minimum | maximum | saddle),
    )


@implements("B05.05")
def max_descent_step(gradient: Float[ArrayLike, "d"], direction: Float[ArrayLike, "d"], L: Scalar) -> Array:
    r"""$-\frac{2\nabla f\cdot s}{L\|s\|^2}$, or 0: along $s$ every shorter positive step lowers an $L$-smooth $f$.

    Positive iff $s$ is a direction of descent, $\nabla f\cdot s<0$.
    """
    dims = {}
    gradient, direction = real("gradient", gradient, "d", dims), real("direction", direction, "d", dims)
    L = positive("L", real("L", L, ""))
    square = direction @ direction
    return jnp.maximum(-2 * gradient @ direction / (L * jnp.where(square > 0, square, 1)), 0)


@implements("T02.03")
def steepest_step(gradient: Float[ArrayLike, "d"], radius: Scalar = 1.0, norm: str = "l2") -> Array:
    r"""The minimiser of $\langle g,\delta\rangle$ over $\|\delta\|\le\epsilon$; the minimum is $-\epsilon\|g\|_*$.

    Along $-g$ for the norm `"l2"`, along the largest coordinate for `"l1"`, along $-\operatorname{sign}g$ for `"linf"`.
    """
    gradient, radius = real("gradient", gradient, "d"), positive("radius", real("radius", radius, ""))
    norm = one_of("norm", norm, ("l1", "l2", "linf"))
    if norm == "linf":
        return -radius * jnp.sign(gradient)
    if norm == "l1":
        top = jnp.arange(gradient.size) == jnp.argmax(jnp.abs(gradient))
        return -radius * jnp.sign(gradient) * top
    length = jnp.linalg.norm(gradient)
    return -radius * gradient / jnp.where(length > 0, length, 1)


def _pair(f, x, y, name="f"):
    f, x, y = _function(f, name), real("x", x), real("y", y)
    if x.shape != y.shape:
        raise ValueError(f"x and y must have the same shape, got {x.shape} and {y.shape}.")
    return f, x, y


def _function(f, name="f"):
    if not callable(f):
        raise TypeError(f"{name} must be a function of a point, got {type(f).__name__}.")
    return f
