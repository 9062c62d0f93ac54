r"""A single neuron as a landscape: $y=\sigma(w_*^\top x)+\varepsilon$ with known increasing $\sigma$ and
$\mathbb E[\varepsilon\mid x]=0$.

Expectations are weighted sums over points: a data set with equal weights, or nodes of a quadrature that make
the sum an integral over Gaussian inputs. So the same functions give the empirical and the population loss.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements
from corollary.nets import ActivationFunction


@implements("T06.11")
class GLM(eqx.Module):
    r"""$y=\sigma(w_*^\top x)+\varepsilon$ with $\varepsilon=$ `noise` $\cdot\,\xi$, $\xi$ normal."""

    w_star: jax.Array
    noise: jax.Array
    activation: ActivationFunction = eqx.field(static=True)

    def __init__(self, activation: ActivationFunction, w_star: Float[ArrayLike, "d"], noise: Scalar = 0.0):
        self.activation = _activation(activation)
        self.w_star = real("w_star", w_star, "d")
        self.noise = within("noise", real("noise", noise, ""), 0.0)

    def mean(self, x: Float[ArrayLike, "n d"]) -> Float[Array, "n"]:
        r"""$\mathbb E[y\mid x]=\sigma(w_*^\top x)$ for inputs (n, d)."""
        return self.activation(real("x", x, "n d", {"d": self.w_star.size}) @ self.w_star)

    def sample(self, x: Float[ArrayLike, "..."], *, key: PRNGKeyArray) -> Float[Array, "..."]:
        """Labels for inputs (n, d)."""
        mean = self.mean(x)
        return mean + self.noise * jax.random.normal(key, mean.shape, mean.dtype)


@implements("T06.11")
def span_quadrature(
    w: Float[ArrayLike, "d"],
    w_star: Float[ArrayLike, "d"],
    nodes: int = 80,
    covariance: Float[ArrayLike, "d d"] | None = None,
) -> tuple[Float[Array, "_ _"], Float[Array, "_"]]:
    r"""Points (nodes², d) and weights (nodes²,) whose weighted sums are the expectations, over
    $x\sim N(0,\Sigma)$, of functions of $(w^\top x,w_*^\top x)$, and of such functions times $x$.

    Gauss-Hermite in the plane that $w$ and $w_*$ span: what is orthogonal to it has mean zero. $\Sigma=I$
    unless `covariance` is given. For logistic and tanh and arguments of standard deviation up to 1, 80 nodes
    leave 1e-9.
    """
    dims = {}
    w, w_star = real("w", w, "d", dims), real("w_star", w_star, "d", dims)
    nodes = whole("nodes", nodes, 2, 200)
    half = _root(covariance, dims, w.dtype)
    # x = S z with z standard: the plane in which z matters is spanned by S w and S w_*
    first = _unit(half @ w_star)
    target = half @ w
    rest = target - (first @ target) * first
    # of parallel vectors only the rounding is left, which is no direction; twice is orthogonal enough otherwise
    rest = jnp.where(jnp.linalg.norm(rest) > 1e3 * jnp.finfo(w.dtype).eps * jnp.linalg.norm(target), rest, 0)
    rest = _unit(rest)
    second = _unit(rest - (first @ rest) * first)
    t, weight = np.polynomial.hermite_e.hermegauss(nodes)
    weight = weight / weight.sum()
    a, b = (jnp.asarray(g.ravel(), w.dtype) for g in np.meshgrid(t, t, indexing="ij"))
    points = (a[:, None] * first + b[:, None] * second) @ half
    return points, jnp.asarray(np.outer(weight, weight).ravel(), w.dtype)


@implements("T06.11")
def glm_loss(
    activation: Callable,
    w: Float[ArrayLike, "d"],
    x: Float[ArrayLike, "n d"],
    y: Float[ArrayLike, "n"],
    weights: Float[ArrayLike, "..."] | None = None,
) -> Float[Array, ""]:
    r"""$\frac12\mathbb E(y-\sigma(w^\top x))^2$ over inputs (n, d) and labels (n,), with `weights` (n,) or
    the mean.
    """
    activation, w, x, y, weights = _data(activation, w, x, y, weights)
    return 0.5 * weights @ (y - activation(x @ w)) ** 2


@implements("T06.12")
def glm_gradient(
    activation: Callable,
    w: Float[ArrayLike, "d"],
    x: Float[ArrayLike, "n d"],
    y: Float[ArrayLike, "n"],
    weights: Float[ArrayLike, "n"] | None = None,
) -> Float[Array, "_"]:
    r"""$\mathbb E[(\sigma(w^\top x)-y)\sigma'(w^\top x)x]$; with $y=\sigma(w_*^\top x)$ the same for every
    noise of mean zero.
    """
    activation, w, x, y, weights = _data(activation, w, x, y, weights)
    u = x @ w
    return (weights * (activation(u) - y) * activation.prime(u)) @ x


@implements("T06.13")
def glm_correlation(
    activation: Callable,
    w: Float[ArrayLike, "d"],
    w_star: Float[ArrayLike, "_"],
    x: Float[ArrayLike, "n _"],
    weights: Float[ArrayLike, "n"] | None = None,
) -> Float[Array, ""]:
    r"""$\mathbb E[\sigma'(\xi)\sigma'(w^\top x)((w-w_*)^\top x)^2]$ with $\xi$ from the mean value theorem.

    It is $\langle\nabla L(w),w-w_*\rangle\ge0$. Where $\sigma'\ge\gamma$ on the range of both arguments and
    $\mathbb E xx^\top\succeq\lambda I$ it is at least $\gamma^2\lambda\|w-w_*\|^2$: the restricted secant
    inequality.
    """
    dims = {}
    x, w_star = real("x", x, "n d", dims), real("w_star", w_star, "d", dims)
    activation, w, x, _, weights = _data(activation, w, x, jnp.zeros(x.shape[0], x.dtype), weights)
    u, v = x @ w, x @ w_star
    step = u - v
    # sigma'(xi) is the slope of the chord; where the chord has no length its contribution is zero
    chord = jnp.where(step != 0, (activation(u) - activation(v)) / jnp.where(step != 0, step, 1), 0)
    return weights @ (chord * activation.prime(u) * step**2)


@implements("T06.14")
def matching_loss(
    integral: Callable,
    w: Float[ArrayLike, "d"],
    x: Float[ArrayLike, "n d"],
    y: Float[ArrayLike, "n"],
    weights: Float[ArrayLike, "n"] | None = None,
) -> Float[Array, ""]:
    r"""$g(w)=\mathbb E[\tau(w^\top x)-y\,w^\top x]$ with $\tau'=\sigma$, the function `integral`: convex
    where $\sigma$ increases, with $\nabla g(w_*)=0$.

    $\nabla^2g=\mathbb E[\sigma'(w^\top x)xx^\top]$. For $\tau$ the softplus function it is the cross-entropy of
    logistic regression.
    """
    if not callable(integral):
        raise TypeError(f"integral must be a function of a number, got {type(integral).__name__}.")
    _, w, x, y, weights = _data(None, w, x, y, weights)
    u = x @ w
    return weights @ (integral(u) - y * u)


@implements("T06.14")
def glm_tron(
    activation: Callable,
    x: Float[ArrayLike, "n d"],
    y: Float[ArrayLike, "n"],
    start: Float[ArrayLike, "d"],
    *,
    step: Scalar,
    steps: int,
) -> Float[Array, "_ _"]:
    r"""$w\leftarrow w-\eta\,\mathbb E[(\sigma(w^\top x)-y)x]$: gradient descent on the matching loss, without its
    integral. Returns the iterates (steps + 1, d), start included.
    """
    activation, start, x, y, weights = _data(activation, start, x, y, None, "start")
    step, steps = positive("step", real("step", step, "")), whole("steps", steps)

    def advance(w, _):
        w = w - step * ((weights * (activation(x @ w) - y)) @ x)
        return w, w

    _, path = jax.lax.scan(advance, start, length=steps)
    return jnp.concatenate([start[None], path])


def _data(activation, w, x, y, weights, name="w"):
    dims = {}
    if activation is not None:
        _activation(activation)
    x, y, w = real("x", x, "n d", dims), real("y", y, "n", dims), real(name, w, "d", dims)
    if weights is None:
        weights = jnp.full(x.shape[0], 1 / x.shape[0], x.dtype)
    return activation, w, x, y, within("weights", real("weights", weights, "n", dims), 0.0)


def _activation(activation):
    if not isinstance(activation, ActivationFunction):
        raise TypeError(f"activation must be an Activation of corollary.nets, got {type(activation).__name__}.")
    return activation


def _root(covariance, dims, dtype):
    if covariance is None:
        return jnp.eye(dims["d"], dtype=dtype)
    spectrum, axes = jnp.linalg.eigh(real("covariance", covariance, "d d", dims))
    return (axes * jnp.sqrt(jnp.maximum(spectrum, 0))) @ axes.T


def _unit(v):
    length = jnp.linalg.norm(v)
    return v / jnp.where(length > 0, length, 1)
