r"""Least squares: the loss, its moments, its minimiser, and the steps at which gradient descent finds it.

A parameter vector is $\theta=(w_1,\dots,w_d,b)$; features are (n, d), or (n,) for a single feature.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, positive, real, whole
from corollary.catalog import implements
from corollary.linear._shapes import extended, features, parameters
from corollary.optimization.gradient_descent import quadratic_descent


class Moments(NamedTuple):
    r"""The five averages that the loss of one feature depends on."""

    x: jax.Array
    y: jax.Array
    xx: jax.Array
    xy: jax.Array
    yy: jax.Array

    __repr__ = shown


@implements("M02.03")
def moments(x: Float[ArrayLike, "n"], y: Float[ArrayLike, "n"]) -> Moments:
    r"""$\bar x,\ \bar y,\ \overline{x^2},\ \overline{xy},\ \overline{y^2}$ of one feature and one label."""
    x, y = _pairs(x, y)
    return Moments(x.mean(), y.mean(), (x * x).mean(), (x * y).mean(), (y * y).mean())


@implements("M02.05")
def moment_matrix(x: Float[ArrayLike, "n *d"]) -> Float[Array, "_ _"]:
    r"""$A=\overline{\tilde x\tilde x^\top}$ with $\tilde x=(x,1)$; half the Hessian of the average squared loss."""
    x = extended(features(x, {}))
    return x.T @ x / x.shape[0]


@implements("M02.07")
def moment_eigenvalues(x: Float[ArrayLike, "n"]) -> Float[Array, "_"]:
    r"""$(\lambda_-,\lambda_+)$ of $A$ for one feature, by (2.10).

    $\lambda_+=\frac12\{\overline{x^2}+1+\sqrt{(\overline{x^2}-1)^2+4\bar x^2}\}$. The small one is taken from
    $\lambda_-\lambda_+=\det A=\overline{(x-\bar x)^2}$, because the difference of two nearly equal numbers that the
    printed formula asks for loses it when the feature hardly varies.
    """
    x = real("x", x, "n")
    mean, square = x.mean(), (x * x).mean()
    large = 0.5 * (square + 1 + jnp.hypot(square - 1, 2 * mean))
    return jnp.stack([((x - mean) ** 2).mean() / large, large])


@implements("M02.03", "B05.01")
def squared_error(y: Float[ArrayLike, "..."], prediction: Float[ArrayLike, "..."]) -> Float[Array, ""]:
    r"""$\ell_y(y')=\|y-y'\|^2$ for one label: a number or a vector."""
    y, prediction = real("y", y), real("prediction", prediction)
    if y.ndim > 1 or y.shape != prediction.shape:
        raise ValueError(
            f"y and prediction must be single labels of the same shape, got {y.shape} and {prediction.shape}."
        )
    return jnp.sum((y - prediction) ** 2)


@implements("M02.03")
def squared_loss(
    theta: Float[ArrayLike, "d+1"], x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "n"]
) -> Float[Array, ""]:
    r"""$\Lambda(\theta)=\frac1n\sum(y-w\cdot x-b)^2$, as a sum over the data."""
    theta, x, y = _problem(theta, x, y)
    return jnp.mean((y - x @ theta) ** 2)


@implements("M02.03")
def squared_loss_by_moments(theta: Float[ArrayLike, "2"], m: Moments) -> Float[Array, ""]:
    r"""The same loss for one feature, from its five moments: the data are not needed any more."""
    w, b = real("theta", theta, "2")
    if not isinstance(m, Moments):
        raise TypeError(f"m must be Moments, as moments(x, y) returns them, got {type(m).__name__}.")
    return m.yy - 2 * w * m.xy - 2 * b * m.y + w * w * m.xx + 2 * w * b * m.x + b * b


@implements("M02.05")
def squared_point_gradients(
    theta: Float[ArrayLike, "d+1"], x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "n"]
) -> Float[Array, "n _"]:
    r"""$\nabla\lambda_{(x,y)}(\theta)=-2(y-w\cdot x-b)(x,1)$ of every datapoint (2.7): shape (n, d + 1)."""
    theta, x, y = _problem(theta, x, y)
    return -2 * (y - x @ theta)[:, None] * x


@implements("M02.05")
def squared_gradient(
    theta: Float[ArrayLike, "d+1"], x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "n"]
) -> Float[Array, "_"]:
    r"""$\nabla\Lambda(\theta)=2A\theta-2\,\overline{y\tilde x}$ (2.8)."""
    theta, x, y = _problem(theta, x, y)
    n = x.shape[0]
    return 2 * (x.T @ x / n) @ theta - 2 * (x.T @ y / n)


@implements("M02.13")
def ols_1d(x: Float[ArrayLike, "n"], y: Float[ArrayLike, "n"]) -> Float[Array, "_"]:
    r"""The minimiser $(w^*,b^*)$ for one feature: $w^*=\mathrm{cov}(x,y)/\mathrm{var}(x)$, $b^*=\bar y-w^*\bar x$."""
    x, y = _pairs(x, y)
    if concrete(x) and np.ptp(np.asarray(x)) == 0:
        raise ValueError("x must not be constant: every line through the mean label fits equally well.")
    centred = x - x.mean()
    w = jnp.sum(centred * (y - y.mean())) / jnp.sum(centred**2)
    return jnp.stack([w, y.mean() - w * x.mean()])


@implements("M02.08")
def critical_step(x: Float[ArrayLike, "n *d"]) -> Float[Array, ""]:
    r"""$1/\lambda_+$: below it gradient descent on $\Lambda$ converges from every start, above it almost none.

    In float32 where `x` has half precision.
    """
    return 1 / _spectrum(x)[-1]


@implements("M02.09")
def safe_step(x: Float[ArrayLike, "n *d"]) -> Float[Array, ""]:
    r"""$1/(\overline{|x|^2}+1)$, never above the critical step and never below half of it for one feature."""
    x = features(x, {})
    return 1 / (jnp.mean(jnp.sum(x * x, axis=1)) + 1)


@implements("M02.08")
def contraction_factor(x: Float[ArrayLike, "n *d"], step: Scalar) -> Float[Array, ""]:
    r"""$\rho(\eta)=\max_i|1-2\eta\lambda_i|$, by which each step multiplies the distance to the minimiser at worst.

    In float32 where `x` has half precision.
    """
    step = positive("step", real("step", step, ""))
    return jnp.max(jnp.abs(1 - step * (2 * _spectrum(x))))


@implements("M02.06")
def descent_path(
    x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "n"], start: Float[ArrayLike, "d+1"], step: Scalar, steps: int
) -> Float[Array, "_ _"]:
    r"""Gradient descent on $\Lambda$ without iterating: $\theta_k=\theta^*+(I-2\eta A)^k(\theta_0-\theta^*)$.

    If the features are collinear, $\theta^*$ is any minimiser; the path does not depend on which.
    """
    start, x, y = _problem(start, x, y, "start")
    minimiser = jnp.linalg.lstsq(x, y)[0]
    return quadratic_descent(2 * x.T @ x / x.shape[0], start, step, steps, minimiser)


@implements("M02.02", "M02.12", "E02.01")
class LinearRegression(eqx.Module):
    r"""$m(x;\theta)=Wx+b$ from $\mathbb R^F$ to $\mathbb R^L$, called on one example; `vmap` it over rows."""

    weight: jax.Array
    bias: jax.Array

    def __init__(self, features: int, labels: int = 1, *, key: PRNGKeyArray):
        features, labels = whole("features", features), whole("labels", labels)
        bound = features**-0.5
        weight_key, bias_key = jax.random.split(key)
        self.weight = jax.random.uniform(weight_key, (labels, features), minval=-bound, maxval=bound)
        self.bias = jax.random.uniform(bias_key, (labels,), minval=-bound, maxval=bound)

    @classmethod
    def of(cls, weight: Float[ArrayLike, "L F"], bias: Float[ArrayLike, "L"]) -> "LinearRegression":
        """The model with these parameters: `weight` (L, F) and `bias` (L,)."""
        dims = {}
        weight, bias = real("weight", weight, "L F", dims), real("bias", bias, "L", dims)
        blank = cls(dims["F"], dims["L"], key=jax.random.key(0))
        return eqx.tree_at(lambda model: (model.weight, model.bias), blank, (weight, bias))

    def __call__(self, x: Float[ArrayLike, "_"]) -> Float[Array, "_"]:
        x = real("x", x, str(self.weight.shape[1]), finite=False)
        return self.weight @ x + self.bias


@implements("M01.08", "M02.02", "E02.01", "E02.02")
def fit_least_squares(x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "..."]) -> LinearRegression:
    """The `LinearRegression` of least average squared error; of least norm if several have it.

    `y` is (n,) for one label or (n, L).
    """
    dims = {}
    x, y = extended(features(x, dims)), real("y", y)
    if y.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n,) or (n, L), got {y.shape}.")
    y = real("y", y[:, None] if y.ndim == 1 else y, "n L", dims)
    theta = jnp.linalg.lstsq(x, y)[0]
    return LinearRegression.of(theta[:-1].T, theta[-1])


def _pairs(x, y):
    dims = {}
    return real("x", x, "n", dims), real("y", y, "n", dims)


def _problem(theta, x, y, name="theta"):
    dims = {}
    x = features(x, dims)
    return parameters(theta, dims, name), extended(x), real("y", y, "n", dims)


def _spectrum(x):
    x = features(x, {})
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))  # half precision ends at 65504, squares of 256
    return moment_eigenvalues(x[:, 0]) if x.shape[1] == 1 else jnp.linalg.eigvalsh(moment_matrix(x))
