"""Problems with known constants: quadratics, least squares, ridge logistic loss, and instances that attain bounds."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements
from corollary.optimization.problem import Problem


@implements("T02.18")
def quadratic(
    spectrum: Float[ArrayLike, "d"],
    start: Float[ArrayLike, "d"] | None = None,
    *,
    minimiser: Float[ArrayLike, "d"] | None = None,
    rotation: Float[ArrayLike, "d d"] | None = None,
) -> Problem:
    r"""$f(\theta)=\frac12(\theta-\theta^*)^\top H(\theta-\theta^*)$ with the given eigenvalues of $H$.

    `rotation` is an orthogonal matrix whose columns are the eigenvectors (the axes unless given). Negative eigenvalues
    are allowed: then nothing is convex and there is no minimum.

    >>> problem = quadratic([1.0, 4.0])
    >>> float(problem.L), float(problem.mu)
    (4.0, 1.0)
    """
    dims = {}
    spectrum = real("spectrum", spectrum, "d", dims)
    zeros = jnp.zeros_like(spectrum)
    start = zeros + 1 if start is None else real("start", start, "d", dims)
    minimiser = zeros if minimiser is None else real("minimiser", minimiser, "d", dims)
    rotation = (
        jnp.eye(spectrum.size, dtype=spectrum.dtype) if rotation is None else real("rotation", rotation, "d d", dims)
    )
    hessian = (rotation * spectrum) @ rotation.T

    def value(theta, hessian, centre):
        return 0.5 * (theta - centre) @ hessian @ (theta - centre)

    least = spectrum.min()
    least_positive = jnp.min(jnp.where(spectrum > 0, spectrum, jnp.inf))
    return Problem(
        value,
        (hessian, minimiser),
        start,
        L=jnp.abs(spectrum).max(),
        mu=least,
        pl=least_positive,
        minimum=zeros.sum(),
        minimiser=minimiser,
    )


def random_quadratic(dim: int, condition: Scalar, *, key: PRNGKeyArray, L: Scalar = 1.0) -> Problem:
    r"""A quadratic with eigenvalues spaced geometrically from $L/\kappa$ to $L$ along random axes, from a random
    start.
    """
    dim = whole("dim", dim, 2)
    condition, L = within("condition", real("condition", condition, ""), 1.0), positive("L", real("L", L, ""))
    axes_key, start_key, centre_key = jax.random.split(key, 3)
    spectrum = L * condition ** (-jnp.linspace(0.0, 1.0, dim, dtype=L.dtype))
    rotation = jnp.linalg.qr(jax.random.normal(axes_key, (dim, dim), L.dtype))[0]
    start, centre = jax.random.normal(start_key, (dim,), L.dtype), jax.random.normal(centre_key, (dim,), L.dtype)
    return quadratic(spectrum, start, minimiser=centre, rotation=rotation)


def least_squares(
    x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n"], start: Float[ArrayLike, "d"] | None = None
) -> Problem:
    r"""$f(\theta)=\frac1{2n}\|X\theta-y\|^2$; PL with the least positive eigenvalue of $X^\top X/n$, full rank or
    not.
    """
    dims = {}
    x, y = real("x", x, "n d", dims), real("y", y, "n", dims)
    start = jnp.zeros(x.shape[1], x.dtype) if start is None else real("start", start, "d", dims)
    spectrum = jnp.linalg.eigvalsh(x.T @ x / x.shape[0])
    minimiser = jnp.linalg.lstsq(x, y)[0]

    def value(theta, x, y):
        return 0.5 * jnp.mean((x @ theta - y) ** 2)

    rounding = x.shape[1] * jnp.finfo(x.dtype).eps * spectrum[-1]
    pl = jnp.min(jnp.where(spectrum > rounding, spectrum, jnp.inf))
    return Problem(
        value,
        (x, y),
        start,
        L=spectrum[-1],
        mu=jnp.maximum(spectrum[0], 0),
        pl=pl,
        minimum=value(minimiser, x, y),
        minimiser=minimiser,
    )


def ridge_logistic(
    x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n"], penalty: Scalar, start: Float[ArrayLike, "d"] | None = None
) -> Problem:
    r"""$f(\theta)=\frac1n\sum\ln(1+e^{-(2y-1)x\cdot\theta})+\frac C2\|\theta\|^2$ without bias, $y\in\{0,1\}$, $C>0$.

    $L=\lambda_{\max}(X^\top X/n)/4+C$ and $\mu=C$ are bounds; the minimiser is Newton's.
    """
    dims = {}
    x, y = real("x", x, "n d", dims), within("y", real("y", y, "n", dims), 0.0, 1.0)
    penalty = positive("penalty", real("penalty", penalty, ""))
    start = jnp.zeros(x.shape[1], x.dtype) if start is None else real("start", start, "d", dims)

    def value(theta, x, y, penalty):
        z = x @ theta
        return jnp.mean(y * jax.nn.softplus(-z) + (1 - y) * jax.nn.softplus(z)) + 0.5 * penalty * theta @ theta

    def newton(_, theta):
        return theta - jnp.linalg.solve(jax.hessian(value)(theta, x, y, penalty), jax.grad(value)(theta, x, y, penalty))

    # the penalty makes the full Newton step safe near the origin; fifty of them are far more than it takes
    minimiser = jax.lax.fori_loop(0, 50, newton, jnp.zeros(x.shape[1], x.dtype))
    L = jnp.linalg.eigvalsh(x.T @ x / x.shape[0])[-1] / 4 + penalty
    return Problem(
        value,
        (x, y, penalty),
        start,
        L=L,
        mu=penalty,
        pl=penalty,
        minimum=value(minimiser, x, y, penalty),
        minimiser=minimiser,
    )


def huber(threshold: Scalar, start: Scalar = 1.0, *, L: Scalar = 1.0) -> Problem:
    r"""$\frac L2\theta^2$ for $|\theta|\le\delta$, $L\delta|\theta|-\frac L2\delta^2$ beyond: convex, $L$-smooth, on
    the line.

    With $\delta=\frac{R}{2k+1}$ and start $R$, gradient descent with step $1/L$ is as slow at step $k$ as any convex
    $L$-smooth function can make it.
    """
    threshold, L = positive("threshold", real("threshold", threshold, "")), positive("L", real("L", L, ""))
    start = real("start", start, "")

    def value(theta, threshold, L):
        size = jnp.abs(theta)
        return L * jnp.where(size <= threshold, 0.5 * theta**2, threshold * size - 0.5 * threshold**2)

    zero = jnp.zeros_like(start)
    return Problem(value, (threshold, L), start, L=L, mu=zero, minimum=zero, minimiser=zero)


def wavy(start: Scalar = 12.3) -> Problem:
    r"""$\theta^2+3\sin^2\theta$ on the line: not convex, but Polyak-Łojasiewicz with $\mu\ge\frac1{32}$ (0.1755),
    $L=8$.
    """
    start = real("start", start, "")
    zero = jnp.zeros_like(start)
    return Problem(
        lambda theta: theta**2 + 3 * jnp.sin(theta) ** 2,
        (),
        start,
        L=zero + 8,
        pl=zero + 0.1755,
        minimum=zero,
        minimiser=zero,
    )
