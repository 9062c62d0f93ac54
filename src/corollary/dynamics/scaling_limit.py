r"""How a network of finite width approaches its limit: the limit equation in steps, the parts of a path, orders.

The rescaled output $h_t=m_{\lfloor Nt\rfloor}$ under SGD of rate $\eta/N$ is a start, a drift, two martingales (one for
each layer) and a remainder. The drift becomes the limit $\dot h=\frac\eta MK(y-h)$, whose closed form is
`flow_predictions`; the martingales are of order $N^{-1/2}$, the remainder is smaller.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import labels, positive, real, whole, within
from corollary.catalog import implements


@implements("M19.18", "M19.16")
def kernel_sgd(
    k: Float[ArrayLike, "n n"],
    y: Float[ArrayLike, "n"],
    step: Scalar,
    order: Int[ArrayLike, "n"],
    *,
    start: Float[ArrayLike, "n"] | None = None,
) -> Float[Array, "_ _"]:
    r"""$h\leftarrow h+\text{step}\,(y_i-h_i)K(\cdot,x_i)$ with $i$ = `order[t]` at step $t$: (steps + 1, n).

    SGD on outputs that a constant kernel drives: the limit equation before time is made continuous, exact for
    linearised networks.
    """
    dims = {}
    k, y = real("k", k, "n n", dims), real("y", y, "n", dims)
    start = jnp.zeros_like(y) if start is None else real("start", start, "n", dims)
    step, order = positive("step", real("step", step, "")), labels("order", order, y.shape[0])

    def advance(h, i):
        h = h + step * (y[i] - h[i]) * k[:, i]
        return h, h

    _, path = jax.lax.scan(advance, start.astype(k.dtype), order)
    return jnp.concatenate([start[None].astype(k.dtype), path])


class PathParts(NamedTuple):
    """Each (steps + 1, n) and zero at first: their sum is the path less its start."""

    drift: jax.Array
    outer_martingale: jax.Array
    inner_martingale: jax.Array
    remainder: jax.Array

    __repr__ = shown


@implements("M19.30", "M19.26")
def path_parts(
    outputs: Float[ArrayLike, "t n"],
    outer_parts: Float[ArrayLike, "..."],
    inner_parts: Float[ArrayLike, "..."],
    y: Float[ArrayLike, "n"],
    order: Int[ArrayLike, "s"],
    step: Scalar,
) -> PathParts:
    r"""Drift, martingales and remainder of a path of SGD.

    `outputs` (steps + 1, n) at the training points, `outer_parts` and `inner_parts` (steps + 1, n, n) the two parts of
    the kernel along it (`tangent_parts`), `order` the example of each step, `step` $\eta/N$. With $r=y-h$ and the part
    $K$, the drift moves by $\frac{\text{step}}nKr$ (both parts), its martingale by $\text{step}\,(r_iK(\cdot,x_i)-
    \frac1nKr)$; the remainder is what is left, of second order in the weights.
    """
    dims = {}
    outputs = real("outputs", outputs, "t n", dims)
    parts = [real(n, a, "t n n", dims) for n, a in (("outer_parts", outer_parts), ("inner_parts", inner_parts))]
    y, step = real("y", y, "n", dims), positive("step", real("step", step, ""))
    order = labels("order", order, y.shape[0], "s", {"s": dims["t"] - 1})
    miss = y - outputs[:-1]

    def split(part):
        seen = jnp.take_along_axis(part[:-1], order[:, None, None], 2)[..., 0]
        expected = jnp.einsum("tij,tj->ti", part[:-1], miss) / y.shape[0]
        return step * expected, step * (jnp.take_along_axis(miss, order[:, None], 1) * seen - expected)

    (drift1, noise1), (drift2, noise2) = map(split, parts)
    rest = jnp.diff(outputs, axis=0) - drift1 - drift2 - noise1 - noise2
    return PathParts(*(jnp.cumsum(jnp.pad(a, ((1, 0), (0, 0))), 0) for a in (drift1 + drift2, noise1, noise2, rest)))


@implements("M19.30")
def predictable_variation(
    outputs: Float[ArrayLike, "t n"], part: Float[ArrayLike, "t n n"], y: Float[ArrayLike, "n"], step: Scalar
) -> Float[Array, "t _"]:
    r"""$\sum_k\text{step}^2\operatorname{Var}_\pi[(y-h_k(x'))K_k(\cdot,x')]$ along a path of SGD: (steps + 1, n).

    What the square of the martingale of this `part` (steps + 1, n, n) of the kernel grows by in the mean, given the
    past: the square less this is a martingale too. Other arguments as in `path_parts`.
    """
    dims = {}
    outputs, part = real("outputs", outputs, "t n", dims), real("part", part, "t n n", dims)
    y, step = real("y", y, "n", dims), positive("step", real("step", step, ""))
    terms = part[:-1] * (y - outputs[:-1])[:, None]
    return jnp.cumsum(jnp.pad(step**2 * jnp.var(terms, axis=2), ((1, 0), (0, 0))), 0)


@implements("M19.30")
def martingale_variance(
    k: Float[ArrayLike, "n n"],
    covariance: Float[ArrayLike, "n n"],
    y: Float[ArrayLike, "n"],
    eta: Scalar,
    time: Scalar,
    *,
    part: Float[ArrayLike, "n n"] | None = None,
    nodes: int = 40,
) -> Float[Array, "_"]:
    r"""$\lim N\,\mathbb E[(M_t)^2]=\eta^2\int_0^t\mathbb E\operatorname{Var}_\pi[(y-h_s(x'))K(\cdot,x')]ds$ of every
    point's output, (n,).

    Along the limit path, whose start has mean 0 and this `covariance`. `part` is the part of the kernel that the
    martingale belongs to, the whole `k` unless given.
    """
    dims = {}
    k, covariance = real("k", k, "n n", dims), real("covariance", covariance, "n n", dims)
    y, part = real("y", y, "n", dims), k if part is None else real("part", part, "n n", dims)
    eta, time = positive("eta", real("eta", eta, "")), within("time", real("time", time, ""), 0.0)
    points, weights = np.polynomial.legendre.leggauss(whole("nodes", nodes, 2))
    n = y.shape[0]
    values, vectors = jnp.linalg.eigh((k + k.T) / 2)
    second = vectors.T @ (jnp.outer(y, y) + covariance) @ vectors

    def spread(s):
        left = vectors * jnp.exp(-eta / n * s * values)
        miss = left @ second @ left.T  # E[r r'] of what is missing at time s
        return part**2 @ jnp.diag(miss) / n - jnp.einsum("ij,jk,ik->i", part, miss, part) / n**2

    times = time / 2 * (jnp.asarray(points, k.dtype) + 1)
    return eta**2 * time / 2 * jnp.asarray(weights, k.dtype) @ jax.vmap(spread)(times)


@implements("M19.24")
def outer_weight_bound(
    start: Float[ArrayLike, "n"],
    width: int,
    eta: Scalar,
    time: Scalar,
    *,
    activation_bound: Scalar = 1.0,
    label_bound: Scalar = 1.0,
) -> Float[Array, "_"]:
    r"""A bound on $|C^n_k|$ for all $k\le N\,$`time` under SGD with $\gamma=\frac12$, for every unit: like `start`.

    With $|\sigma|\le s$, $|y|\le B$, $\gamma_0=\frac1N\sum|C_0^n|$ and $a=\eta sBt/\sqrt N$:
    $|C_k^n|\le|C_0^n|+a+(\gamma_0+a)(e^{\eta s^2t}-1)$. Holds on every path.
    """
    start = real("start", start, "n")
    width, eta, s, bound = (
        positive(n, real(n, v, ""))
        for n, v in (
            ("width", width),
            ("eta", eta),
            ("activation_bound", activation_bound),
            ("label_bound", label_bound),
        )
    )
    time = within("time", real("time", time, ""), 0.0)
    pushed = eta * s * bound * time / jnp.sqrt(width)
    size = jnp.sum(jnp.abs(start)) / width
    return jnp.abs(start) + pushed + (size + pushed) * jnp.expm1(eta * s**2 * time)


@implements("M19.29")
def cadlag_modulus(path: Float[ArrayLike, "t"], gap: int) -> Float[Array, ""]:
    r"""How far a path (steps,) is from a step function whose steps last longer than `gap`: the modulus $w'$ of $D$.

    The least, over partitions of the time into intervals $[t_{i-1},t_i)$ longer than `gap` steps (the last may be cut
    by the end), of the largest oscillation within an interval. Zero for jumps that are far apart.
    """
    path, gap = real("path", path, "t"), whole("gap", gap, 0)
    n = path.shape[0]
    index = jnp.arange(n + 1)
    started = index[:-1] >= index[:, None]  # (begin, step): the steps from `begin` on
    top = jax.lax.cummax(jnp.where(started, path, -jnp.inf), axis=1)
    low = jax.lax.cummin(jnp.where(started, path, jnp.inf), axis=1)
    # (begin, end): oscillation on [begin, end)
    swing = jnp.pad(jnp.where(started, top - low, 0), ((0, 0), (1, 0)))

    def close(best, end):
        allowed = (end - index > gap) | ((end == n) & (index < n))
        value = jnp.min(jnp.where(allowed, jnp.maximum(best, swing[:, end]), jnp.inf))
        return best.at[end].set(jnp.where(end == 0, 0, value)), None

    best, _ = jax.lax.scan(close, jnp.full(n + 1, jnp.inf, path.dtype), index)
    return best[-1]


class StochasticOrder(NamedTuple):
    r"""Quantiles of $|A_N|/\beta_N$, one row for each width, and the slope of the last one in $\log N$."""

    quantiles: jax.Array
    slope: jax.Array

    __repr__ = shown


@implements("M19.23")
def stochastic_order(
    samples: Float[ArrayLike, "w r"],
    widths: Int[ArrayLike, "..."],
    beta: Float[ArrayLike, "..."],
    *,
    levels: Float[ArrayLike, "q"] = (0.5, 0.75, 0.95),
) -> StochasticOrder:
    r"""Whether $A_N=\mathcal O_p(\beta_N)$, as far as samples tell: `samples` (widths, repetitions), `beta` (widths,).

    It is if the quantiles stay bounded: a `slope` not above 0.
    """
    dims = {}
    samples = real("samples", samples, "w r", dims)
    widths, beta = (positive(n, real(n, v, "w", dims)) for n, v in (("widths", widths), ("beta", beta)))
    levels = within("levels", real("levels", levels, "q"), 0.0, 1.0, open="both")
    if dims["w"] < 2:
        raise ValueError(f"widths must hold at least two widths, got {dims['w']}.")
    quantiles = jnp.quantile(jnp.abs(samples) / beta[:, None], levels, axis=1).T
    u, v = jnp.log(widths), jnp.log(quantiles[:, -1])
    u = u - jnp.mean(u)
    return StochasticOrder(quantiles, u @ v / (u @ u))
