r"""How long a recurrent network remembers: powers of its recurrence, and products of its Jacobians."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PyTree

from corollary._types import Scalar
from corollary._validate import concrete, positive, real, within
from corollary.catalog import implements
from corollary.nets.recurrent.network import Recurrent
from corollary.nets.recurrent.unroll import sequence, unroll


@implements("M13.13")
def linear_solution(
    recurrent: Float[ArrayLike, "..."], drive: Float[ArrayLike, "..."], start: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$Z_t=W^tZ_0+\sum_{s=1}^tW^{t-s}d_s$ for $t=1,\dots,T$: what $Z_t=WZ_{t-1}+d_t$ adds up to.

    For numbers $W$, $Z_0$ and `drive` (T,), or for a matrix (m, m), a vector (m,) and (T, m). By the sum itself, at a
    cost of $T^2$, not by the recursion.
    """
    scalar = jnp.ndim(recurrent) == 0
    recurrent, drive, start = map(jnp.asarray, (recurrent, drive, start))
    if scalar:
        recurrent, drive, start = recurrent.reshape(1, 1), drive.reshape(-1, 1), start.reshape(-1)
    dims = {}
    recurrent = real("recurrent", recurrent, "m m", dims)
    drive, start = real("drive", drive, "T m", dims), real("start", start, "m", dims)
    states = _linear_solution(recurrent, drive, start)
    return states[:, 0] if scalar else states


@implements("M13.14")
def linear_sensitivity(weight: Scalar, drive: Float[ArrayLike, "T"], start: Scalar) -> Float[Array, "_"]:
    r"""$\partial_wZ_t=tw^{t-1}Z_0+\sum_{s=1}^t(t-s)w^{t-s-1}d_s$ for numbers $w$, $Z_0$ and `drive` (T,)."""
    weight, drive, start = real("weight", weight, ""), real("drive", drive, "T"), real("start", start, "")
    t = np.arange(1, drive.shape[0] + 1)
    powers = jnp.concatenate([jnp.ones(1, weight.dtype), jnp.cumprod(jnp.full(t.size, weight))])  # also for w <= 0
    lag = t[:, None] - t
    impulses = jnp.where(lag > 0, lag * powers[np.maximum(lag - 1, 0)], 0.0)
    return t * powers[t - 1] * start + impulses @ drive


@implements("M13.15")
def time_horizon(weight: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$T_w=1/\ln(1/|w|)$ for $0<|w|<1$, so that $|w|^t=e^{-t/T_w}$; about $1/(1-|w|)$ close to 1. Entrywise."""
    size = jnp.abs(real("weight", weight))
    within("the modulus of weight", np.abs(weight) if concrete(weight) else size, 0.0, 1.0, open="both")
    return -1 / jnp.log(size)


@implements("M13.16")
def spectral_radius(matrix: Float[ArrayLike, "... m m"]) -> Float[Array, ""]:
    r"""$\rho(W)=\max_i|\lambda_i|$, the largest modulus of an eigenvalue of (..., m, m)."""
    return jnp.abs(jnp.linalg.eigvals(real("matrix", matrix, "... m m"))).max(-1)


@implements("M13.16")
def memory_horizon(matrix: Float[ArrayLike, "... m m"]) -> Float[Array, ""]:
    r"""$1/\ln(1/\rho(W))$ for $0<\rho(W)<1$: in the long run $\|W^t\|$ falls by the factor $e$ in so many steps."""
    return time_horizon(spectral_radius(matrix))


@implements("M13.16")
def rescale_to_radius(matrix: Float[ArrayLike, "m m"], radius: Scalar) -> Float[Array, "_ _"]:
    r"""$W\cdot\rho/\rho(W)$: the matrix with this spectral radius, a start for recurrent weights."""
    radius = positive("radius", real("radius", radius, ""))
    return real("matrix", matrix, "m m") * radius / positive("the spectral radius", spectral_radius(matrix))


@implements("E05.05")
def step_jacobians(network: Recurrent, xs: Float[ArrayLike, "..."], state: PyTree | None = None) -> Float[Array, "..."]:
    r"""$\partial z_t/\partial z_{t-1}$ for $t=1,\dots,T$, (T, m, m): for an Elman cell $\dot\Phi_tU$."""
    if not isinstance(network, Recurrent):
        raise TypeError(f"network must be a Recurrent network, got {type(network).__name__}.")
    xs = sequence(xs)
    states = unroll(network.cell, xs, state)
    if not hasattr(states, "ndim") or states.ndim != 2:
        raise TypeError("network must have a cell whose state is a vector.")
    start = network.cell.initial() if state is None else state
    before = jnp.concatenate([jnp.asarray(start, states.dtype)[None], states[:-1]])
    return jax.vmap(jax.jacrev(network.cell, 1))(xs, before)


@implements("E05.05")
def state_jacobians(
    network: Recurrent, xs: Float[ArrayLike, "..."], state: PyTree | None = None
) -> Float[Array, "..."]:
    r"""$\partial z_i/\partial z_t=\prod_{j=i}^{t+1}\dot\Phi_jU$ for all $0\le t\le i\le T$, (T + 1, T + 1, m, m).

    The latest factor stands on the left. Entry `[i, t]`; zero for $i<t$, the identity for $i=t$.
    """
    steps = step_jacobians(network, xs, state)
    time, eye = jnp.arange(steps.shape[0] + 1), jnp.eye(steps.shape[1], dtype=steps.dtype)

    def advance(row, inner):
        # row t is the derivative of the last state by that of time t
        i, factor = inner
        row = jnp.where((time == i)[:, None, None], eye, factor @ row)
        return row, row

    first = jnp.where((time == 0)[:, None, None], eye, jnp.zeros_like(eye))
    return jnp.concatenate([first[None], jax.lax.scan(advance, first, (time[1:], steps))[1]])


@implements("E05.06")
def jacobian_bound(
    recurrent: Float[ArrayLike, "m m"], slope: Scalar, lags: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$(\alpha\sigma_1(U))^{i-t}$, above $\|\partial z_i/\partial z_t\|_2$ where $|\phi'|\le\alpha$ along the way."""
    slope = within("slope", real("slope", slope, ""), 0.0)
    lags = within("lags", real("lags", lags), 0.0)
    return (slope * jnp.linalg.norm(real("recurrent", recurrent, "m m"), 2)) ** lags


@jax.jit
def _linear_solution(recurrent, drive, start):
    steps, eye = drive.shape[0], jnp.eye(recurrent.shape[0], dtype=recurrent.dtype)
    copies = jnp.broadcast_to(recurrent, (steps + 1, *recurrent.shape)).at[0].set(eye)
    powers = jax.lax.associative_scan(jnp.matmul, copies)  # W^0 ... W^T
    lag = np.arange(steps)[:, None] - np.arange(steps)
    impulses = jnp.where((lag >= 0)[..., None, None], powers[np.maximum(lag, 0)], 0.0)
    return powers[1:] @ start + jnp.einsum("tsij,sj->ti", impulses, drive)
