r"""The neural stochastic differential equation $dX=\mu(X;\theta)dt+\sigma(X;\theta)dW$: paths and their likelihood."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._types import NetworkLike, Scalar
from corollary._validate import concrete, one_of, positive, real, whole
from corollary.catalog import implements
from corollary.differential.solve import finite, for_field


@implements("M22.12")
class NeuralSDE(eqx.Module):
    r"""Two networks of the state, drift $\mu$ and diffusion $\sigma$; each coordinate has a Brownian motion of its own.

    >>> sde = NeuralSDE(lambda x: 0.05 * x, lambda x: 0.5 * x)
    >>> euler_maruyama(sde, jnp.ones(1), 1.0, steps=10, paths=3, key=key).shape
    (3, 1)
    """

    drift: Any
    diffusion: Any

    def __init__(self, drift: NetworkLike, diffusion: NetworkLike):
        for name, network in (("drift", drift), ("diffusion", diffusion)):
            if not callable(network):
                raise TypeError(f"{name} must be a function of the state, got {type(network).__name__}.")
        self.drift, self.diffusion = drift, diffusion


@implements("M22.13")
def euler_maruyama(
    sde: NeuralSDE,
    start: Float[ArrayLike, "d"],
    horizon: Scalar,
    *,
    steps: int,
    paths: int = 1,
    keep: Literal["end", "path"] = "end",
    key: PRNGKeyArray | None = None,
    noise: Float[ArrayLike, "steps paths d"] | None = None,
) -> Float[Array, "..."]:
    r"""Paths of $X_{i+1}=X_i+\mu(X_i)\Delta+\sigma(X_i)\sqrt\Delta\,W_i$, $W_i\sim N(0,I)$, from `start` to `horizon`.

    The ends, (paths, d), or all states, (paths, steps + 1, d). The noise is drawn step by step, so that no more is held
    than is kept; paths of several equations or lengths of steps are driven by the same Brownian motion where the
    `noise` $W_i$ is given in place of a key.
    """
    start, horizon = checked(sde, start, horizon)
    steps, paths = whole("steps", steps), whole("paths", paths)
    one_of("keep", keep, ("end", "path"))
    if (key is None) == (noise is None):
        raise ValueError("Give a key, from which the noise is drawn, or the noise itself.")
    step = jnp.asarray(horizon / steps, start.dtype)

    def onward(x, source):
        w = jax.random.normal(source, x.shape, x.dtype) if noise is None else source
        x = x + step * jax.vmap(sde.drift)(x) + jnp.sqrt(step) * jax.vmap(sde.diffusion)(x) * w
        return x, x if keep == "path" else None

    first = jnp.broadcast_to(start, (paths, start.size))
    sources = jax.random.split(key, steps) if noise is None else real("noise", noise, f"{steps} {paths} {start.size}")
    end, later = jax.lax.scan(onward, first, sources)
    if keep == "end":
        return finite(end[None], jnp.asarray(horizon)[None])[0]
    states = jnp.concatenate([first[None], later])
    return finite(states, jnp.linspace(0.0, horizon, steps + 1)).swapaxes(0, 1)


@implements("M22.14")
def path_log_likelihood(sde: NeuralSDE, path: Float[ArrayLike, "t d"], spacing: Scalar) -> Float[Array, ""]:
    r"""The mean over the steps of the logarithm of the transition density of an observed path, `spacing` $\Delta$
    apart.

    $\frac1N\sum_i\log\phi\bigl(Y_i;Y_{i-1}+\mu(Y_{i-1})\Delta,\sigma(Y_{i-1})\sqrt\Delta\bigr)$: all that is
    conditioned on is what was observed, where the text has the model's own path in it.
    """
    path, spacing = real("path", path, "t d"), positive("spacing", real("spacing", spacing, ""))
    if len(path) < 2:
        raise ValueError("path must hold at least two states.")
    checked(sde, path[0], spacing)
    before, after = path[:-1], path[1:]
    scale = jnp.abs(jax.vmap(sde.diffusion)(before)) * jnp.sqrt(spacing)
    if concrete(scale) and not np.asarray(scale).all():
        raise ValueError("diffusion must not vanish on the path: there the transition has no density.")
    z = (after - before - spacing * jax.vmap(sde.drift)(before)) / scale
    return (jax.scipy.stats.norm.logpdf(z) - jnp.log(scale)).sum(-1).mean()


def checked(sde, start, horizon):
    """The start and the horizon, or a sentence on what is wrong with the equation."""
    if not isinstance(sde, NeuralSDE):
        raise TypeError(f"sde must be a NeuralSDE, got {type(sde).__name__}.")
    start = real("start", start, "d")
    start = for_field(sde.diffusion, for_field(sde.drift, start))
    return start, positive("horizon", real("horizon", horizon, ""))
