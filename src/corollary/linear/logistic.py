r"""The logistic function $S(z)=1/(1+e^{-z})$, and where and how fast a fitted curve $S(wx+b)$ rises."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._show import shown
from corollary._validate import concrete, positive, real, within
from corollary.catalog import implements


@implements("M03.02", "B02.13", "E02.03")
def logistic_function(z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$S(z)=1/(1+e^{-z})$, without overflow."""
    return jax.nn.sigmoid(real("z", z))


@implements("M03.02", "B02.13", "E02.03")
def logistic_prime(z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$S'(z)=S(z)S(-z)$; the product keeps the tails that $S(1-S)$ rounds to zero."""
    z = real("z", z)
    return jax.nn.sigmoid(z) * jax.nn.sigmoid(-z)


@implements("M03.02", "B02.13")
def logit(p: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\ln\frac p{1-p}$, the inverse of the logistic function on (0, 1)."""
    p = within("p", real("p", p), 0.0, 1.0, open="both")
    return jnp.log(p) - jnp.log1p(-p)


@implements("M03.02")
def odds(p: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$p/(1-p)$, so that `odds(logistic(z))` is $e^z$."""
    p = within("p", real("p", p), 0.0, 1.0, open="high")
    return p / (1 - p)


@implements("M01.14", "M03.05")
def vote(p: Float[ArrayLike, "..."]) -> Int[Array, "..."]:
    r"""Vote: 1 where $p>1/2$, else 0. A tie, which the text leaves open, goes to 0."""
    p = within("p", real("p", p), 0.0, 1.0)
    return (p > 0.5).astype(int)


class Curve(NamedTuple):
    r"""$S(\mathrm{sign}\cdot(x-\mathrm{location})/\mathrm{scale})$."""

    location: jax.Array
    scale: jax.Array
    sign: jax.Array

    __repr__ = shown


@implements("M03.11")
def location_scale(w: Float[ArrayLike, "..."], b: Float[ArrayLike, "..."]) -> Curve:
    r"""$x_c=-b/w$, $s=1/|w|$ and the sign of $w$ (3.12): the same curve as $S(wx+b)$."""
    w, b = real("w", w), real("b", b)
    if concrete(w) and (np.asarray(w) == 0).any():
        raise ValueError("w must not be 0: a constant curve has no location and no scale.")
    return Curve(-b / w, 1 / jnp.abs(w), jnp.sign(w))


@implements("M03.11")
def slope_intercept(
    location: Float[ArrayLike, "..."], scale: Float[ArrayLike, "..."], sign: Float[ArrayLike, "..."] = 1.0
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    r"""The inverse of `location_scale`: $(w,b)$ with $w=\mathrm{sign}/s$ and $b=-wx_c$."""
    location, scale, sign = real("location", location), positive("scale", real("scale", scale)), real("sign", sign)
    if concrete(sign) and (abs(np.asarray(sign)) != 1).any():
        raise ValueError(f"sign must be 1 or -1, got {sign}.")
    w = sign / scale
    return w, -w * location


@implements("M03.12")
def transition_interval(
    w: Float[ArrayLike, "..."], b: Float[ArrayLike, "..."], q: Float[ArrayLike, "..."] = 0.05
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    r"""$(x_c-s\ln\frac{1-q}q,\ x_c+s\ln\frac{1-q}q)$: where $S(wx+b)$ lies between $q$ and $1-q$.

    `q = 0.05` covers 90 % of the rise; the central 95 % needs `q = 0.025`.
    """
    curve = location_scale(w, b)
    q = within("q", real("q", q), 0.0, 0.5, open="both")
    half = curve.scale * (jnp.log1p(-q) - jnp.log(q))
    return curve.location - half, curve.location + half
