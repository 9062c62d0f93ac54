r"""Two-layer networks as they are drawn: the laws of output and gradient, and the one step that turns the sign.

$f(x)=\frac1{\sqrt k}\sum_{j\le k}a_j\sigma(w_j\cdot x)$ with $w_j\sim N(0,\frac1dI)$, $a_j=\pm1$, at a fixed $x$ of
length $\sqrt d$: then $w_j\cdot x\sim N(0,1)$. Below $X$ is standard normal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import NetworkLike, Scalar
from corollary._validate import real, whole, within
from corollary.catalog import implements
from corollary.foundations import bernstein_moments_deviation, panels
from corollary.network.apart import output_of, require_apart
from corollary.network.parts import require_network
from corollary.robustness.robust_networks import TwoLayerNetwork


@implements("B12.13")
def random_two_layer(
    units: int, features: int, activation: Callable = jnp.tanh, *, key: PRNGKeyArray
) -> TwoLayerNetwork:
    r"""$f(x)=\frac1{\sqrt k}\sum_ja_j\sigma(w_j\cdot x)$, $w_j\sim N(0,\frac1dI)$, $a_j$ uniform on $\pm1$: no biases.

    $k$ is the number of `units`, $d$ that of `features`.

    >>> random_two_layer(5, 3, key=key).inner.shape
    (5, 3)
    """
    units, features = whole("units", units), whole("features", features)
    sign_key, weight_key = jax.random.split(key)
    weights = jax.random.normal(weight_key, (units, features)) / features**0.5
    signs = jax.random.rademacher(sign_key, (units,), weights.dtype)
    return TwoLayerNetwork(signs / units**0.5, weights, jnp.zeros(units, weights.dtype), activation)


class Flip(NamedTuple):
    """Inputs after one step, outputs `before` and `after` it, its length, and whether the sign has turned."""

    inputs: jax.Array
    before: jax.Array
    after: jax.Array
    distance: jax.Array
    success: Bool[Array, "n"]

    __repr__ = shown


@implements("B12.23")
def one_step_flip(network: NetworkLike, x: Float[ArrayLike, "n ..."]) -> Flip:
    r"""$x-2f(x)\nabla f(x)/\|\nabla f(x)\|^2$ for every example: the step after which a linear $f$ is $-f(x)$.

    `network` returns one number. `success` is what a fresh forward pass says; where the gradient is zero nothing moves.

    >>> one_step_flip(network, x).distance.shape
    (4,)
    """
    require_network(network)
    x = real("x", x)
    if x.ndim == 0:
        raise ValueError("x must hold examples along its first axis, got one number.")
    network = eqx.nn.inference_mode(network)
    out = output_of(network, x)
    if out.size != 1:
        raise ValueError(f"network must return one number, whose sign is the class, got shape {out.shape}.")
    require_apart(network, x)
    return _flip(network, x)


@eqx.filter_jit
def _flip(network, x):
    def one(x):
        value, slope = jax.value_and_grad(lambda x: network(x).reshape(()))(x)
        square = jnp.sum(slope**2)
        step = -2 * value * slope / jnp.where(square > 0, square, 1)
        return x + step, value, network(x + step).reshape(()), jnp.sqrt(jnp.sum(step**2))

    inputs, before, after, distance = jax.vmap(one)(x)
    return Flip(inputs, before, after, distance, jnp.sign(before) * jnp.sign(after) < 0)


class OutputLaw(NamedTuple):
    r"""`variance` $E\sigma(X)^2$ of the output at every width, and its `excess` kurtosis, which falls as $\frac1k$."""

    variance: jax.Array
    excess: jax.Array

    __repr__ = shown


@implements("B12.14")
def output_law(activation: Callable, units: int) -> OutputLaw:
    r"""$E\sigma(X)^2$ and $\frac1k\big(E\sigma(X)^4/(E\sigma(X)^2)^2-3\big)$: variance and excess kurtosis of $f(x)$.

    Both hold for every number $k$ of `units` and every dimension; as $k$ grows $f(x)$ becomes normal.

    >>> print(round(float(output_law(jax.nn.relu, 10).variance), 4))
    0.5
    """
    square, fourth = _mean(lambda z: activation(z) ** 2), _mean(lambda z: activation(z) ** 4)
    return OutputLaw(square, (fourth / square**2 - 3) / whole("units", units))


@implements("B12.20")
def gradient_mean_square(activation: Callable, features: int) -> Float[Array, ""]:
    r"""$E\|\nabla f(x)\|^2=\frac1d\big[(d-1)E\sigma'(X)^2+E[X^2\sigma'(X)^2]\big]$, the same at every width."""
    d, slope = whole("features", features), _slope(activation)
    return ((d - 1) * _mean(lambda z: slope(z) ** 2) + _mean(lambda z: (z * slope(z)) ** 2)) / d


@implements("B12.20")
def gradient_floor(slopes: Float[ArrayLike, "... k"], features: int, delta: Scalar) -> Float[Array, "..."]:
    r"""$\big(1-5\sqrt{\ln(2/\delta)/d}\big)\sqrt{\frac1k\sum_j\sigma'(w_j\cdot x)^2}$ for $\delta<2/e$.

    At a fixed $x$ the gradient is shorter with probability at most `delta`. `slopes` are the $\sigma'(w_j\cdot x)$
    along the last axis. Below zero, and empty, unless $d>25\ln(2/\delta)$.
    """
    slopes, d = real("slopes", slopes, "... k"), whole("features", features)
    delta = within("delta", real("delta", delta, ""), 0.0, 2 / np.e, open="both")
    return (1 - 5 * jnp.sqrt(jnp.log(2 / delta) / d)) * jnp.sqrt(jnp.mean(slopes**2, -1))


class SlopeMoments(NamedTuple):
    r"""$E|\sigma'(X)|^{2q}\le\frac{q!}2vc^{q-2}$ for all whole $q\ge2$: `variance` is $v$, `growth` is $c$."""

    variance: jax.Array
    growth: jax.Array

    __repr__ = shown


@implements("B12.18")
def slope_moments(activation: Callable, slope: Scalar) -> SlopeMoments:
    r"""$v=E\sigma'(X)^4$ and $c=B^2$, the constants of Assumption 5 for an activation with $|\sigma'|\le B$ = `slope`.

    Because $E|\sigma'|^{2q}\le B^{2(q-2)}E|\sigma'|^4$ and $\frac{q!}2\ge1$, with equality at $q=2$.
    """
    slope = within("slope", real("slope", slope, ""), 0.0, open="low")
    derivative = _slope(activation)
    return SlopeMoments(_mean(lambda z: derivative(z) ** 4), slope**2)


@implements("B12.21")
def slope_mean_deviation(delta: Scalar, units: int, moments: SlopeMoments) -> Float[Array, ""]:
    r"""$\sqrt{8vL/k}+2cL/k$, $L=\ln\frac1\delta$: $\frac1k\sum_j\sigma'(w_j\cdot x)^2$ exceeds its mean by more seldom.

    Centred, the moments of $\sigma'(X)^2$ are at most $2^q$ times the plain ones, which is Bernstein's condition with
    $4v$ and $2c$. With probability $1-\delta$ on either side.
    """
    k = whole("units", units)
    return bernstein_moments_deviation(delta, 4 * k * moments.variance, 2 * moments.growth) / k


def _slope(activation):
    if not callable(activation):
        raise TypeError(f"activation must be a function of a number, got {type(activation).__name__}.")
    return jax.vmap(jax.grad(lambda z: activation(z).astype(z.dtype)))


def _mean(function):
    """The mean of a function of a standard normal variable, smooth between whole numbers (kinks there do no harm)."""
    if not callable(function):
        raise TypeError(f"activation must be a function of a number, got {type(function).__name__}.")
    # beyond 12 the normal law has nothing left, not even where it is multiplied by powers
    points, weights = panels(jnp.arange(-12.0, 13.0), 16)
    return jnp.sum(weights * jnp.exp(-(points**2) / 2) * function(points)) / (2 * np.pi) ** 0.5
