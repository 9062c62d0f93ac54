r"""Softmax regression: class probabilities $S_{softmax}(Wx+b)$, the loss and its derivatives, and its fit.

Parameters are one matrix $\Theta=(W\mid b)$ of shape (J, d + 1), a row $(w_{j1},\dots,w_{jd},b_j)$ for each class.
Labels are integers `0..J-1`, or probability vectors (n, J). `penalty` adds $C\|\Theta\|^2$, biases included.
"""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, Num, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import concrete, labels, real, whole, within
from corollary.catalog import implements
from corollary.foundations.entropy import cross_entropy
from corollary.linear._newton import Fit, newton, scores
from corollary.linear._shapes import extended, features


@implements("M03.23", "M03.24", "M07.01")
def softmax_loss(
    theta: Float[ArrayLike, "J p"], x: Float[ArrayLike, "n *d"], y: Num[ArrayLike, "..."], penalty: Scalar = 0.0
) -> Float[Array, ""]:
    r"""$\frac1n\sum-\ln m(x;\Theta)_y+C\|\Theta\|^2$; cross-entropy for soft labels."""
    theta, x, y = _problem(theta, x, y)
    return _mean_loss(x @ theta.T, y) + _penalty(penalty) * jnp.sum(theta**2)


@implements("M03.23", "B02.16", "M07.08", "M07.29")
def softmax_gradient(
    theta: Float[ArrayLike, "J p"], x: Float[ArrayLike, "n *d"], y: Num[ArrayLike, "..."], penalty: Scalar = 0.0
) -> Float[Array, "J p"]:
    r"""$\frac1n\sum(p-y)\tilde x^\top+2C\Theta$, of the shape of $\Theta$."""
    theta, x, y = _problem(theta, x, y)
    return _residual(jax.nn.softmax(x @ theta.T), y).T @ x / x.shape[0] + 2 * _penalty(penalty) * theta


@implements("M03.23")
def softmax_hessian(
    theta: Float[ArrayLike, "J p"], x: Float[ArrayLike, "n *d"], penalty: Scalar = 0.0
) -> Float[Array, "_ _"]:
    r"""$\frac1n\sum(\mathrm{diag}(p)-pp^\top)\otimes\tilde x\tilde x^\top+2C$ for the rows of $\Theta$ laid end to end.

    Without a penalty it has at least d + 1 zero eigenvalues: adding one vector to all rows changes no probability.
    """
    dims = {}
    x = extended(features(x, dims))
    theta = _parameters(theta, dims)
    p = jax.nn.softmax(x @ theta.T)
    return _curvature(_spread(p), x) + 2 * _penalty(penalty) * jnp.eye(theta.size, dtype=theta.dtype)


@implements("M03.23")
def softmax_smoothness(x: Float[ArrayLike, "n *d"], penalty: Scalar = 0.0) -> Float[Array, ""]:
    r"""$L=\frac12\lambda_+(A)+2C$, since $\mathrm{diag}(p)-pp^\top\preceq\frac12I$."""
    x = extended(features(x, {}))
    return jnp.linalg.eigvalsh(x.T @ x / x.shape[0])[-1] / 2 + 2 * _penalty(penalty)


@implements("M03.23", "M03.27")
def fit_softmax(
    x: Float[ArrayLike, "n *d"],
    y: Int[ArrayLike, "..."],
    classes: int,
    *,
    penalty: Scalar = 0.0,
    reference: int | None = None,
    start: Float[ArrayLike, "classes d+1"] | None = None,
    steps: int = 200,
    tolerance: Scalar | None = None,
) -> Fit:
    r"""Minimise the loss by damped Newton; `theta` has shape (classes, d + 1).

    Without a penalty the minimiser is known up to a vector added to all rows: the one returned has rows that sum to
    zero, or with `reference` a zero row for that class. With a penalty it is unique, and `reference` must be None.
    `converged` is False where no minimiser exists, as in `fit_newton`.

    >>> fit_softmax(x, [0, 1, 2, 1], 3, penalty=0.1).theta.shape
    (3, 4)
    """
    classes, dims = whole("classes", classes, 2), {}
    d = features(x, dims).shape[1]
    theta = jnp.zeros((classes, d + 1)) if start is None else real("start", start, f"{classes} {d + 1}")
    theta, x, y = _problem(theta, x, y)
    dtype = jnp.result_type(x, y)
    theta, x, y = (a.astype(dtype) for a in (theta, x, y))
    if reference is not None:
        reference = whole("reference", reference, 0, classes - 1)
        if not concrete(penalty) or np.any(np.asarray(penalty) > 0):
            raise ValueError("reference must be None with a penalty: the penalty already picks one minimiser.")
    penalty, steps = _penalty(penalty).astype(dtype), whole("steps", steps)
    tolerance = jnp.sqrt(jnp.finfo(dtype).eps) if tolerance is None else real("tolerance", tolerance, "")
    within("tolerance", tolerance, 0.0, 1.0, open="both")
    theta, used, converged = _newton_fit(x, y, penalty, theta, steps, tolerance.astype(dtype))
    if reference is not None:
        theta = theta - theta[reference]
    slope = softmax_gradient(theta, x[:, :-1], y, penalty)
    return Fit(theta, softmax_loss(theta, x[:, :-1], y, penalty), jnp.linalg.norm(slope), used, converged)


@implements("M03.23", "B02.15", "M07.01")
class SoftmaxRegression(eqx.Module):
    r"""$m(x;\theta)=S_{softmax}(Wx+b)$, the class probabilities, called on one example; `vmap` it over rows."""

    weight: jax.Array
    bias: jax.Array

    def __init__(self, features: int, classes: int, *, key: PRNGKeyArray):
        features, classes = whole("features", features), whole("classes", classes, 2)
        bound = features**-0.5
        weight_key, bias_key = jax.random.split(key)
        self.weight = jax.random.uniform(weight_key, (classes, features), minval=-bound, maxval=bound)
        self.bias = jax.random.uniform(bias_key, (classes,), minval=-bound, maxval=bound)

    @classmethod
    def of(cls, theta: Float[ArrayLike, "J p"]) -> "SoftmaxRegression":
        """The model with the parameter matrix `theta` (J, d + 1), as `fit_softmax` returns it."""
        theta = real("theta", theta, "J p")
        classes, width = theta.shape
        if width < 2:
            raise ValueError(f"theta must hold at least one weight and the bias in each row, got shape {theta.shape}.")
        blank = cls(width - 1, classes, key=jax.random.key(0))
        return eqx.tree_at(lambda model: (model.weight, model.bias), blank, (theta[:, :-1], theta[:, -1]))

    @property
    def theta(self) -> Float[Array, "_ _"]:
        return jnp.concatenate([self.weight, self.bias[:, None]], axis=1)

    def logits(self, x: Float[ArrayLike, "_"]) -> Float[Array, "_"]:
        x = real("x", x, str(self.weight.shape[1]), finite=False)
        return self.weight @ x + self.bias

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return jax.nn.softmax(self.logits(x))


def _mean_loss(z, y):
    # -ln p_k = ln(1 + sum of e^(z_j - z_k) over the other j), which keeps losses far below machine precision.
    others = jnp.where(jnp.eye(z.shape[1], dtype=bool), -jnp.inf, z[:, None, :] - z[:, :, None])
    return jnp.mean(jnp.sum(y * jax.nn.softplus(jax.nn.logsumexp(others, axis=2)), axis=1))


def _residual(p, y):
    # p - y as a sum of p_j y_k - y_j p_k: a saturated p_j = 1 - (small) keeps its small part.
    return jnp.sum(p[:, :, None] * y[:, None, :] - y[:, :, None] * p[:, None, :], axis=2)


def _spread(p):
    # diag(p) - pp' with the diagonal p_j (1 - p_j) as minus the sum of its row, for the same reason.
    apart = 1 - jnp.eye(p.shape[1], dtype=p.dtype)
    between = p[:, :, None] * p[:, None, :] * apart
    return between.sum(axis=2)[:, :, None] * (1 - apart) - between


def _curvature(spread, x):
    n, size = x.shape[0], spread.shape[1] * x.shape[1]
    return jnp.einsum("nij,na,nb->iajb", spread, x, x).reshape(size, size) / n


def _problem(theta, x, y):
    dims = {}
    x = features(x, dims)
    theta = _parameters(theta, dims)
    y = jnp.asarray(y)
    if y.ndim == 2:
        y = real("y", y, f"n {dims['J']}", dims)
        cross_entropy(y, y)  # refuses rows that are not probability vectors
    else:
        y = jax.nn.one_hot(labels("y", y, dims["J"], "n", dims), dims["J"], dtype=x.dtype)
    return theta, extended(x), y


def _parameters(theta, dims):
    theta, width = real("theta", theta, "J p", dims), dims["d"] + 1
    if theta.shape[1] != width or theta.shape[0] < 2:
        raise ValueError(f"theta must have shape (J, {width}), J >= 2 rows of weights and bias, got {theta.shape}.")
    return theta


def _penalty(penalty):
    return within("penalty", real("penalty", penalty, ""), 0.0)


@partial(jax.jit, static_argnames="steps")
def _newton_fit(x, y, penalty, start, steps, tolerance):
    z, change = scores(x)
    classes, width = start.shape
    # A vector added to all rows changes no probability and only adds to the penalty, so the rows of the minimiser sum
    # to zero. Columns orthonormal to the ones span what is left.
    contrasts = np.linalg.qr(np.concatenate([np.ones((classes, 1)), np.eye(classes)[:, 1:]], axis=1))[0][:, 1:]
    contrasts = jnp.asarray(contrasts, x.dtype)
    quadratic = penalty * change.T @ change
    full_penalty = 2 * jnp.kron(jnp.eye(classes - 1, dtype=x.dtype), quadratic)

    def rows(phi):
        return phi.reshape(classes - 1, width)

    def logits(phi):
        return z @ rows(phi).T @ contrasts.T

    def value(phi):
        return _mean_loss(logits(phi), y) + jnp.sum((rows(phi) @ quadratic) * rows(phi))

    def gradient(phi):
        slope = (_residual(jax.nn.softmax(logits(phi)), y) @ contrasts).T @ z / z.shape[0]
        return slope.ravel() + full_penalty @ phi

    def hessian(phi):
        spread = contrasts.T @ _spread(jax.nn.softmax(logits(phi))) @ contrasts
        return _curvature(spread, z) + full_penalty

    def move(direction):
        change_of_logits = logits(direction)
        return jnp.max(jnp.max(change_of_logits, axis=1) - jnp.min(change_of_logits, axis=1))

    phi = jnp.linalg.solve(change, (contrasts.T @ start).T).T.ravel()
    phi, used, converged = newton(value, gradient, hessian, move, phi, steps, tolerance)
    return contrasts @ rows(phi) @ change.T, used, converged
