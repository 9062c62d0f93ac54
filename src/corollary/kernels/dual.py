r"""Dual kernels of activations: $\mathbb E[\phi(u)\phi(v)]$ and $\mathbb E[\phi'(u)\phi'(v)]$ over Gaussian pairs.

$(u,v)$ are centred with variances $q_{11},q_{22}$ and covariance $q_{12}$. Each activation is a small module: called
on numbers it is $\phi$; `pair(q11, q12, q22)` is both expectations at once, which share their angle. All are entrywise
over arrays that broadcast. Where two points are parallel the angle is exactly zero and its derivative is taken as zero:
kernels that have a kink there (the derivative kernel of ReLU) get no NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import concrete, real, whole, within
from corollary.catalog import implements
from corollary.kernels._arctan import arctan
from corollary.kernels._expectation import product_mean, slope_of


@implements("T09.09", "T09.20")
class RectifiedPower(eqx.Module):
    r"""$\phi(z)=z^n1_{z>0}$: the step ($n=0$), ReLU ($n=1$), its square ($n=2$): the arc-cosine kernels, halved.

    The derivative of the step is taken as 0, which it is almost everywhere and for backpropagation.
    """

    order: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        whole("order", self.order, 0, 2)

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.where(z > 0, z**self.order, 0.0).astype(z.dtype)

    def pair(
        self, q11: Float[Array, "..."], q12: Float[Array, "..."], q22: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        plane = _plane(q11, q12, q22)
        derivative = jnp.zeros_like(plane.angle) if self.order == 0 else _power(plane, q12, self.order - 1)
        return _power(plane, q12, self.order), self.order**2 * derivative


class LeakyReLU(eqx.Module):
    r"""$\phi(z)=z$ for $z>0$ and $\alpha z$ below; `slope` $\alpha=-1$ is the absolute value."""

    slope: float = 0.01

    def __check_init__(self):
        real("slope", self.slope, "")

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.where(z > 0, z, self.slope * z)

    def pair(
        self, q11: Float[Array, "..."], q12: Float[Array, "..."], q22: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        plane = _plane(q11, q12, q22)
        rest = (1 - self.slope) ** 2
        return self.slope * q12 + rest * _power(plane, q12, 1), self.slope + rest * _power(plane, q12, 0)


class Linear(eqx.Module):
    r"""$\phi(z)=z$."""

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return z

    def pair(
        self, q11: Float[Array, "..."], q12: Float[Array, "..."], q22: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        q12 = q12 + 0 * (q11 + q22)
        return q12, jnp.ones_like(q12)


class Monomial(eqx.Module):
    r"""$\phi(z)=z^p$; the dual is $\sum_j\frac{(p!)^2}{j!\,(m!)^2}(q_{11}q_{22}/4)^mq_{12}^j$, $j+2m=p$."""

    degree: int = eqx.field(static=True)

    def __check_init__(self):
        whole("degree", self.degree, 1, 30)

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return z**self.degree

    def pair(
        self, q11: Float[Array, "..."], q12: Float[Array, "..."], q22: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        return (
            _pairings(self.degree, q11, q12, q22),
            self.degree**2 * _pairings(self.degree - 1, q11, q12, q22),
        )


class Erf(eqx.Module):
    r"""$\phi(z)=\operatorname{erf}(z)$; the dual is $\frac2\pi\arcsin\frac{2q_{12}}{\sqrt{(1+2q_{11})(1+2q_{22})}}$."""

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jax.scipy.special.erf(z)

    def pair(
        self, q11: Float[Array, "..."], q12: Float[Array, "..."], q22: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        arc, root = _arcsine(2 * q11, 2 * q12, 2 * q22)
        return 2 / np.pi * arc, 4 / np.pi / root


class GELU(eqx.Module):
    r"""$\phi(z)=z\Phi(z)$ with the distribution function $\Phi$ of $\mathcal N(0,1)$, not its approximation."""

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return z * jax.scipy.special.ndtr(z)

    def pair(
        self, q11: Float[Array, "..."], q12: Float[Array, "..."], q22: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        # integration by parts, twice; then the derivative in q12, which is the second expectation
        arc, root = _arcsine(q11, q12, q22)
        both = 0.25 + arc / (2 * np.pi)  # E[Φ(u)Φ(v)]
        density = 1 / (2 * np.pi * root)  # E[φ(u)φ(v)] of the density φ
        shares = 1 / (1 + q11) + 1 / (1 + q22)
        rest = q11 * q22 + q12**2 * (shares - 1)
        value = q12 * both + density * rest
        return value, both + q12 * density * (1 + rest / root**2 + 2 * (shares - 1))


class Sine(eqx.Module):
    r"""$\phi(z)=\sin z$; the dual is $e^{-(q_{11}+q_{22})/2}\sinh q_{12}$."""

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.sin(z)

    def pair(
        self, q11: Float[Array, "..."], q12: Float[Array, "..."], q22: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        odd, even = _waves(q11, q12, q22)
        return odd, even


class Cosine(eqx.Module):
    r"""$\phi(z)=\cos z$; the dual is $e^{-(q_{11}+q_{22})/2}\cosh q_{12}$."""

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.cos(z)

    def pair(
        self, q11: Float[Array, "..."], q12: Float[Array, "..."], q22: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        odd, even = _waves(q11, q12, q22)
        return even, odd


class GaussianBump(eqx.Module):
    r"""$\phi(z)=e^{-z^2}$; the dual is $\det(I+2Q)^{-1/2}$."""

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.exp(-(z**2))

    def pair(
        self, q11: Float[Array, "..."], q12: Float[Array, "..."], q22: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        root = _arcsine(2 * q11, 2 * q12, 2 * q22)[1]
        return 1 / root, 4 * q12 / root**3


@implements("T09.08")
class Quadrature(eqx.Module):
    """Any function that acts entrywise; the expectations by quadrature with `nodes` points along each of two axes.

    Exact to rounding where the function is smooth on the scale of the standard deviation; slow (an error in the square
    of the distance of the nodes) where it has a kink. Costs the square of `nodes` evaluations for every pair.
    """

    function: Callable = eqx.field(static=True)
    nodes: int = eqx.field(static=True, default=64)

    def __check_init__(self):
        if not callable(self.function):
            raise TypeError(f"function must be a function of an array, got {type(self.function).__name__}.")
        whole("nodes", self.nodes, 2, 1000)

    def __call__(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.function(z)

    def pair(
        self, q11: Float[Array, "..."], q12: Float[Array, "..."], q22: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        q = jnp.broadcast_arrays(q11, q12, q22)
        return tuple(product_mean(f, self.nodes, *q) for f in (self.function, slope_of(self.function)))


NAMES: dict[str, eqx.Module] = {
    "relu": RectifiedPower(1),
    "step": RectifiedPower(0),
    "squared relu": RectifiedPower(2),
    "leaky relu": LeakyReLU(),
    "linear": Linear(),
    "erf": Erf(),
    "gelu": GELU(),
    "sine": Sine(),
    "cosine": Cosine(),
    "gaussian": GaussianBump(),
    "tanh": Quadrature(jnp.tanh),
    "logistic": Quadrature(jax.nn.sigmoid),
    "softplus": Quadrature(jax.nn.softplus),
}
KNOWN = (
    (jax.nn.relu, "relu"),
    (jax.scipy.special.erf, "erf"),
    (jax.lax.erf, "erf"),
    (jnp.sin, "sine"),
    (jnp.cos, "cosine"),
)


def activation(phi):
    """The module of an activation: by name, or a function, or already one.

    Functions of JAX that have a closed form get it; every other function gets `Quadrature`.
    """
    if isinstance(phi, str):
        if phi not in NAMES:
            raise ValueError(f"activation must be one of {', '.join(map(repr, NAMES))} or a function, got {phi!r}.")
        return NAMES[phi]
    if callable(getattr(phi, "pair", None)) and callable(phi):
        return phi
    if not callable(phi):
        raise TypeError(f"activation must be a name or a function, got {type(phi).__name__}.")
    for function, name in KNOWN:
        if phi is function:
            return NAMES[name]
    return Quadrature(phi)


@implements("T09.08", "T09.20")
def dual_kernel(
    phi: str | Callable, q11: Float[ArrayLike, "..."], q12: Float[ArrayLike, "..."], q22: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$\mathbb E[\phi(u)\phi(v)]$ over centred Gaussian $(u,v)$ of these variances and this covariance, entrywise."""
    return activation(phi).pair(*_covariance(q11, q12, q22))[0]


@implements("T09.08", "T09.09")
def dual_derivative(
    phi: str | Callable, q11: Float[ArrayLike, "..."], q12: Float[ArrayLike, "..."], q22: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$\mathbb E[\phi'(u)\phi'(v)]$, entrywise: also the derivative of `dual_kernel` in the covariance."""
    return activation(phi).pair(*_covariance(q11, q12, q22))[1]


@implements("T09.17")
def normalising_constant(phi: str | Callable, variance: Float[ArrayLike, "..."] = 1.0) -> Float[Array, "..."]:
    r"""$c_\sigma=1/\mathbb E[\phi(z)^2]$, $z\sim\mathcal N(0,q)$: the squared weight scale that keeps variance 1."""
    q = within("variance", real("variance", variance), 0.0)
    return 1 / dual_kernel(phi, q, q, q)


class _Plane(eqx.Module):
    norms: jax.Array
    sine: jax.Array  # times norms
    angle: jax.Array


def _plane(q11, q12, q22) -> _Plane:
    r"""The angle between two points from their products, right to rounding also where it is small.

    $\tan\frac\theta2=\sqrt{\frac{p-c}{p+c}}$ with $p=\sqrt{q_{11}q_{22}}$: one division and one root for angle and
    sine, which XLA keeps in one loop over the pairs. A gap $p-|c|$ within the rounding of the products is parallel
    points, far more often than points so close: their angle is 0 or $\pi$, and constant.
    """
    norms = _root(q11) * _root(q22)
    size = jnp.abs(q12)
    apart = norms - size > 4 * float(jnp.finfo(norms.dtype).eps) * norms
    ratio = jnp.where(apart, (norms - size) / jnp.where(apart, norms + size, 1), 1)
    tangent = jnp.where(apart, jnp.sqrt(ratio), 0)
    half = arctan(tangent)
    return _Plane(norms, tangent * (norms + size), jnp.where(q12 >= 0, 2 * half, np.pi - 2 * half))


def _power(plane: _Plane, q12, order: int):
    """E[u^n v^n over the quadrant where both are positive]."""
    rest = np.pi - plane.angle
    if order == 0:
        return rest / (2 * np.pi)
    if order == 1:
        return (plane.sine + rest * q12) / (2 * np.pi)
    return (3 * plane.sine * q12 + rest * (plane.norms**2 + 2 * q12**2)) / (2 * np.pi)


def _root(q):
    return jnp.where(q > 0, jnp.sqrt(jnp.where(q > 0, q, 1)), 0)


def _arcsine(a, c, b):
    r"""$\arcsin\frac c{\sqrt{(1+a)(1+b)}}$ and $\sqrt{(1+a)(1+b)-c^2}$."""
    norms = _root(a) * _root(b)
    root = jnp.sqrt(1 + a + b + jnp.maximum((norms - c) * (norms + c), 0))
    return 2 * arctan(c / (jnp.sqrt((1 + a) * (1 + b)) + root)), root


def _waves(q11, q12, q22):
    r"""$e^{-(q_{11}+q_{22})/2}$ times $\sinh q_{12}$ and $\cosh q_{12}$; no exponent is positive."""
    size = jnp.abs(q12)
    top, fall = jnp.exp(size - (q11 + q22) / 2) / 2, jnp.expm1(-2 * size)
    return jnp.where(q12 < 0, top * fall, -top * fall), top * (2 + fall)


def _pairings(p: int, q11, q12, q22):
    """Isserlis: the pairings of u^p v^p with j pairs across."""
    quarter, total = q11 * q22 / 4, 0
    for m in range(p // 2 + 1):
        j = p - 2 * m
        total += math.factorial(p) ** 2 / (math.factorial(j) * math.factorial(m) ** 2) * quarter**m * q12**j
    return total


def _covariance(q11, q12, q22):
    q11, q22 = (within(n, real(n, q), 0.0) for n, q in (("q11", q11), ("q22", q22)))
    q12 = real("q12", q12)
    dtype = jnp.result_type(q11, q12, q22)
    if all(map(concrete, (q11, q12, q22))):
        a, c, b = (np.asarray(q, float) for q in (q11, q12, q22))
        if (c * c > a * b * (1 + 1e3 * float(jnp.finfo(dtype).eps))).any():
            raise ValueError("q12 must be a covariance for the variances q11 and q22: q12^2 must not exceed q11 q22.")
    return tuple(q.astype(dtype) for q in (q11, q12, q22))
