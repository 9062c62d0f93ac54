r"""Nesterov's accelerated gradient: the convex schedules, the constant momentum for strong convexity, all forms."""

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
from corollary.optimization._arguments import asked_for, positive_of, share_of
from corollary.optimization.heavy_ball import _companion, _three


class Ahead(NamedTuple):
    """What Nesterov's method remembers: the last point or a velocity, the number of steps, and $t_k$."""

    memory: optax.Params
    count: jax.Array
    t: jax.Array

    __repr__ = shown


FORMS = ("lookahead", "velocity", "scaled velocity", "shifted")


@implements("M17.20", "T02.15", "E03.10")
def nesterov(
    step: Scalar, momentum: Scalar | Callable | None = None, *, form: str = "lookahead"
) -> optax.GradientTransformationExtraArgs:
    r"""Nesterov's method with step $\eta$ and momentum $\rho$: a number in $[0,1]$, a function of $k=0,1,\dots$ such
    as `convex_momentum`, or None for the sequence $t_0=1$, $t_{k+1}=\frac{1+\sqrt{1+4t_k^2}}2$, for which the step from
    $\theta_{k+1}$ has $\rho=\frac{t_k-1}{t_{k+1}}$.

    Forms: `"lookahead"` $\chi=\theta_k+\rho(\theta_k-\theta_{k-1})$, $\theta_{k+1}=\chi-\eta\nabla f(\chi)$ (E);
    `"scaled velocity"` $u_{k+1}=\rho u_k-\eta\nabla f(\theta_k+\rho u_k)$, $\theta_{k+1}=\theta_k+u_{k+1}$ (M);
    `"velocity"` $u_{k+1}=\rho u_k-\nabla f(\theta_k+\eta\rho u_k)$, $\theta_{k+1}=\theta_k+\eta u_{k+1}$ (T, where the
    argument is misprinted). `"shifted"` follows $\hat\theta_k=\theta_k+\rho u_k$ instead,
    $u_{k+1}=\rho u_k-\eta\nabla f(\hat\theta_k)$, $\hat\theta_{k+1}=\hat\theta_k+\rho(u_{k+1}-u_k)+u_{k+1}$ (M), with
    constant momentum; that is `optax.sgd(step, momentum, nesterov=True)`. The other forms take their gradient ahead of
    the parameters, by the extra argument `gradient_fn`.
    """
    one_of("form", form, FORMS)
    eta = positive_of("step", step)
    if form == "shifted" and (momentum is None or callable(momentum)):
        raise ValueError("momentum must be a number in the shifted form.")
    if not (momentum is None or callable(momentum)):
        momentum = share_of("momentum", momentum)

    def rho_and_t(k, t):
        if momentum is None:
            longer = (1 + jnp.sqrt(1 + 4 * t**2)) / 2
            # the first step has no past, whatever the momentum; t_k belongs to the step from k to k + 1
            return jnp.where(k == 0, 0.0, (t - 1) / longer), jnp.where(k == 0, t, longer)
        return (momentum(k) if callable(momentum) else momentum), t

    def init(params):
        dtype = jnp.result_type(*jax.tree.leaves(params))
        still = params if form == "lookahead" else jax.tree.map(jnp.zeros_like, params)
        return Ahead(still, jnp.zeros((), jnp.int32), jnp.ones((), dtype))

    def update(updates, state, params, *, gradient_fn=None, **extra):
        memory = state.memory
        rho, t = rho_and_t(state.count, state.t)

        def slope(moves):
            return asked_for("gradient_fn", gradient_fn)(each(jnp.add, params, moves))

        if form == "lookahead":
            ahead = each(lambda theta, last: rho * (theta - last), params, memory)
            moves, memory = each(lambda a, g: a - eta * g, ahead, slope(ahead)), params
        elif form == "velocity":
            ahead = each(lambda u: eta * rho * u, memory)
            memory = each(lambda u, g: rho * u - g, memory, slope(ahead))
            moves = each(lambda u: eta * u, memory)
        elif form == "scaled velocity":
            ahead = each(lambda u: rho * u, memory)
            memory = moves = each(lambda a, g: a - eta * g, ahead, slope(ahead))
        else:
            last, memory = memory, each(lambda u, g: rho * u - eta * g, memory, updates)
            moves = each(lambda u, last: rho * (u - last) + u, memory, last)
        return moves, Ahead(memory, state.count + 1, t.astype(state.t.dtype))

    return optax.GradientTransformationExtraArgs(init, update)


@implements("E03.10")
def convex_momentum(k: Float[ArrayLike, "..."]) -> Array:
    r"""$\rho_k=\frac{k-1}{k+2}$, the simple schedule for convex functions; the first step has no past and none."""
    k = within("k", real("k", k), 0.0)
    return jnp.maximum(k - 1, 0) / (k + 2)


@implements("M17.21")
def strongly_convex_momentum(L: Float[ArrayLike, "..."], mu: Float[ArrayLike, "..."]) -> Array:
    r"""$\rho=\frac{\sqrt m-1}{\sqrt m+1}$ with $m=L/\mu$: no momentum at $m=1$, towards 1 for large $m$."""
    L, mu = positive("L", real("L", L)), positive("mu", real("mu", mu))
    return (jnp.sqrt(L) - jnp.sqrt(mu)) / (jnp.sqrt(L) + jnp.sqrt(mu))


@implements("M17.20")
def nesterov_matrix(
    step: Float[ArrayLike, "..."], momentum: Float[ArrayLike, "..."], curvature: Float[ArrayLike, "..."]
) -> Float[Array, "... 2 2"]:
    r"""What a step does to $(\theta_k,\theta_{k-1})$ on $\frac h2\theta^2$:
    $\begin{pmatrix}(1+\rho)(1-\eta h)&-\rho(1-\eta h)\\1&0\end{pmatrix}$.

    Where it oscillates its spectral radius is $\sqrt{\rho(1-\eta h)}$: the larger the curvature the stronger the
    damping, where heavy ball has $\sqrt\rho$ at all curvatures.
    """
    eta, rho, h = _three(step, momentum, curvature)
    return _companion((1 + rho) * (1 - eta * h), -rho * (1 - eta * h))
