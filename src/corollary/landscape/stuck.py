r"""The stuck region: where around a saddle gradient descent makes no progress, and why it is thin.

Of the ball of radius $\eta r$ about a saddle, those starts are stuck whose iterates all stay within `reach` for
$\mathscr T$ steps. Two runs that start $\eta\omega$ apart along the direction of escape separate like
$(1+\eta\gamma)^t\eta\omega$, so both cannot be: the region is at most $\eta\omega$ wide in that direction, and hits a
uniform start with probability at most $\frac\omega r\sqrt{d/\pi}$.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements
from corollary.foundations.quadrature import gauss_legendre


@implements("T07.10")
def slab_probability(dim: int, half_width: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\Pr[|u_1|\le s]$ for $u$ uniform on the unit ball of $\mathbb R^d$: $I_{s^2}(\frac12,\frac{d+1}2)$, exactly."""
    dim, s = whole("dim", dim), within("half_width", real("half_width", half_width), 0.0)
    return jax.scipy.special.betainc(0.5, (dim + 1) / 2, jnp.minimum(s, 1) ** 2)


class Thinness(NamedTuple):
    r"""Two bounds of the probability of a slab: with the ratio of volumes, and the simpler one with $\sqrt{d/\pi}$."""

    volumes: jax.Array
    root: jax.Array

    __repr__ = shown


@implements("T07.10")
def stuck_probability_bound(
    dim: Float[ArrayLike, "..."], omega: Float[ArrayLike, "..."], r: Float[ArrayLike, "..."]
) -> Thinness:
    r"""$\frac{\omega}{r\sqrt\pi}\frac{\Gamma(d/2+1)}{\Gamma(d/2+1/2)}\le\frac\omega r\sqrt{d/\pi}$.

    For a set in the ball of radius $\eta r$ that is at most $\eta\omega$ wide along one direction. `dim` may be an
    array.
    """
    dim = within("dim", real("dim", dim), 1.0)
    omega, r = within("omega", real("omega", omega), 0.0), positive("r", real("r", r))
    ratio = jnp.exp(jax.lax.lgamma(dim / 2 + 1) - jax.lax.lgamma(dim / 2 + 0.5))
    return Thinness(omega / (r * jnp.sqrt(jnp.pi)) * ratio, omega / r * jnp.sqrt(dim / jnp.pi))


@implements("T07.10")
def escape_times(
    f: Callable, starts: Float[ArrayLike, "n d"], step: Scalar, *, steps: int, reach: Scalar
) -> Int[Array, "n"]:
    r"""For each row of `starts` the first $t$ with $\|x_t-x_0\|>$ `reach` under gradient descent on `f`.

    `steps + 1` for those that are stuck: within reach up to step `steps`.
    """
    f, starts, steps = _function(f), real("starts", starts, "n d"), whole("steps", steps)
    step, reach = positive("step", real("step", step, "")), positive("reach", real("reach", reach, ""))

    def one(start):
        def advance(state, t):
            x, first = state
            x = x - step * jax.grad(f)(x)
            out = (first > steps) & (jnp.linalg.norm(x - start) > reach)
            # who is out need not go on: where the function falls without bound the iterates would overflow
            return (jnp.where(out | (first <= steps), start, x), jnp.where(out, t, first)), None

        state, _ = jax.lax.scan(advance, (start, jnp.asarray(steps + 1)), jnp.arange(1, steps + 1))
        return state[1]

    return jax.vmap(one)(starts)


class StuckRegion(NamedTuple):
    r"""A plane section of the perturbation ball, seen from its centre.

    `offsets` (k,) are the coordinates of the grid along both axes, `times` (k, k) the escape times (rows: along the
    second axis), `inside` the cells of the ball, `stuck` those that never left, and `width` the largest extent of
    these along the first axis, one cell included.
    """

    offsets: jax.Array
    times: jax.Array
    inside: jax.Array
    stuck: jax.Array
    width: jax.Array

    __repr__ = shown


@implements("T07.10")
def stuck_region(
    f: Callable,
    centre: Float[ArrayLike, "d"],
    axes: Float[ArrayLike, "2 d"],
    radius: Scalar,
    step: Scalar,
    *,
    steps: int,
    reach: Scalar,
    resolution: int = 61,
) -> StuckRegion:
    r"""Escape times on a grid of the disc of this `radius` spanned by the two rows of `axes`, orthonormal.

    The first axis is meant to be the eigenvector of the least eigenvalue of the Hessian at `centre`.
    """
    dims = {}
    centre, axes = real("centre", centre, "d", dims), real("axes", axes, "2 d", dims)
    radius, resolution = positive("radius", real("radius", radius, "")), whole("resolution", resolution, 2)
    offsets = radius * jnp.linspace(-1, 1, resolution, dtype=centre.dtype)
    first, second = jnp.meshgrid(offsets, offsets)
    starts = centre + first.reshape(-1, 1) * axes[0] + second.reshape(-1, 1) * axes[1]
    times = escape_times(f, starts, step, steps=steps, reach=reach).reshape(resolution, resolution)
    inside = first**2 + second**2 <= radius**2
    stuck = inside & (times > steps)
    high = jnp.max(jnp.where(stuck, first, -jnp.inf), axis=1)
    low = jnp.min(jnp.where(stuck, first, jnp.inf), axis=1)
    cell = offsets[1] - offsets[0]
    extent = jnp.where(stuck.any(axis=1), high - low + cell, 0)
    return StuckRegion(offsets, times, inside, stuck, jnp.max(extent))


class Coupled(NamedTuple):
    """Two runs of gradient descent, starts included: (steps + 1, d) each."""

    first: jax.Array
    second: jax.Array

    __repr__ = shown

    @property
    def difference(self) -> Array:
        return self.first - self.second


@implements("T07.11")
def coupled_descent(
    f: Callable, first: Float[ArrayLike, "d"], second: Float[ArrayLike, "d"], step: Scalar, *, steps: int
) -> Coupled:
    """Gradient descent from two starts (d,) with the same step."""
    f, dims, steps = _function(f), {}, whole("steps", steps)
    first, second = real("first", first, "d", dims), real("second", second, "d", dims)
    step = positive("step", real("step", step, ""))
    start = jnp.stack([first, second])

    def advance(pair, _):
        pair = pair - step * jax.vmap(jax.grad(f))(pair)
        return pair, pair

    _, rest = jax.lax.scan(advance, start, None, length=steps)
    path = jnp.concatenate([start[None], rest])
    return Coupled(path[:, 0], path[:, 1])


@implements("T07.11")
def separation_time(
    gamma: Float[ArrayLike, "..."],
    step: Float[ArrayLike, "..."],
    omega: Float[ArrayLike, "..."],
    reach: Float[ArrayLike, "..."],
) -> Array:
    r"""$\log(\frac{2S}{\eta\omega})/\log(1+\eta\gamma)$: when on a quadratic two runs that started $\eta\omega$ apart
    along the direction of curvature $-\gamma$ are $2S$ apart, so that one of them is at least $S$ from the saddle.
    """
    gamma, step = positive("gamma", real("gamma", gamma)), positive("step", real("step", step))
    omega, reach = positive("omega", real("omega", omega)), positive("reach", real("reach", reach))
    return jnp.log(2 * reach / (step * omega)) / jnp.log1p(step * gamma)


class DifferenceOfRuns(NamedTuple):
    r"""$\hat x_t=p(t)-q(t)$: `quadratic` is $p(t)=(I-\eta H)^t\hat x_0$, `error` is $q(t)$, both (steps + 1, d).

    `curvature_change` (steps,) is $\|\Delta_t\|_2$, how far the mean Hessian between the two runs is from $H$.
    """

    quadratic: jax.Array
    error: jax.Array
    curvature_change: jax.Array

    __repr__ = shown


@implements("T07.12")
def difference_decomposition(
    f: Callable, centre: Float[ArrayLike, "d"], pair: Coupled, step: Scalar, *, nodes: int = 8
) -> DifferenceOfRuns:
    r"""$p(t)$ and $q(t+1)=(I-\eta H)q(t)+\eta\Delta_t\hat x_t$ along two runs, with $H=\nabla^2f$ at `centre`.

    $\Delta_t=\int_0^1[\nabla^2f(x_t'+\theta\hat x_t)-H]\,d\theta$ by Gauss and Legendre's rule, exact where the
    Hessian is a polynomial of degree below 2 `nodes`.
    """
    f, nodes = _function(f), whole("nodes", nodes)
    if not isinstance(pair, Coupled):
        raise TypeError(f"pair must come from coupled_descent, got {type(pair).__name__}.")
    dims = {}
    centre = real("centre", centre, "d", dims)
    first, second = real("pair.first", pair.first, "n d", dims), real("pair.second", pair.second, "n d", dims)
    step = positive("step", real("step", step, ""))
    hessian = jax.hessian(f)
    h = hessian(centre)
    theta, weights = (np.asarray(a) for a in gauss_legendre(nodes))
    hat = first - second

    def change(x, y):
        points = y + jnp.asarray(theta, x.dtype)[:, None] * (x - y)
        return jnp.tensordot(jnp.asarray(weights, x.dtype), jax.vmap(hessian)(points), 1) - h

    changes = jax.vmap(change)(first[:-1], second[:-1])

    def advance(state, seen):
        p, q = state
        delta, difference = seen
        p, q = p - step * h @ p, q - step * h @ q + step * delta @ difference
        return (p, q), (p, q)

    start = (hat[0], jnp.zeros_like(hat[0]))
    _, (p, q) = jax.lax.scan(advance, start, (changes, hat[:-1]))
    norms = jax.lax.map(lambda delta: jnp.max(jnp.abs(jnp.linalg.eigvalsh(delta))), changes)
    return DifferenceOfRuns(jnp.concatenate([hat[:1], p]), jnp.concatenate([start[1][None], q]), norms)


def _function(f):
    if not callable(f):
        raise TypeError(f"f must be a function of a point, got {type(f).__name__}.")
    return f
