r"""Worst cases that are known exactly: of linear models by the dual norm, of small ReLU networks by their patterns.

A two-layer network is $f(x)=c+\sum_ia_i(w_i\cdot x+b_i)_+$. Units with $a_i<0$ contribute
$\min_{s\in\{0,1\}}a_is(w_i\cdot x+b_i)$, so that for each choice of their $s$ what is left to minimise is convex:
$\min_x\max_{t\in[0,1]}$ of a function that is linear in both. Any $t$ bounds that from below by the support function of
the ball, any $x$ from above; the two are brought together by steps in both, with projections. The least over all
patterns is the worst case.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import labels, one_of, real, within
from corollary.catalog import implements
from corollary.network.losses import LOSSES
from corollary.robustness._victim import require_in_box
from corollary.robustness.ball import Ball, norm_order

#: The largest number of hidden units whose patterns are enumerated.
MOST_UNITS = 12
#: Steps between two looks at the bounds, and looks at most.
STEPS, LOOKS = 50, 400


def worst_margin(
    w: Float[ArrayLike, "d"],
    x: Float[ArrayLike, "n d"],
    y: Float[ArrayLike, "n"],
    ball: Ball,
    bias: Scalar = 0.0,
) -> Float[Array, "n"]:
    r"""$\min y(w\cdot x'+b)$ over ball and box around each $x$, for labels $y=\pm1$.

    Without box it is $y(w\cdot x+b)-r\|w\|_q$, $\frac1p+\frac1q=1$.

    >>> worst_margin(jnp.array([3.0, -4.0]), jnp.array([[1.0, 0.0]]), jnp.array([1.0]), Ball(2, 0.1)).round(3).tolist()
    [2.5]
    """
    dims: dict = {}
    w, x, y = real("w", w, "d", dims), real("x", x, "n d", dims), real("y", y, "n", dims)
    bias = real("bias", bias, "")
    require_in_box(ball, x)
    within("y", y, -1, 1)
    return jax.vmap(lambda x, y: y * (w @ x + bias) - ball.support(-y * w, x))(x, y)


@implements("B12.24")
def linear_adversarial_risk(
    w: Float[ArrayLike, "d"],
    x: Float[ArrayLike, "n d"],
    y: Float[ArrayLike, "n"],
    ball: Ball,
    bias: Scalar = 0.0,
    loss: Literal["logistic", "hinge"] = "logistic",
) -> Float[Array, ""]:
    r"""$\frac1n\sum_i\max\ell(w\cdot x_i'+b,y_i)$, exactly: these losses fall with the margin."""
    loss = LOSSES[one_of("loss", loss, ("logistic", "hinge"))]
    return jnp.mean(jax.vmap(lambda margin: loss(margin, jnp.ones(())))(worst_margin(w, x, y, ball, bias)))


@implements("T18.02")
def flip_distance(
    w: Float[ArrayLike, "d"], x: Float[ArrayLike, "n d"], p: Literal[1, 2] | float, bias: Scalar = 0.0
) -> Float[Array, "n"]:
    r"""$|w\cdot x+b|/\|w\|_q$: the distance to the boundary of a linear classifier in the norm $p$."""
    dims: dict = {}
    w, x, bias = real("w", w, "d", dims), real("x", x, "n d", dims), real("bias", bias, "")
    size = Ball(norm_order(p), 1.0).support(w, jnp.zeros_like(w))
    value = jnp.abs(x @ w + bias)
    return jnp.where(size > 0, value / jnp.where(size > 0, size, 1), jnp.inf)


class WorstCase(NamedTuple):
    r"""The least margin over ball and box is between `lower` and `upper`, which is the margin at `witness`."""

    lower: jax.Array
    upper: jax.Array
    witness: jax.Array

    __repr__ = shown


def relu_worst_margin(
    weight: Float[ArrayLike, "m d"],
    bias: Float[ArrayLike, "m"],
    outer: Float[ArrayLike, "k m"],
    x: Float[ArrayLike, "n d"],
    y: Int[ArrayLike, "n"],
    ball: Ball,
) -> WorstCase:
    r"""The least margin of $f(x)=A(Wx+b)_+$ over ball and box around each $x$, exactly, for at most 12 units.

    For several outputs the margin is $f_y-\max_{j\ne y}f_j$ with classes $y$ from 0, for one output $f$ if $y=1$ and
    $-f$ if $y=0$. A bias of the outputs is a unit with weight 0 and bias 1. `lower` and `upper` meet up to rounding,
    unless 20,000 steps do not suffice.
    """
    dims: dict = {}
    weight, bias, outer = (
        real("weight", weight, "m d", dims),
        real("bias", bias, "m", dims),
        real("outer", outer, "k m", dims),
    )
    x = real("x", x, "n d", dims)
    units, outputs = weight.shape[0], outer.shape[0]
    if units > MOST_UNITS:
        raise ValueError(f"weight must have at most {MOST_UNITS} rows, of which all patterns are tried, got {units}.")
    require_in_box(ball, x)
    y = labels("y", y, max(outputs, 2), "n", dims)
    if outputs == 1:
        against = jnp.where(y > 0, 1, -1)[:, None, None] * outer[None]
    else:
        others = (y[:, None] + jnp.arange(1, outputs)) % outputs
        against = outer[y][:, None] - outer[others]
    found = _worst(weight, bias, against.astype(x.dtype), x, ball)
    which = jnp.argmin(found.upper, 1)
    rows = jnp.arange(x.shape[0])
    return WorstCase(found.lower.min(1), found.upper[rows, which], found.witness[rows, which])


class _Saddle(NamedTuple):
    """Both sides of all patterns, their sums since the last start, and the bounds."""

    x: jax.Array
    t: jax.Array
    total_x: jax.Array
    total_t: jax.Array
    count: jax.Array
    gap: jax.Array
    lower: jax.Array
    upper: jax.Array
    witness: jax.Array


@jax.jit
def _worst(weight, bias, against, x, ball) -> WorstCase:
    """One example after the other, one class after the other: the patterns fill the machine."""

    def one(x):
        return lambda a: _least(weight, bias, a, x, ball)

    return jax.lax.map(lambda e: jax.lax.map(one(e[0]), e[1]), (x, against))


def _least(weight, bias, a, centre, ball: Ball) -> WorstCase:
    units = a.size
    on = (jnp.arange(2**units)[:, None] >> jnp.arange(units)) & 1  # all patterns
    rising, falling = jnp.maximum(a, 0), jnp.minimum(a, 0)
    new = jnp.all((on == 0) | (falling < 0), 1)  # a unit that is convex has no pattern
    linear, constant = (on * falling) @ weight, (on * falling) @ bias
    slopes, offsets = rising[:, None] * weight, rising * bias
    support = jax.vmap(lambda v: ball.support(v, centre))
    size = jnp.sqrt(jnp.sum(slopes**2))
    reach = ball.radius * (jnp.sqrt(centre.size) if ball.p == jnp.inf else 1) / jnp.sqrt(units)
    # the product of both steps is the inverse square of a bound of the norm, their ratio that of the sizes of the sets
    step_x, step_t = reach / jnp.where(size > 0, size, 1), 1 / jnp.where(size * reach > 0, size * reach, 1)
    scale = jnp.sum(jnp.abs(a) * (jnp.abs(weight @ centre + bias) + support(weight)))

    def value(x):
        return jnp.maximum(x @ weight.T + bias, 0) @ a

    def convex(x):
        return jnp.sum(linear * x, 1) + constant + jnp.sum(jnp.maximum(x @ slopes.T + offsets, 0), 1)

    def dual(t):
        v = linear + t @ slopes
        return constant + t @ offsets + v @ centre - support(-v)

    def go(_, s: _Saddle):
        x = jax.vmap(lambda x: ball.project(x, centre))(s.x - step_x * (linear + s.t @ slopes))
        t = jnp.clip(s.t + step_t * ((2 * x - s.x) @ slopes.T + offsets), 0, 1)
        return s._replace(x=x, t=t, total_x=s.total_x + x, total_t=s.total_t + t, count=s.count + 1)

    def look(carry):
        number, s = carry
        s = jax.lax.fori_loop(0, STEPS, go, s)
        mean_x, mean_t = s.total_x / s.count[:, None], s.total_t / s.count[:, None]
        lower, upper, witness = s.lower, s.upper, s.witness
        for x, t in ((s.x, s.t), (mean_x, mean_t)):
            lower = jnp.maximum(lower, dual(t))
            values = jnp.where(new, value(x), jnp.inf)
            best = jnp.argmin(values)
            witness = jnp.where(values[best] < upper, x[best], witness)
            upper = jnp.minimum(upper, values[best])
        # start again from the mean where it has come much nearer than the last start was
        gap = convex(mean_x) - dual(mean_t)
        again = (gap <= 0.3 * s.gap)[:, None]
        x, t = jnp.where(again, mean_x, s.x), jnp.where(again, mean_t, s.t)
        kept = lambda a: jnp.where(again.reshape(again.shape[0], *[1] * (a.ndim - 1)), 0, a)  # noqa: E731
        return number + 1, _Saddle(
            x,
            t,
            kept(s.total_x),
            kept(s.total_t),
            kept(s.count),
            jnp.where(again[:, 0], gap, s.gap),
            lower,
            upper,
            witness,
        )

    def apart(carry):
        number, s = carry
        open_still = s.upper - jnp.min(jnp.where(new, s.lower, jnp.inf))
        return (number < LOOKS) & (open_still > 64 * jnp.finfo(centre.dtype).eps * scale)

    many = on.shape[0]
    x, t = jnp.broadcast_to(centre, (many, centre.size)), jnp.full((many, units), 0.5, centre.dtype)
    none = jnp.zeros(many, centre.dtype)
    far = none + jnp.inf
    begin = _Saddle(x, t, 0 * x, 0 * t, none, far, -far, value(centre[None])[0], centre)
    _, end = jax.lax.while_loop(apart, look, (0, begin))
    return WorstCase(jnp.min(jnp.where(new, end.lower, jnp.inf)), end.upper, end.witness)
