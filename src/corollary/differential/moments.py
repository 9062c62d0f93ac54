r"""A stochastic equation calibrated to expectations: $\Lambda=\frac1{2N}\sum_i(E\,g_i(X_T)-Y_i)^2$.

`payoffs` maps the end of a path to the N numbers $g_i(X_T)$, `y` holds the N targets.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._types import Scalar
from corollary._validate import real
from corollary.catalog import implements
from corollary.differential.neural_sde import NeuralSDE, checked, euler_maruyama
from corollary.differential.solve import finite


@implements("M22.15")
def moment_loss(
    sde: NeuralSDE,
    payoffs: Callable,
    y: Float[ArrayLike, "n"],
    start: Float[ArrayLike, "d"],
    horizon: Scalar,
    *,
    steps: int,
    paths: int,
    key: PRNGKeyArray,
) -> Float[Array, ""]:
    r"""$\frac1{2N}\sum_i(\bar g_i-Y_i)^2$ with the mean $\bar g_i$ over `paths` paths.

    Its expectation is $\Lambda$ and $\frac1{2N}$ of the variances of the payoffs over the number of paths.
    """
    y = _targets(sde, payoffs, y, start, horizon)
    return _half_mean_square(_means(sde, payoffs, start, horizon, steps, paths, key)[0] - y)


@implements("M22.16")
def one_path_gradient(
    sde: NeuralSDE,
    payoffs: Callable,
    y: Float[ArrayLike, "n"],
    start: Float[ArrayLike, "d"],
    horizon: Scalar,
    *,
    steps: int,
    paths: int = 1,
    key: PRNGKeyArray,
) -> PyTree:
    r"""The gradient of `moment_loss`, which is **not** an unbiased estimate of $\nabla\Lambda$.

    Its mean is the gradient of $\Lambda+\frac1{2NL}\sum_i\mathrm{Var}\,g_i(X_T)$ for $L$ paths: training with it makes
    the variance too small. See `two_path_gradient`.
    """
    y = _targets(sde, payoffs, y, start, horizon)

    def value(params, static):
        means, ends = _means(eqx.combine(params, static), payoffs, start, horizon, steps, paths, key)
        return _half_mean_square(means - y), ends

    return _gradient(value, *eqx.partition(sde, eqx.is_inexact_array), horizon)


@implements("M22.17")
def two_path_gradient(
    sde: NeuralSDE,
    payoffs: Callable,
    y: Float[ArrayLike, "n"],
    start: Float[ArrayLike, "d"],
    horizon: Scalar,
    *,
    steps: int,
    paths: int = 1,
    key: PRNGKeyArray,
) -> PyTree:
    r"""An unbiased estimate of $\nabla\Lambda$ (of the scheme with `steps` steps), from independent groups of paths.

    $\frac1N\sum_i(\bar g_i'-Y_i)\nabla_\theta\bar g_i$: the mean $\bar g'$ is over other paths than $\bar g$, so that
    the expectation of the product is the product of expectations. The payoffs must be continuous: the derivative along
    a path does not see a jump.
    """
    y = _targets(sde, payoffs, y, start, horizon)
    key, other = jax.random.split(key)
    miss = _means(sde, payoffs, start, horizon, steps, paths, other)[0] - y

    def value(params, static):
        means, ends = _means(eqx.combine(params, static), payoffs, start, horizon, steps, paths, key)
        return miss @ means / y.size, ends

    return _gradient(value, *eqx.partition(sde, eqx.is_inexact_array), horizon)


def _means(sde, payoffs, start, horizon, steps, paths, key):
    """The means of the payoffs, and the ends of the paths."""
    ends = euler_maruyama(sde, start, horizon, steps=steps, paths=paths, key=key)
    return jax.vmap(payoffs)(ends).mean(0), ends


def _gradient(value, params, static, horizon):
    """The gradient by `params` of what also gives the ends of the paths, which must be finite."""
    gradient, ends = jax.grad(value, has_aux=True)(params, static)
    finite(ends[None], jnp.asarray(horizon)[None])
    return gradient


def _half_mean_square(miss):
    return (miss**2).mean() / 2


def _targets(sde, payoffs, y, start, horizon):
    y = real("y", y, "n")
    start, _ = checked(sde, start, horizon)
    if not callable(payoffs):
        raise TypeError(f"payoffs must be a function of the end of a path, got {type(payoffs).__name__}.")
    seen = jax.eval_shape(payoffs, start)
    if getattr(seen, "shape", None) != y.shape:
        got = getattr(seen, "shape", type(seen).__name__)
        raise ValueError(f"payoffs must return as many numbers as y has, shape {y.shape}, got {got}.")
    # a payoff of whole numbers or truth values is a step function, whose derivative along a path is 0
    if not jnp.issubdtype(seen.dtype, jnp.floating) or _is_flat(payoffs, start):
        raise ValueError(
            "payoffs must depend on the end of the path through derivatives: this one is a step function, whose "
            "derivative along a path is 0 although its expectation changes. Smooth the step."
        )
    return y


def _is_flat(payoffs, start):
    """Whether the derivative of the payoffs is 0 everywhere: the direction has no way into the program's result."""
    jaxpr = jax.make_jaxpr(lambda x, along: jax.jvp(payoffs, (x,), (along,))[1])(start, start).jaxpr
    needed = set(map(id, jaxpr.outvars))
    for equation in reversed(jaxpr.eqns):
        if needed & set(map(id, equation.outvars)):
            needed |= set(map(id, equation.invars))
    return id(jaxpr.invars[1]) not in needed
