r"""Momentum under stochastic gradients, exactly: how fast the second moments of the error shrink.

Least squares where each sample shows one coordinate, $x=\sqrt{h_i}\,z\,e_i$ with $i$ uniform and $\mathbb Ez^2=1$. A
step is a random linear map of the two numbers that a method remembers per coordinate, so that their second moments
follow a fixed 4 by 4 matrix. Its spectral radius is the factor by which the expected loss shrinks per step.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import one_of, positive, real, whole, within
from corollary.catalog import implements
from corollary.optimization.problem import Problem

METHODS = ("heavy ball", "nesterov", "mass")
FOURTH_MOMENT = {"normal": 3.0, "sign": 1.0}  # of the amplitude z


class CoordinateLeastSquares(Problem):
    """A quadratic along the axes whose oracle shows one coordinate at a time, with a random amplitude."""

    curvatures: jax.Array = eqx.field(kw_only=True)
    amplitude: str = eqx.field(static=True, default="normal", kw_only=True)

    def oracle(self, theta: PyTree, *, key: PRNGKeyArray) -> Array:
        which, size = jax.random.split(key)
        draw = jax.random.normal if self.amplitude == "normal" else jax.random.rademacher
        z = draw(size, (), dtype=theta.dtype)
        seen = jax.nn.one_hot(jax.random.randint(which, (), 0, theta.size), theta.size, dtype=theta.dtype)
        return seen * self.curvatures * z**2 * theta


@implements("M18.23")
def coordinate_least_squares(
    curvatures: Float[ArrayLike, "d"], start: Float[ArrayLike, "d"] | None = None, *, amplitude: str = "normal"
) -> CoordinateLeastSquares:
    r"""$f(\theta)=\frac1{2d}\sum_ih_i\theta_i^2$, seen through samples $x=\sqrt{h_i}\,z\,e_i$ that 0 fits exactly.

    The amplitude $z$ is normal or a sign; without noise in it every visit shows the true curvature.
    """
    dims = {}
    h = positive("curvatures", real("curvatures", curvatures, "d", dims))
    start = jnp.ones_like(h) if start is None else real("start", start, "d", dims)
    one_of("amplitude", amplitude, tuple(FOURTH_MOMENT))
    zeros = jnp.zeros_like(h)

    def value(theta, h):
        return 0.5 * jnp.mean(h * theta**2)

    return CoordinateLeastSquares(
        value,
        (h,),
        start,
        L=h.max() / h.size,
        mu=h.min() / h.size,
        pl=h.min() / h.size,
        minimum=zeros.sum(),
        minimiser=zeros,
        curvatures=h,
        amplitude=amplitude,
    )


@implements("M18.23")
def second_moment_matrix(
    method: str,
    step: Float[ArrayLike, "..."],
    momentum: Float[ArrayLike, "..."],
    curvature: Float[ArrayLike, "..."],
    *,
    share: Float[ArrayLike, "..."],
    fourth: Float[ArrayLike, "..."],
    compensation: Float[ArrayLike, "..."] = 0.0,
) -> Array:
    r"""$\mathbb E[A\otimes A]$ of one coordinate, shape (..., 4, 4): with probability `share` its slope is
    $hz^2$ times its value, with $\mathbb Ez^2=1$ and $\mathbb Ez^4=$ `fourth`, otherwise 0.

    The state is $(\theta_k,\theta_k-\theta_{k-1})$ for heavy ball and $(u_k,u_k-\theta_k)$, with the point $u_k$ of the
    gradient, for Nesterov and MaSS: differences, so that nothing small comes from a cancellation. Momentum 0
    is plain stochastic gradient descent, share and fourth moment 1 the full gradient.
    """
    one_of("method", method, METHODS)
    eta, rho = positive("step", real("step", step)), within("momentum", real("momentum", momentum), 0.0, 1.0)
    h, fourth = positive("curvature", real("curvature", curvature)), within("fourth", real("fourth", fourth), 1.0)
    share = within("share", real("share", share), 0.0, 1.0, open="low")
    back = within("compensation", real("compensation", compensation), 0.0)
    eta, rho, h, share, fourth, back = jnp.broadcast_arrays(eta, rho, h, share, fourth, back)
    one, zero = jnp.ones_like(eta), jnp.zeros_like(eta)
    # A = at_rest + h z^2 force
    at_rest = _matrix(one, rho, zero, rho)
    if method == "heavy ball":
        force = _matrix(-eta, zero, -eta, zero)
    else:
        back = back if method == "mass" else zero
        force = _matrix(back - (1 + rho) * eta, zero, back - rho * eta, zero)
    mean, square = (share * h)[..., None, None], (share * h**2 * fourth)[..., None, None]
    cross = _kron(at_rest, force) + _kron(force, at_rest)
    return _kron(at_rest, at_rest) + mean * cross + square * _kron(force, force)


def spectral_radius_by_squaring(matrix: Float[ArrayLike, "... d d"], *, squarings: int = 40) -> Array:
    r"""The largest modulus of an eigenvalue, by repeated squaring, $\rho(A)=\lim\|A^{2^j}\|^{2^{-j}}$; shape (...).

    After $j$ squarings the error is about $2j\,2^{-j}$, and the rounding times how far powers of the matrix outgrow
    their spectral radius: balance it first. Next to a matrix that cannot be diagonalised about six digits are right.
    """
    matrix = real("matrix", matrix, "... d d")
    squarings = whole("squarings", squarings)

    def square(j, state):
        power, log = state
        size = jnp.max(jnp.abs(power), axis=(-2, -1))
        power = power / jnp.where(size > 0, size, 1.0)[..., None, None]
        return _squared(power), log + jnp.log(size) * 0.5**j

    start = jnp.zeros(matrix.shape[:-2], matrix.dtype)
    power, log = jax.lax.fori_loop(0, squarings, square, (matrix, start))
    size = jnp.max(jnp.abs(power), axis=(-2, -1))
    return jnp.exp(log + jnp.log(size) * 0.5**squarings)


@implements("M18.23")
def contraction(
    method: str,
    step: Scalar,
    momentum: Scalar,
    curvatures: Float[ArrayLike, "d"],
    *,
    amplitude: str = "normal",
    compensation: Scalar = 0.0,
    squarings: int = 40,
) -> Float[Array, ""]:
    """The factor per step of the expected loss on `coordinate_least_squares`, in the long run: the worst
    coordinate's.
    """
    h = real("curvatures", curvatures, "d")
    fourth = FOURTH_MOMENT[one_of("amplitude", amplitude, tuple(FOURTH_MOMENT))]
    eta, rho, back = (jnp.asarray(a)[..., None] for a in (step, momentum, compensation))
    matrices = second_moment_matrix(method, eta, rho, h, share=1 / h.size, fourth=fourth, compensation=back)
    # measured in the speed of a swing the differences are as large as the point: then no power grows before it shrinks
    speed = jnp.clip(jnp.maximum(1 - rho, jnp.sqrt(eta * h / h.size)), jnp.finfo(h.dtype).eps, 1.0)
    one = jnp.ones_like(speed)
    scale = jnp.stack([one, speed, speed, speed**2], -1)
    balanced = matrices * scale[..., None, :] / scale[..., :, None]
    return spectral_radius_by_squaring(balanced, squarings=squarings).max(-1)


class Best(NamedTuple):
    """The least factor per step that a choice of step and momentum gives, and that choice."""

    factor: jax.Array
    step: jax.Array
    momentum: jax.Array

    __repr__ = shown


@implements("M18.23")
def best_contraction(method: str, curvatures: Float[ArrayLike, "d"], *, amplitude: str = "normal") -> Best:
    r"""The best step and momentum of heavy ball or Nesterov (`"sgd"`: the best step alone).

    For every $\rho$ the best $\frac\eta{1-\rho}$, by a grid that follows its best point and closes in on it; over
    $\log(1-\rho)$ likewise.
    """
    one_of("method", method, ("sgd", "heavy ball", "nesterov"))
    h = positive("curvatures", real("curvatures", curvatures, "d"))
    name = "heavy ball" if method == "sgd" else method
    # a window wide enough for condition numbers up to a million
    wide = jnp.log(jnp.asarray(1e6, h.dtype)) / 2

    def steps(log_total, rest):
        return jnp.exp(log_total) * rest / h.max()

    def best_step(log_rest):
        rest = jnp.exp(jnp.minimum(log_rest, 0.0))

        def factor(log_total):
            return contraction(name, steps(log_total, rest), 1 - rest, h, amplitude=amplitude, squarings=32)

        return _close_in(factor, jnp.zeros_like(wide), wide, 7, 17)

    middle = jnp.zeros_like(wide)
    if method != "sgd":
        middle, _ = _close_in(lambda y: jax.vmap(lambda y: best_step(y)[1])(y), -wide, wide, 9, 10)
    log_total, factor = best_step(middle)
    rest = jnp.exp(jnp.minimum(middle, 0.0))
    return Best(factor, steps(log_total, rest), 1 - rest)


def _close_in(values, centre, half, grid, rounds):
    """The least of `values` about `centre`: the window moves to its best point and shrinks to two fifths a round."""
    offsets = jnp.linspace(-1.0, 1.0, grid, dtype=half.dtype)

    def closer(centre, half):
        x = centre + half * offsets
        found = values(x)
        at = jnp.argmin(found)
        return x[at], found[at]

    centre, found = jax.lax.scan(closer, centre, half * 0.4 ** jnp.arange(rounds, dtype=half.dtype))
    return centre, found[-1]


def _matrix(a, b, c, d):
    return jnp.stack([jnp.stack([a, b], -1), jnp.stack([c, d], -1)], -2)


def _squared(a):
    if a.shape[-1] > 4:
        return a @ a
    # a batch of tiny products is ten times faster as a fused sum of outer products
    return sum(a[..., :, i, None] * a[..., None, i, :] for i in range(a.shape[-1]))


def _kron(a, b):
    product = jnp.einsum("...ij,...kl->...ikjl", a, b)
    return product.reshape(*product.shape[:-4], 4, 4)
