r"""Activation functions: each a small object with its derivatives, and what the texts say about it.

`relu(z)` is the value, `relu.prime(z)` the derivative, `relu.lipschitz` the constant, and so on. At a kink the
derivative is the one of the left piece (0 for ReLU); the derivative of a step is 0, as it is almost everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements
from corollary.linear import logistic_prime, logit


@implements("B02.13", "B02.14", "E02.10", "M05.19")
@dataclass(frozen=True)
class ActivationFunction:
    """A function of one number, applied entrywise.

    `lipschitz` is the best constant (infinite for a step), `limits` the values at minus and plus infinity, `inverse`
    is None where there is none. Frozen and hashable, so that it can be a static field of a module.
    """

    name: str
    value: Callable = field(repr=False)
    derivative: Callable = field(repr=False)
    second_derivative: Callable = field(repr=False)
    lipschitz: float
    limits: tuple[float, float]
    inverse: Callable | None = field(default=None, repr=False)

    def __call__(self, z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.value(real("z", z, finite=False))

    def prime(self, z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$\phi'(z)$, entrywise."""
        return self.derivative(real("z", z, finite=False))

    def second(self, z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$\phi''(z)$, entrywise; 0 at kinks and jumps."""
        return self.second_derivative(real("z", z, finite=False))


def _step(z, low):
    return jnp.where(z >= 0, jnp.ones_like(z), low * jnp.ones_like(z))


def _atanh(t):
    return jnp.arctanh(within("t", real("t", t), -1.0, 1.0, open="both"))


def _tan(t):
    return jnp.tan(within("t", real("t", t), -math.pi / 2, math.pi / 2, open="both"))


def _tanh_prime(z):
    # 1 - tanh² rounds to 0 where 1/cosh² does not
    return 4 * logistic_prime(2 * z)


identity = ActivationFunction(
    "identity", lambda z: z, jnp.ones_like, jnp.zeros_like, 1.0, (-math.inf, math.inf), partial(real, "t")
)
logistic = ActivationFunction(
    "logistic",
    jax.nn.sigmoid,
    logistic_prime,
    lambda z: logistic_prime(z) * (1 - 2 * jax.nn.sigmoid(z)),
    0.25,
    (0.0, 1.0),
    logit,
)
tanh = ActivationFunction(
    "tanh", jnp.tanh, _tanh_prime, lambda z: -2 * jnp.tanh(z) * _tanh_prime(z), 1.0, (-1.0, 1.0), _atanh
)
arctan = ActivationFunction(
    "arctan",
    jnp.arctan,
    lambda z: 1 / (1 + z * z),
    lambda z: -2 * z / (1 + z * z) ** 2,
    1.0,
    (-math.pi / 2, math.pi / 2),
    _tan,
)
relu = ActivationFunction("relu", jax.nn.relu, lambda z: (z > 0).astype(z.dtype), jnp.zeros_like, 1.0, (0.0, math.inf))
heaviside = ActivationFunction(
    "heaviside", lambda z: _step(z, 0.0), jnp.zeros_like, jnp.zeros_like, math.inf, (0.0, 1.0)
)  # 1 at 0
sign = ActivationFunction(
    "sign", lambda z: _step(z, -1.0), jnp.zeros_like, jnp.zeros_like, math.inf, (-1.0, 1.0)
)  # 1 at 0, so that it is 2 heaviside - 1 there too


@implements("M05.19", "M05.23")
@cache
def softplus(beta: float = 1.0) -> ActivationFunction:
    r"""$\frac1\beta\ln(1+e^{\beta z})$, without overflow: ReLU for $\beta\to\infty$, with slope $S(\beta z)$."""
    beta = float(positive("beta", np.asarray(beta, float)))
    return ActivationFunction(
        f"softplus({beta:g})",
        lambda z: jax.nn.softplus(beta * z) / beta,
        lambda z: jax.nn.sigmoid(beta * z),
        lambda z: beta * logistic_prime(beta * z),
        1.0,
        (0.0, math.inf),
        lambda t: _softplus_inverse(t, beta),
    )


def _softplus_inverse(t, beta):
    t = positive("t", real("t", t))
    return t + jnp.log(-jnp.expm1(-beta * t)) / beta


@cache
def leaky_relu(slope: float = 0.01) -> ActivationFunction:
    r"""$z$ for $z>0$, else slope times $z$: no dead zone."""
    slope = float(within("slope", np.asarray(slope, float), 0.0, 1.0, open="both"))
    return ActivationFunction(
        f"leaky_relu({slope:g})",
        lambda z: jnp.where(z > 0, z, slope * z),
        lambda z: jnp.where(z > 0, 1.0, slope).astype(z.dtype),
        jnp.zeros_like,
        1.0,
        (-math.inf, math.inf),
        lambda t: jnp.where((t := real("t", t)) > 0, t, t / slope),
    )


@implements("M07.33")
@cache
def clipped_relu(top: float = 1.0) -> ActivationFunction:
    r"""$\min(\max(z,0),t)$: dead on both sides, slope 1 between; ReLU for $t\to\infty$."""
    top = float(positive("top", np.asarray(top, float)))
    return ActivationFunction(
        f"clipped_relu({top:g})",
        lambda z: jnp.clip(z, 0, top),
        lambda z: ((z > 0) & (z < top)).astype(z.dtype),
        jnp.zeros_like,
        1.0,
        (0.0, top),
    )


#: the activations without a parameter, by name
ACTIVATIONS = {phi.name: phi for phi in (identity, logistic, tanh, arctan, relu, heaviside, sign)}


@implements("B02.13")
def logistic_derivative(z: Float[ArrayLike, "..."], order: int) -> Array:
    r"""$\sigma^{(k)}(z)$ as a polynomial in $\sigma(z)$: $p_0(s)=s$, $p_{k+1}(s)=p_k'(s)\,s(1-s)$.

    The coefficients are whole numbers, exact in float64 up to order 16; where they cancel, precision is lost,
    up to a factor of $k!$.
    """
    z, order = real("z", z), whole("order", order, 0, 16)
    return jnp.polyval(jnp.asarray(_logistic_polynomial(order), z.dtype), jax.nn.sigmoid(z))


def _logistic_polynomial(order: int) -> np.ndarray:
    p = np.poly1d([1, 0])
    for _ in range(order):
        p = p.deriv() * np.poly1d([-1, 1, 0])
    return p.coeffs


@implements("E02.10")
def gaussian_second_moment(activation: Callable, variance: Scalar = 1.0) -> Array:
    r"""$\mathbb E[\phi(Z)^2]/\mathbb E[Z^2]$ for $Z\sim N(0,\text{variance})$: $\frac12$ for ReLU.

    By Gauss-Hermite quadrature with 200 nodes; by their symmetry, exact also for ReLU and the steps.
    """
    variance = positive("variance", real("variance", variance, ""))
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / math.sqrt(2 * math.pi)
    values = activation(jnp.sqrt(variance) * jnp.asarray(nodes, variance.dtype))
    return jnp.sum(jnp.asarray(weights, variance.dtype) * values**2) / variance
