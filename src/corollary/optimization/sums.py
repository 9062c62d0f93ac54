r"""Finite sums and oracles with known noise: what stochastic gradient descent is measured on."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float

from corollary._engine.trees import drawn_like
from corollary._types import Scalar
from corollary._validate import positive, real, within
from corollary.optimization.problem import FiniteSum, Problem, finite_sum


def least_squares_sum(
    x: Float[ArrayLike, "n d"],
    y: Float[ArrayLike, "n"],
    start: Float[ArrayLike, "d"] | None = None,
    *,
    batch_size: int = 1,
) -> FiniteSum:
    r"""$f_i(\theta)=\frac12(x_i\cdot\theta-y_i)^2$, with all constants exact."""
    dims = {}
    x, y = real("x", x, "n d", dims), real("y", y, "n", dims)
    start = jnp.zeros(x.shape[1], x.dtype) if start is None else real("start", start, "d", dims)
    spectrum, minimiser = jnp.linalg.eigvalsh(x.T @ x / x.shape[0]), jnp.linalg.lstsq(x, y)[0]
    return finite_sum(
        _half_square,
        (x, y),
        start,
        batch_size=batch_size,
        L=spectrum[-1],
        mu=jnp.maximum(spectrum[0], 0),
        minimum=0.5 * jnp.mean((x @ minimiser - y) ** 2),
        minimiser=minimiser,
    )


def sigmoid_sum(
    x: Float[ArrayLike, "n d"],
    y: Float[ArrayLike, "n"],
    start: Float[ArrayLike, "d"] | None = None,
    *,
    batch_size: int = 1,
) -> FiniteSum:
    r"""$f_i(\theta)=\frac1{1+e^{y_ix_i\cdot\theta}}$, $y_i=\pm1$: bounded, not convex.

    $L=\frac{\lambda_{\max}(X^\top X/n)}{6\sqrt3}$ bounds the curvature, $\frac14\|x_i\|$ the gradients, 0 the value.
    """
    dims = {}
    x, y = real("x", x, "n d", dims), within("y", real("y", y, "n", dims), -1.0, 1.0)
    start = jnp.zeros(x.shape[1], x.dtype) if start is None else real("start", start, "d", dims)
    L = jnp.linalg.eigvalsh(x.T @ x / x.shape[0])[-1] / (6 * 3**0.5)
    return finite_sum(_sigmoid_loss, (x, y), start, batch_size=batch_size, L=L, minimum=jnp.zeros((), x.dtype))


class Coin(Problem):
    r"""A problem whose oracle adds $\pm s(\theta)$ to the gradient, each coordinate by its own fair coin."""

    spread: jax.Array = eqx.field(kw_only=True)

    def oracle(self, theta, *, key):
        signs = drawn_like(lambda size, dtype: jax.random.rademacher(key, (size,), dtype), theta)
        return jax.tree.map(lambda slope, sign: slope + self.spread * sign, self.gradient(theta), signs)


def coin(problem: Problem, spread: Scalar) -> Coin:
    r"""`problem` seen through gradients with independent noise $\pm s$ in each coordinate: $\kappa_1=ds^2$,
    $\kappa_2=1$.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {type(problem).__name__}.")
    known = {name: getattr(problem, name) for name in ("L", "mu", "pl", "minimum", "minimiser")}
    spread = within("spread", real("spread", spread, ""), 0.0)
    return Coin(problem.function, problem.data, problem.start, spread=spread, **known)


class Walk(Problem):
    r"""A function on the line seen through gradients $\pm\sigma$, the sign drawn so that the mean is $f'$."""

    sigma: jax.Array = eqx.field(kw_only=True)

    def oracle(self, theta, *, key):
        up = jax.random.bernoulli(key, (1 + self.gradient(theta) / self.sigma) / 2)
        return jnp.where(up, self.sigma, -self.sigma)


def walk(L: Scalar, sigma: Scalar) -> Walk:
    r"""$\frac L2\theta^2$ from $\theta_0=\sigma/L$ through gradients of size $\sigma$ exactly, unbiased while
    $|\theta|\le\sigma/L$.

    No function makes stochastic gradient descent slower than this one, up to lower order: it attains
    `rates.sgd.nonconvex`.
    """
    L, sigma = positive("L", real("L", L, "")), positive("sigma", real("sigma", sigma, ""))
    zero = jnp.zeros_like(L)
    return Walk(
        lambda theta, L: 0.5 * L * theta**2, (L,), sigma / L, L=L, mu=L, minimum=zero, minimiser=zero, sigma=sigma
    )


def _half_square(theta, x, y):
    return 0.5 * (x @ theta - y) ** 2


def _sigmoid_loss(theta, x, y):
    return jax.nn.sigmoid(-y * (x @ theta))
