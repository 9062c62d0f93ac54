r"""Data with a known truth: $y=h(x)+\epsilon$, and the risk of a linear model under it."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import real, whole, within
from corollary.catalog import implements


@implements("B13.03")
class Planted(eqx.Module):
    r"""$y=h(x)+\epsilon$, $\epsilon\sim\mathcal N(0,\sigma^2)$ independent of $x$.

    `truth` is $h$, a function of one input; `inputs(key)` draws one input; `noise` is $\sigma$.
    """

    truth: Callable
    inputs: Callable
    noise: Scalar

    def __init__(self, truth: Callable, inputs: Callable, noise: Scalar):
        for name, value in (("truth", truth), ("inputs", inputs)):
            if not callable(value):
                raise TypeError(f"{name} must be a function, got {type(value).__name__}.")
        within("noise", real("noise", noise, ""), 0.0)
        self.truth, self.inputs, self.noise = truth, inputs, noise  # a number stays one: it has the precision of y

    def sample(self, n: int, *, key: PRNGKeyArray) -> tuple[Array, Array]:
        """`n` independent pairs `(x, y)`.

        >>> law = Planted(jnp.sin, jax.random.uniform, 0.1)
        >>> law.sample(5, key=key)[1].shape
        (5,)
        """
        x_key, noise_key = jax.random.split(key)
        x = jax.vmap(self.inputs)(jax.random.split(x_key, whole("n", n)))
        y = jax.vmap(self.truth)(x)
        return x, y + self.noise * jax.random.normal(noise_key, y.shape, y.dtype)


@implements("B13.01", "B13.04")
def linear_risk(
    w: Float[ArrayLike, "... d"],
    truth: Float[ArrayLike, "d"],
    covariance: Float[ArrayLike, "d d"],
    noise: Scalar,
) -> Float[Array, "..."]:
    r"""$\mathbb E(y-w\cdot\phi(x))^2=\sigma^2+(w-w_*)^\top\Sigma(w-w_*)$ for $y=w_*\cdot\phi(x)+\epsilon$.

    `truth` is $w_*$, `covariance` the second moments $\Sigma=\mathbb E\phi(x)\phi(x)^\top$, `noise` the standard
    deviation $\sigma$ of $\epsilon$, which has mean 0 and is independent of $x$. The least risk is $\sigma^2$.
    """
    dims = {}
    truth = real("truth", truth, "d", dims)
    w, covariance = real("w", w, "... d", dims), real("covariance", covariance, "d d", dims)
    noise = within("noise", real("noise", noise, ""), 0.0)
    away = w - truth
    return noise**2 + jnp.einsum("...i,ij,...j->...", away, covariance, away)
