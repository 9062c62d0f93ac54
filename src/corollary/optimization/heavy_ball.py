r"""Polyak's heavy ball in every form of the texts, and what it does on a quadratic.

With a constant step all the forms walk the same path from $\theta_{-1}=\theta_0$, which is that of
`optax.sgd(step, momentum)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Float

from corollary._engine.trees import each
from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import one_of, positive, real, within
from corollary.catalog import implements
from corollary.optimization._arguments import schedule_of, share_of


class Moving(NamedTuple):
    """What momentum remembers, the last point or a velocity, and the number of steps."""

    memory: optax.Params
    count: jax.Array

    __repr__ = shown


FORMS = ("difference", "velocity", "scaled velocity", "intermediate", "average")


@implements("M17.17", "M17.18", "T02.12", "T02.14", "E03.12")
def heavy_ball(
    step: Scalar | Callable, momentum: Scalar, *, form: str = "velocity"
) -> optax.GradientTransformationExtraArgs:
    r"""Heavy ball with step $\eta$ (a number, or a function of $k=0,1,\dots$) and momentum $\rho\in[0,1]$.

    Forms: `"difference"` $\theta_{k+1}=\theta_k-\eta\nabla f(\theta_k)+\rho(\theta_k-\theta_{k-1})$ (T, E, M);
    `"velocity"` $u_{k+1}=\rho u_k-\nabla f(\theta_k)$, $\theta_{k+1}=\theta_k+\eta u_{k+1}$ (M 17.4, T);
    `"scaled velocity"` $u_{k+1}=\rho u_k-\eta\nabla f(\theta_k)$, $\theta_{k+1}=\theta_k+u_{k+1}$ (M 17.6);
    `"intermediate"` $u_{k+1}=(1+\rho)\theta_k-\rho\theta_{k-1}$, $\theta_{k+1}=u_{k+1}-\eta\nabla f(\theta_k)$ (M,
    printed with $u_k$ there); `"average"` $u_{k+1}=\rho u_k+(1-\rho)\nabla f(\theta_k)$,
    $\theta_{k+1}=\theta_k-\eta u_{k+1}$ (M 17.5), which is the others with the step $\eta(1-\rho)$.
    """
    one_of("form", form, FORMS)
    at, rho = schedule_of(step), share_of("momentum", momentum)

    def init(params):
        # what is remembered is the last point in the forms that remember points, the velocity in the others
        still = params if form in ("difference", "intermediate") else jax.tree.map(jnp.zeros_like, params)
        return Moving(still, jnp.zeros((), jnp.int32))

    def update(updates, state, params, **extra):
        eta, memory = at(state.count), state.memory
        if form == "difference":
            moves = each(lambda t, last, g: rho * (t - last) - eta * g, params, memory, updates)
            memory = params
        elif form == "intermediate":
            u = each(lambda t, last: (1 + rho) * t - rho * last, params, memory)
            moves = each(lambda t, u, g: u - eta * g - t, params, u, updates)
            memory = params
        elif form == "velocity":
            memory = each(lambda u, g: rho * u - g, memory, updates)
            moves = each(lambda u: eta * u, memory)
        elif form == "scaled velocity":
            memory = moves = each(lambda u, g: rho * u - eta * g, memory, updates)
        else:
            memory = each(lambda u, g: rho * u + (1 - rho) * g, memory, updates)
            moves = each(lambda u: -eta * u, memory)
        return moves, Moving(memory, state.count + 1)

    return optax.GradientTransformationExtraArgs(init, update)


def polyak_parameters(L: Float[ArrayLike, "..."], mu: Float[ArrayLike, "..."]) -> tuple[Array, Array]:
    r"""Polyak's choice for quadratics with spectrum in $[\mu,L]$:
    $\eta=\frac4{(\sqrt L+\sqrt\mu)^2}$, $\rho=(\frac{\sqrt\kappa-1}{\sqrt\kappa+1})^2$.
    """
    L, mu = positive("L", real("L", L)), positive("mu", real("mu", mu))
    top, bottom = jnp.sqrt(L), jnp.sqrt(mu)
    return 4 / (top + bottom) ** 2, ((top - bottom) / (top + bottom)) ** 2


@implements("E03.12")
def heavy_ball_matrix(
    step: Float[ArrayLike, "..."], momentum: Float[ArrayLike, "..."], curvature: Float[ArrayLike, "..."]
) -> Float[Array, "... 2 2"]:
    r"""What a step does to $(\theta_k,\theta_{k-1})$ on $\frac h2\theta^2$:
    $\begin{pmatrix}1+\rho-\eta h&-\rho\\1&0\end{pmatrix}$, shape (..., 2, 2).

    It contracts if and only if $\rho<1$ and $0<\eta h<2(1+\rho)$; in the oscillating regime
    $(1-\sqrt\rho)^2\le\eta h\le(1+\sqrt\rho)^2$ its spectral radius is $\sqrt\rho$.
    """
    eta, rho, h = _three(step, momentum, curvature)
    return _companion(1 + rho - eta * h, -rho)


@implements("T02.13")
def heavy_ball_of_flow(
    friction: Float[ArrayLike, "..."], force: Float[ArrayLike, "..."], spacing: Float[ArrayLike, "..."]
) -> tuple[Array, Array]:
    r"""The step $\eta=bs^2$ and momentum $\rho=1-as$ with which heavy ball discretises
    $\ddot\theta+a\dot\theta+b\nabla f(\theta)=0$ in time steps $s$, at most $1/a$.
    """
    a, b, s = (
        positive(name, real(name, value))
        for name, value in (("friction", friction), ("force", force), ("spacing", spacing))
    )
    within("friction times spacing", a * s, 0.0, 1.0)
    return b * s**2, 1 - a * s


@implements("T02.13")
def damped_oscillator(
    start: Float[ArrayLike, "..."],
    curvature: Float[ArrayLike, "..."],
    friction: Float[ArrayLike, "..."],
    force: Float[ArrayLike, "..."],
    time: Float[ArrayLike, "..."],
) -> Array:
    r"""The solution of $\ddot\theta+a\dot\theta+bh\theta=0$ from rest at `start`: the flow of heavy ball on
    $\frac h2\theta^2$.
    """
    a, b, h = positive("friction", real("friction", friction)), real("force", force), real("curvature", curvature)
    positive("force", b), positive("curvature", h)
    start, t = real("start", start), within("time", real("time", time), 0.0)
    square = a**2 / 4 - b * h  # of the root's distance from -a/2; its sign decides whether it swings
    w = jnp.sqrt(jnp.abs(square))
    tiny = jnp.finfo(w.dtype).tiny
    swing = jnp.cos(w * t) + a / 2 * jnp.sinc(w * t / jnp.pi) * t
    # without swing, by the two decaying exponentials, so that nothing overflows
    fast, slow = jnp.exp(-(a / 2 + w) * t), jnp.exp(-(a / 2 - w) * t)
    creep = (slow + fast) / 2 + a / 2 * (slow - fast) / (2 * jnp.maximum(w, tiny))
    return start * jnp.where(square > 0, creep, jnp.exp(-a / 2 * t) * swing)


def _three(step, momentum, curvature):
    eta = positive("step", real("step", step))
    return eta, within("momentum", real("momentum", momentum), 0.0, 1.0), real("curvature", curvature)


def _companion(trace, minus_determinant):
    """[[a, b], [1, 0]] over all batch axes."""
    a, b = jnp.broadcast_arrays(trace, minus_determinant)
    one, zero = jnp.ones_like(a), jnp.zeros_like(a)
    return jnp.stack([jnp.stack([a, b], -1), jnp.stack([one, zero], -1)], -2)
