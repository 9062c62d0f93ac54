r"""What a point of a landscape is: minimum, saddle, second-order stationary; and what makes a landscape easy.

The definitions themselves, with dense Hessians, for functions of few variables. A value nearby can show that
a point is no minimum, never that it is one; a positive definite Hessian can. The constants are least ratios
over given points and therefore upper bounds of those that hold everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements


class Nearby(NamedTuple):
    r"""What lies around a point: the least and the largest $f(w+\delta)-f(w)$ seen in balls of growing `radius`.

    `minimum`: nothing lower in the smallest ball; `maximum`: nothing higher; `saddle`: both lower and higher
    points, in every ball. Differences below the rounding of $f$ count as none.
    """

    radius: jax.Array
    lowest: jax.Array
    highest: jax.Array
    minimum: jax.Array
    maximum: jax.Array
    saddle: jax.Array

    __repr__ = shown


@implements("B06.01", "T06.02", "T06.04")
def nearby(
    f: Callable,
    w: Float[ArrayLike, "..."],
    *,
    key: PRNGKeyArray,
    radii: Float[ArrayLike, "r"] | None = None,
    samples: int = 256,
) -> Nearby:
    r"""Look at $f$ on spheres about a critical point `w`, at random and along the axes of the Hessian.

    The axes are there because chance misses a narrow cone of descent, and the null directions are where a
    degenerate point is decided. `radii` are $\epsilon^{1/8}$ of the dtype and its half and quarter unless
    given.
    """
    f, w, samples = _function(f), real("w", w), whole("samples", samples)
    eps = float(jnp.finfo(w.dtype).eps)
    radii = eps**0.125 * np.array([0.25, 0.5, 1.0]) if radii is None else radii
    radii = jnp.sort(positive("radii", real("radii", radii, "r"))).astype(w.dtype)
    size = w.size
    _, axes = jnp.linalg.eigh(jax.hessian(f)(w).reshape(size, size))
    cloud = jax.random.normal(key, (samples, size), w.dtype)
    cloud = jnp.concatenate([cloud / jnp.linalg.norm(cloud, axis=1, keepdims=True), axes.T])
    directions = jnp.concatenate([cloud, -cloud]).reshape(-1, *w.shape)
    here = f(w)
    values = jax.vmap(lambda r: jax.vmap(lambda u: f(w + r * u))(directions))(radii)
    rounding = 8 * eps * jnp.maximum(jnp.abs(here), jnp.abs(values).max())
    # a ball holds the smaller spheres too
    lowest = jax.lax.cummin((values - here).min(1))
    highest = jax.lax.cummax((values - here).max(1))
    lower, higher = lowest[0] < -rounding, highest[0] > rounding
    return Nearby(radii, lowest, highest, ~lower, ~higher, lower & higher)


class Inertia(NamedTuple):
    """How many eigenvalues of a symmetric matrix are negative (the index), zero (the nullity) and positive."""

    negative: jax.Array
    zero: jax.Array
    positive: jax.Array

    __repr__ = shown


@implements("B06.01")
def inertia(matrix: Float[ArrayLike, "d d"], tolerance: Scalar | None = None) -> Inertia:
    r"""The signs of a symmetric matrix; up to `tolerance`, $\sqrt\epsilon$ of the dtype unless given, one is
    zero.
    """
    matrix = real("matrix", matrix, "d d", {})
    tolerance = _default(tolerance, matrix.dtype)
    spectrum = jnp.linalg.eigvalsh(matrix)
    negative, above = jnp.sum(spectrum < -tolerance), jnp.sum(spectrum > tolerance)
    return Inertia(negative, spectrum.size - negative - above, above)


class SecondOrder(NamedTuple):
    r"""$\|\nabla f\|$, $\lambda_{\min}(\nabla^2f)$ with its `direction`, and whether both are within what is
    allowed.
    """

    gradient_norm: jax.Array
    least_curvature: jax.Array
    direction: jax.Array
    holds: jax.Array

    __repr__ = shown


@implements("T06.18", "T06.19")
def second_order_stationary(
    f: Callable, w: Float[ArrayLike, "..."], epsilon: Scalar | None = None, gamma: Scalar | None = None
) -> SecondOrder:
    r"""Is `w` an $(\epsilon,\gamma)$-second-order stationary point, $\|\nabla f\|\le\epsilon$ and
    $\lambda_{\min}(\nabla^2f)\ge-\gamma$?

    Without the two, which are then $\sqrt\epsilon$ of the dtype: is it one up to rounding, $\nabla f=0$ and
    $\nabla^2f\succeq0$? That is necessary for a local minimum and not sufficient ($w^3$ at 0).
    """
    f, w = _function(f), real("w", w)
    epsilon, gamma = _default(epsilon, w.dtype, "epsilon"), _default(gamma, w.dtype, "gamma")
    norm = jnp.linalg.norm(jnp.ravel(jax.grad(f)(w)))
    spectrum, axes = jnp.linalg.eigh(jax.hessian(f)(w).reshape(w.size, w.size))
    holds = (norm <= epsilon) & (spectrum[0] >= -gamma)
    return SecondOrder(norm, spectrum[0], axes[:, 0].reshape(w.shape), holds)


class Improvement(NamedTuple):
    r"""$|\langle\nabla f,\delta\rangle|/\|\delta\|$, $\delta^\top\nabla^2f\delta/\|\delta\|^2$, and whether
    one of them promises descent.
    """

    slope: jax.Array
    curvature: jax.Array
    improves: jax.Array

    __repr__ = shown


@implements("T06.24")
def direction_of_improvement(
    f: Callable, w: Float[ArrayLike, "..."], delta: Float[ArrayLike, "..."], epsilon: Scalar = 0.0, gamma: Scalar = 0.0
) -> Improvement:
    r"""Is $\delta$ an $(\epsilon,\gamma)$-direction of improvement, with slope above $\epsilon$ or curvature below
    $-\gamma$?

    Then `w` is no $(\epsilon,\gamma)$-second-order stationary point, and a small step along $\delta$ or
    $-\delta$ goes down. The zero vector is none. Needs one Hessian-vector product, no Hessian.
    """
    f, w, delta = _function(f), real("w", w), real("delta", delta)
    if delta.shape != w.shape:
        raise ValueError(f"delta must have the shape {w.shape} of w, got {delta.shape}.")
    epsilon = within("epsilon", real("epsilon", epsilon, ""), 0.0)
    gamma = within("gamma", real("gamma", gamma, ""), 0.0)
    slope, turned = jax.jvp(jax.grad(f), (w,), (delta,))
    square = jnp.sum(delta**2)
    safe = jnp.where(square > 0, square, 1)
    along, curvature = jnp.abs(jnp.sum(slope * delta)) / jnp.sqrt(safe), jnp.sum(delta * turned) / safe
    return Improvement(along, curvature, (along > epsilon) | (curvature < -gamma))


class CriticalPoints(NamedTuple):
    r"""Where Newton's method ended from every start: `points` (n, ...), which of them have `converged` to a zero of
    the gradient, and which are the `first` of those that ended at the same place.
    """

    points: jax.Array
    converged: jax.Array
    first: jax.Array

    __repr__ = shown


@implements("T06.02")
def critical_points(
    f: Callable, starts: Float[ArrayLike, "..."], *, steps: int = 60, tolerance: Scalar | None = None
) -> CriticalPoints:
    r"""Solve $\nabla f=0$ from `starts` (n, ...) by damped Newton steps $-(H^2+\|g\|I)^{-1}Hg$: saddles and
    maxima are found as well as minima.

    The damping vanishes with the gradient, so that the convergence stays quadratic where the Hessian is
    invertible. Points nearer than `tolerance`, $\sqrt\epsilon$ of the dtype unless given, are one.
    """
    f, starts, steps = _function(f), _cloud("starts", starts), whole("steps", steps)
    tolerance = _default(tolerance, starts.dtype)
    flat, shape = starts.reshape(starts.shape[0], -1), starts.shape[1:]
    slope = jax.grad(lambda v: f(v.reshape(shape)))
    # at a root the damping would make an invertible system singular only if the Hessian were: a floor keeps it solvable
    floor = jnp.finfo(starts.dtype).tiny ** 0.5

    def step(v):
        g, H = slope(v), jax.jacfwd(slope)(v)
        damping = jnp.linalg.norm(g) + floor
        return v - jnp.linalg.solve(H @ H + damping * jnp.eye(v.size, dtype=v.dtype), H @ g)

    # one start after the other: batched decompositions in one program can wait for each other's threads for ever
    ends = jax.lax.map(lambda v: jax.lax.fori_loop(0, steps, lambda _, v: step(v), v), flat)
    converged = jnp.linalg.norm(jax.vmap(slope)(ends), axis=1) <= tolerance
    apart = jnp.linalg.norm(ends[:, None] - ends[None], axis=-1)
    same = (apart <= tolerance) & converged[None]
    first = converged & ~jnp.tril(same, -1).any(1)
    return CriticalPoints(ends.reshape(starts.shape), converged, first)


@implements("T06.03")
def spurious(
    values: Float[ArrayLike, "n"], minima: Bool[ArrayLike, "..."], tolerance: Scalar | None = None
) -> Bool[Array, "..."]:
    r"""Which local minima are spurious: those with a value above the best by more than `tolerance`.

    `values` (n,) of points, `minima` (n,) says which of them are local minima.
    """
    dims = {}
    values = real("values", values, "n", dims)
    minima = jnp.asarray(minima)
    if minima.dtype != jnp.bool_ or minima.shape != values.shape:
        raise ValueError(f"minima must be {values.shape[0]} truth values, got {minima.dtype} of shape {minima.shape}.")
    tolerance = _default(tolerance, values.dtype)
    return minima & (values > jnp.where(minima, values, jnp.inf).min() + tolerance)


@implements("T06.20")
def optimizability_curve(
    f: Callable,
    minimum: Scalar,
    points: Float[ArrayLike, "..."],
    epsilons: Float[ArrayLike, "e"],
    gammas: Float[ArrayLike, "e"] | None = None,
) -> Float[Array, "..."]:
    r"""The largest $f-f^*$ over those `points` (n, ...) that are $(\epsilon,\gamma)$-second-order stationary,
    for every $\epsilon$.

    For a locally optimisable (strict-saddle) function it falls to 0 like a power of $\epsilon$; a spurious
    minimum among the points keeps it up. $\gamma=\epsilon$ unless given; 0 where no point qualifies.
    """
    f, minimum, points = _function(f), real("minimum", minimum, ""), _cloud("points", points)
    dims = {}
    epsilons = positive("epsilons", real("epsilons", epsilons, "e", dims))
    gammas = epsilons if gammas is None else within("gammas", real("gammas", gammas, "e", dims), 0.0)
    size = points[0].size

    def measure(w):
        value, slope = jax.value_and_grad(f)(w)
        return value, jnp.linalg.norm(jnp.ravel(slope)), jax.hessian(f)(w).reshape(size, size)

    value, norm, hessian = jax.vmap(measure)(points)
    # one after the other: batched decompositions in one program can wait for each other's threads for ever
    least = jax.lax.map(lambda h: jnp.linalg.eigvalsh(h)[0], hessian)
    qualifies = (norm <= epsilons[:, None]) & (least >= -gammas[:, None])
    return jnp.where(qualifies, value - minimum, 0).max(1)


@implements("T06.08")
def quasi_convexity(
    f: Callable, minimiser: Float[ArrayLike, "..."], points: Float[ArrayLike, "..."]
) -> Float[Array, ""]:
    r"""The least $\frac{\langle\nabla f(w),w-w^*\rangle}{f(w)-f(w^*)}$ over `points` (n, ...): weakly
    quasi-convex with $\tau$ iff never below it.

    At least 1 for a convex function; the degree of a homogeneous one. Points as low as the minimiser do not
    count.
    """
    f, minimiser, points = _about(f, minimiser, points)
    best = f(minimiser)

    def ratio(w):
        value, slope = jax.value_and_grad(f)(w)
        gap = value - best
        return jnp.where(gap > 0, jnp.sum(slope * (w - minimiser)) / jnp.where(gap > 0, gap, 1), jnp.inf)

    return jax.vmap(ratio)(points).min()


@implements("T06.09")
def restricted_secant(
    f: Callable, minimiser: Float[ArrayLike, "..."], points: Float[ArrayLike, "..."]
) -> Float[Array, ""]:
    r"""The least $\frac{\langle\nabla f(w),w-w^*\rangle}{\|w-w^*\|^2}$ over `points` (n, ...): the restricted
    secant inequality with $\mu$ iff never below it.

    With $L$-smoothness it implies $\|\nabla f\|^2\ge\frac{2\mu^2}L(f-f^*)$.
    """
    f, minimiser, points = _about(f, minimiser, points)

    def ratio(w):
        square = jnp.sum((w - minimiser) ** 2)
        product = jnp.sum(jax.grad(f)(w) * (w - minimiser))
        return jnp.where(square > 0, product / jnp.where(square > 0, square, 1), jnp.inf)

    return jax.vmap(ratio)(points).min()


@implements("T06.10")
def secant_rate(
    L: Float[ArrayLike, "..."],
    mu: Float[ArrayLike, "..."],
    distance: Float[ArrayLike, "..."],
    k: Float[ArrayLike, "..."],
) -> Float[Array, "..."]:
    r"""$\|w_k-w^*\|^2\le(1-\frac{\mu^2}{L^2})^k\|w_0-w^*\|^2$ for gradient descent with $\eta=\mu/L^2$ under the
    restricted secant inequality and $L$-smoothness.
    """
    L, mu = positive("L", real("L", L)), positive("mu", real("mu", mu))
    return (1 - (mu / L) ** 2) ** within("k", real("k", k), 0.0) * real("distance", distance) ** 2


@implements("T06.10")
def quasi_convex_rate(
    L: Float[ArrayLike, "..."],
    tau: Float[ArrayLike, "..."],
    distance: Float[ArrayLike, "..."],
    k: Float[ArrayLike, "..."],
) -> Float[Array, "..."]:
    r"""$\frac1k\sum_{t<k}(f(w_t)-f^*)\le\frac{2L\|w_0-w^*\|^2}{\tau^2k}$ for gradient descent with
    $\eta=\frac\tau{2L}$ under $\tau$-weak quasi-convexity and $L$-smoothness; nothing geometric follows.
    """
    L, tau = positive("L", real("L", L)), positive("tau", real("tau", tau))
    return 2 * L * real("distance", distance) ** 2 / (tau**2 * within("k", real("k", k), 1.0))


def _function(f):
    if not callable(f):
        raise TypeError(f"f must be a function of a point, got {type(f).__name__}.")
    return f


def _cloud(name, points):
    points = real(name, points)
    if points.ndim == 0 or points.shape[0] == 0:
        raise ValueError(f"{name} must hold at least one point, one per row, got shape {points.shape}.")
    return points


def _about(f, minimiser, points):
    f, points, minimiser = _function(f), _cloud("points", points), real("minimiser", minimiser)
    if minimiser.shape != points.shape[1:]:
        raise ValueError(f"minimiser must have the shape {points.shape[1:]} of a point, got {minimiser.shape}.")
    return f, minimiser, points


def _default(value, dtype, name="tolerance"):
    value = float(jnp.finfo(dtype).eps) ** 0.5 if value is None else value
    return within(name, real(name, value, ""), 0.0)
