r"""Logistic regression: $P\{y=1\}=S(w\cdot x+b)$, its loss and derivatives, and its fit.

A parameter vector is $\theta=(w_1,\dots,w_d,b)$; features are (n, d), or (n,) for a single feature. Labels are 0 or 1,
or probabilities between. `penalty` adds $\sum_jC_j\theta_j^2$ (3.16): one number for all parameters, bias included, or
one for each (0 last leaves the bias free).
"""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements
from corollary.foundations.entropy import binary_cross_entropy_prime
from corollary.linear._newton import Fit, newton, newton_direction, scores
from corollary.linear._shapes import extended, features, parameters
from corollary.linear.logistic import logistic_prime
from corollary.optimization import Problem


@implements("T01.02", "M01.13", "M03.07")
def logistic_point_losses(
    theta: Float[ArrayLike, "d+1"], x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "n"]
) -> Float[Array, "n"]:
    r"""$\ln(1+e^{w\cdot x+b})$ for label 0, $\ln(1+e^{-(w\cdot x+b)})$ for label 1, mixed for soft labels: (n,)."""
    theta, x, y = _problem(theta, x, y)
    return _losses(x @ theta, y)


@implements("M03.07", "M03.20", "E02.05")
def logistic_loss(
    theta: Float[ArrayLike, "d+1"],
    x: Float[ArrayLike, "n *d"],
    y: Float[ArrayLike, "n"],
    penalty: Float[ArrayLike, "..."] = 0.0,
) -> Float[Array, "..."]:
    r"""$\Lambda^{(C)}(\theta)$: the mean of the losses of the datapoints, plus the penalty.

    >>> round(float(logistic_loss(jnp.zeros(2), [[0.0], [1.0]], [0, 1])), 4)
    0.6931
    """
    theta, x, y = _problem(theta, x, y)
    return _losses(x @ theta, y).mean() + jnp.sum(_penalty(penalty, theta) * theta**2)


@implements("M03.08")
def logistic_point_gradients(
    theta: Float[ArrayLike, "d+1"], x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "n"]
) -> Float[Array, "n _"]:
    r"""$\nabla\lambda_{(x,y)}(\theta)=(S(w\cdot x+b)-y)(x,1)$ of every datapoint: (n, d + 1), accurate everywhere."""
    theta, x, y = _problem(theta, x, y)
    return _residual(x @ theta, y)[:, None] * x


@implements("M03.08")
def logistic_chain_gradients(
    theta: Float[ArrayLike, "d+1"], x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "n"]
) -> Float[Array, "n _"]:
    r"""The same gradients as the chain rule writes them, $\ell_y'(S)\,S'\,(x,1)$ (3.9).

    Kept for comparison: where a wrong label meets a saturated $S$ this is $\infty\cdot0$, and loses everything.
    """
    theta, x, y = _problem(theta, x, y)
    z = x @ theta
    return (binary_cross_entropy_prime(y, jax.nn.sigmoid(z)) * logistic_prime(z))[:, None] * x


@implements("M03.09", "M03.20", "E02.05")
def logistic_gradient(
    theta: Float[ArrayLike, "d+1"],
    x: Float[ArrayLike, "n *d"],
    y: Float[ArrayLike, "n"],
    penalty: Float[ArrayLike, "..."] = 0.0,
) -> Float[Array, "..."]:
    r"""$\nabla\Lambda^{(C)}(\theta)=\frac1n\sum(S(w\cdot x+b)-y)(x,1)+2C\theta$."""
    theta, x, y = _problem(theta, x, y)
    return x.T @ _residual(x @ theta, y) / x.shape[0] + 2 * _penalty(penalty, theta) * theta


@implements("M03.09", "M03.20")
def logistic_hessian(
    theta: Float[ArrayLike, "d+1"], x: Float[ArrayLike, "n *d"], penalty: Float[ArrayLike, "..."] = 0.0
) -> Float[Array, "..."]:
    r"""$\frac1n\sum S'(w\cdot x+b)\,\tilde x\tilde x^\top+2C$, at most $\frac14A+2C$; the labels play no part."""
    dims = {}
    x = features(x, dims)
    theta, x = parameters(theta, dims), extended(x)
    return (x.T * logistic_prime(x @ theta)) @ x / x.shape[0] + 2 * jnp.diag(_penalty(penalty, theta))


@implements("M03.09")
def logistic_smoothness(x: Float[ArrayLike, "n *d"], penalty: Float[ArrayLike, "..."] = 0.0) -> Float[Array, "..."]:
    r"""$L=\lambda_{\max}(\frac14A+2C)$: the gradient is $L$-Lipschitz, every step below $2/L$ decreases the loss."""
    x = extended(features(x, {}))
    bound = x.T @ x / (4 * x.shape[0]) + 2 * jnp.diag(_penalty(penalty, x[0]))
    return jnp.linalg.eigvalsh(bound)[-1]


@implements("M03.09", "M03.20")
def fit_newton(
    x: Float[ArrayLike, "n *d"],
    y: Float[ArrayLike, "n"],
    *,
    penalty: Float[ArrayLike, "..."] = 0.0,
    start: Float[ArrayLike, "d+1"] | None = None,
    steps: int = 200,
    tolerance: float | None = None,
) -> Fit:
    r"""Minimise the loss by damped Newton, from any start.

    `converged` says that a minimiser exists and was reached: the last Newton step moved no logit by more than
    `tolerance` (square root of the machine precision unless given). On separable data without a penalty there is none,
    and `converged` is False whatever the gradient. `loss` and `gradient_norm` include the penalty.

    >>> print(fit_newton([[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1]).theta)
    [ 0.908 -0.454]
    """
    theta, x, y, penalty = _fit_problem(start, x, y, penalty)
    steps, tolerance = whole("steps", steps), _tolerance(tolerance, theta)
    theta, used, converged = _newton_fit(x, y, penalty, theta, steps, tolerance)
    return _report(theta, x, y, penalty, used, converged)


@implements("M03.09")
def fit_gradient_descent(
    x: Float[ArrayLike, "n *d"],
    y: Float[ArrayLike, "n"],
    *,
    steps: int,
    penalty: Float[ArrayLike, "..."] = 0.0,
    start: Float[ArrayLike, "d+1"] | None = None,
    step: Scalar | None = None,
    tolerance: float = 1e-3,
) -> Fit:
    r"""Run gradient descent for `steps` steps of size `step` ($1/L$ unless given), keeping only the end.

    `converged` says that a Newton step from the end would move no logit by more than `tolerance`. Small gradients
    alone say little: on features far from the origin the valley of the loss is long and flat.
    """
    theta, x, y, penalty = _fit_problem(start, x, y, penalty)
    steps, tolerance = whole("steps", steps), _tolerance(tolerance, theta)
    step = 1 / logistic_smoothness(x[:, :-1], penalty) if step is None else positive("step", real("step", step, ""))
    theta, converged = _descent_fit(x, y, penalty, theta, step.astype(theta.dtype), steps, tolerance)
    return _report(theta, x, y, penalty, jnp.asarray(steps), converged)


def logistic_loss_problem(
    x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "n"], start: Float[ArrayLike, "p"] | None = None
) -> Problem:
    r"""Logistic regression with bias and without a penalty: convex, not strongly; the data must not be separable."""
    fit = fit_newton(x, y)
    if not isinstance(fit.converged, jax.core.Tracer) and not bool(fit.converged):
        raise ValueError("x and y must not be separable: without a penalty the loss has no minimiser.")
    start = jnp.zeros_like(fit.theta) if start is None else real("start", start, "p")
    zero = jnp.zeros_like(fit.loss)
    return Problem(
        logistic_loss,
        (real("x", x), real("y", y)),
        start,
        L=logistic_smoothness(x),
        mu=zero,
        minimum=fit.loss,
        minimiser=fit.theta,
    )


@implements("M03.04", "E02.04")
class LogisticRegression(eqx.Module):
    r"""$m(x;\theta)=S(w\cdot x+b)$, the probability of label 1, called on one example; `vmap` it over rows."""

    weight: jax.Array
    bias: jax.Array

    def __init__(self, features: int, *, key: PRNGKeyArray):
        bound = whole("features", features) ** -0.5
        self.weight, self.bias = jnp.split(
            jax.random.uniform(key, (features + 1,), minval=-bound, maxval=bound), [features]
        )

    @classmethod
    def of(cls, theta: Float[ArrayLike, "p"]) -> "LogisticRegression":
        """The model with the parameter vector `theta`, as the fits return it."""
        theta = real("theta", theta, "p")
        if theta.shape[0] < 2:
            raise ValueError(f"theta must hold at least one weight and the bias, got shape {theta.shape}.")
        blank = cls(theta.shape[0] - 1, key=jax.random.key(0))
        return eqx.tree_at(lambda model: (model.weight, model.bias), blank, (theta[:-1], theta[-1:]))

    @property
    def theta(self) -> Float[Array, "_"]:
        return jnp.concatenate([self.weight, self.bias])

    def logit(self, x: Float[ArrayLike, "_"]) -> Float[Array, ""]:
        r"""$w\cdot x+b$, whose sign is the predicted class."""
        x = real("x", x, str(self.weight.shape[0]), finite=False)
        return self.weight @ x + self.bias[0]

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        return jax.nn.sigmoid(self.logit(x))


def _losses(z, y):
    return y * jax.nn.softplus(-z) + (1 - y) * jax.nn.softplus(z)


def _residual(z, y):
    # S(z) - y without subtracting nearly equal numbers: for y = 1 it is -S(-z).
    return (1 - y) * jax.nn.sigmoid(z) - y * jax.nn.sigmoid(-z)


def _problem(theta, x, y):
    dims = {}
    x = features(x, dims)
    theta = parameters(theta, dims)
    return theta, extended(x), within("y", real("y", y, "n", dims), 0.0, 1.0)


def _penalty(penalty, theta):
    penalty = within("penalty", real("penalty", penalty), 0.0)
    if penalty.shape not in ((), theta.shape):
        raise ValueError(f"penalty must be a number or have shape {theta.shape} like theta, got {penalty.shape}.")
    return jnp.broadcast_to(penalty, theta.shape).astype(theta.dtype)


def _fit_problem(start, x, y, penalty):
    dims = {}
    d = features(x, dims).shape[1]
    start = jnp.zeros(d + 1) if start is None else parameters(start, dims, "start")
    start, x, y = _problem(start, x, y)
    dtype = jnp.result_type(x, y)
    start, x, y = (a.astype(dtype) for a in (start, x, y))
    return start, x, y, _penalty(penalty, start)


def _tolerance(tolerance, theta):
    if tolerance is None:
        return jnp.sqrt(jnp.finfo(theta.dtype).eps)
    return within("tolerance", real("tolerance", tolerance, ""), 0.0, 1.0, open="both").astype(theta.dtype)


def _report(theta, x, y, penalty, steps, converged):
    slope = logistic_gradient(theta, x[:, :-1], y, penalty)
    return Fit(theta, logistic_loss(theta, x[:, :-1], y, penalty), jnp.linalg.norm(slope), steps, converged)


@partial(jax.jit, static_argnames="steps")
def _newton_fit(x, y, penalty, start, steps, tolerance):
    z, change = scores(x)
    quadratic = (change.T * penalty) @ change
    n = x.shape[0]

    def value(phi):
        return _losses(z @ phi, y).mean() + phi @ quadratic @ phi

    def gradient(phi):
        return z.T @ _residual(z @ phi, y) / n + 2 * quadratic @ phi

    def hessian(phi):
        return (z.T * logistic_prime(z @ phi)) @ z / n + 2 * quadratic

    def move(direction):
        return jnp.max(jnp.abs(z @ direction))

    phi = jnp.linalg.solve(change, start)
    phi, used, converged = newton(value, gradient, hessian, move, phi, steps, tolerance)
    return change @ phi, used, converged


@partial(jax.jit, static_argnames="steps")
def _descent_fit(x, y, penalty, start, step, steps, tolerance):
    def slope(theta):
        return x.T @ _residual(x @ theta, y) / x.shape[0] + 2 * penalty * theta

    theta = jax.lax.fori_loop(0, steps, lambda _, theta: theta - step * slope(theta), start)
    # The test of convergence is made in scored coordinates, where it loses nothing to conditioning.
    z, change = scores(x)
    quadratic = (change.T * penalty) @ change
    curvature = (z.T * logistic_prime(x @ theta)) @ z / x.shape[0] + 2 * quadratic
    direction, trusted = newton_direction(
        change.T @ slope(theta), curvature, lambda d: jnp.max(jnp.abs(z @ d)), jnp.linalg.solve(change, theta)
    )
    return theta, trusted & (jnp.max(jnp.abs(z @ direction)) <= tolerance)
