r"""Averages that forget: exponential moving averages, Cesàro and Abel means, decaying maxima."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements


@implements("M18.31")
def exponential_moving_average(
    xi: Float[ArrayLike, "..."], delta: Scalar, *, initial: Float[ArrayLike, "..."] = 0.0, bias_correction: bool = False
) -> Array:
    r"""$\Xi_{n+1}=\delta\,\Xi_n+(1-\delta)\,\xi_{n+1}$ along the first axis of `xi`: all of $\Xi_1,\dots,\Xi_N$.

    $\Xi_0$ is `initial`. With `bias_correction` $\Xi_n$ is divided by $1-\delta^n$, which makes the weights of
    $\xi_1,\dots,\xi_n$ sum to one; it needs an `initial` of zero, whose weight $\delta^n$ it takes away.
    """
    xi, delta = _sequence(xi), _decay("delta", delta)
    initial = real("initial", initial)
    if bias_correction and not isinstance(initial, jax.core.Tracer) and np.any(np.asarray(initial)):
        raise ValueError("initial must be zero with a bias correction, which corrects for a start at zero.")

    def forget(average, value):
        average = delta * average + (1 - delta) * value
        return average, average

    start = jnp.broadcast_to(initial, xi.shape[1:]).astype(xi.dtype)
    averages = jax.lax.scan(forget, start, xi)[1]
    if not bias_correction:
        return averages
    share = -jnp.expm1(jnp.arange(1, xi.shape[0] + 1, dtype=xi.dtype) * jnp.log(delta))
    return averages / share.reshape(-1, *[1] * (xi.ndim - 1))


@implements("M18.29", "M18.31")
def moving_average_weights(n: int, delta: Scalar, *, bias_correction: bool = False) -> Float[Array, "n"]:
    r"""$(1-\delta)\,\delta^{n-j}$ for $j=1,\dots,n$: how much $\xi_j$ counts in $\Xi_n$; the start counts $\delta^n$.

    They sum to $1-\delta^n$, and to one with the `bias_correction`.
    """
    n, delta = whole("n", n), _decay("delta", delta)
    weights = (1 - delta) * delta ** jnp.arange(n - 1, -1, -1)
    return weights / -jnp.expm1(n * jnp.log(delta)) if bias_correction else weights


@implements("M18.33")
def cesaro_means(xi: Float[ArrayLike, "..."]) -> Array:
    r"""$\frac1N\sum_{n\le N}\xi_n$ for every $N$, along the first axis."""
    xi = _sequence(xi)
    return jnp.cumsum(xi, axis=0) / jnp.arange(1, xi.shape[0] + 1).reshape(-1, *[1] * (xi.ndim - 1))


@implements("M18.33")
def abel_mean(xi: Float[ArrayLike, "..."], delta: Scalar) -> Array:
    r"""$(1-\delta)\sum_{n\ge0}\delta^n\xi_n$ over the terms given, the first of which is $\xi_0$.

    What a longer sequence would add is at most $\delta^N\sup|\xi|$: give $N\approx40/(1-\delta)$ terms.
    """
    xi, delta = _sequence(xi), _decay("delta", delta)
    weights = (1 - delta) * jnp.exp(jnp.arange(xi.shape[0], dtype=xi.dtype) * jnp.log(delta))
    return jnp.tensordot(weights, xi, axes=1)


@implements("M18.32")
def laplace_mean(f: Callable, rate: Scalar, *, horizon: float = 40.0, panels: int = 2000) -> Array:
    r"""$\lambda\int_0^\infty e^{-\lambda t}f(t)\,dt$, the Abel mean of a bounded function of time; $\lambda$ is `rate`.

    Gauss-Legendre quadrature with 8 points on each of `panels` equal pieces of $[0,\text{horizon}/\lambda]$: a piece
    should not be longer than a period of `f`. Beyond the horizon there is at most $e^{-\text{horizon}}\sup|f|$.
    """
    if not callable(f):
        raise TypeError(f"f must be a function of time, got {type(f).__name__}.")
    rate, horizon = positive("rate", real("rate", rate, "")), positive("horizon", real("horizon", horizon, ""))
    s, weights = _quadrature(whole("panels", panels), rate.dtype)
    s = s * horizon
    return horizon * jnp.sum(weights * jnp.exp(-s) * jax.vmap(f)(s / rate))


@implements("M18.32")
def laplace_mean_of_averages(average: Callable, rate: Scalar, *, horizon: float = 40.0, panels: int = 2000) -> Array:
    r"""$\int_0^\infty\bar F(t/\lambda)\,te^{-t}dt$ with $\bar F(T)=\frac1T\int_0^Tf$: the same, from Cesàro means.

    This is how the proof of Lemma 18.16 sees the Abel mean: as an average of Cesàro means at times of order
    $1/\lambda$.
    """
    if not callable(average):
        raise TypeError(f"average must be a function of time, got {type(average).__name__}.")
    rate, horizon = positive("rate", real("rate", rate, "")), positive("horizon", real("horizon", horizon, ""))
    s, weights = _quadrature(whole("panels", panels), rate.dtype)
    s = s * horizon
    return horizon * jnp.sum(weights * s * jnp.exp(-s) * jax.vmap(average)(s / rate))


@implements("M18.37")
def power_average(gradients: Float[ArrayLike, "k d"], delta: Scalar, p: Scalar) -> Array:
    r"""$\big((1-\delta^p)\sum_{i\le k}\delta^{p(k-i)}\|g_i\|_p^p\big)^{1/p}$ after every $k$; `gradients` are (k, d).

    In logarithms throughout, so that $p$ may be in the thousands.
    """
    gradients, delta = real("gradients", gradients, "k d"), _decay("delta", delta)
    p = within("p", real("p", p, ""), 1.0)
    logs = jax.nn.logsumexp(p * jnp.log(jnp.abs(gradients)), axis=1)

    def forget(total, new):
        total = jnp.logaddexp(p * jnp.log(delta) + total, new)
        return total, total

    totals = jax.lax.scan(forget, jnp.full((), -jnp.inf, gradients.dtype), logs)[1]
    return jnp.exp((jnp.log(-jnp.expm1(p * jnp.log(delta))) + totals) / p)


@implements("M18.37")
def decaying_maximum(gradients: Float[ArrayLike, "k d"], delta: Scalar) -> Array:
    r"""$u_{k}=\max\{\delta u_{k-1},\|g_k\|_\infty\}$ from $u_0=0$: the limit $p\to\infty$ of `power_average`."""
    gradients, delta = real("gradients", gradients, "k d"), _decay("delta", delta)

    def forget(largest, new):
        largest = jnp.maximum(delta * largest, new)
        return largest, largest

    return jax.lax.scan(forget, jnp.zeros((), gradients.dtype), jnp.abs(gradients).max(axis=1))[1]


def _sequence(xi):
    xi = real("xi", xi)
    if xi.ndim == 0 or xi.shape[0] == 0:
        raise ValueError(f"xi must have a first axis with at least one term, got shape {xi.shape}.")
    return xi


def _decay(name, value):
    return within(name, real(name, value, ""), 0.0, 1.0, open="both")


def _quadrature(panels, dtype):
    """Points and weights of the composite Gauss rule with 8 points a panel on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    s = (np.arange(panels)[:, None] + (nodes + 1) / 2) / panels
    return jnp.asarray(s.ravel(), dtype), jnp.asarray(np.tile(weights / 2 / panels, panels), dtype)
