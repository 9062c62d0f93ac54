r"""The gradient of a loss along the solution of a neural differential equation, by three routes.

The loss is $\Lambda(\theta)=\frac12\int_0^T|h(t)-u(t)|^2dt+\frac12|h(T)-u(T)|^2$ for a target $h$. Parameters are
differentiated as one vector, so that what each route costs can be counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, Float, PyTree

from corollary._engine.runge_kutta import stepped
from corollary._show import shown
from corollary._validate import real
from corollary.catalog import implements
from corollary.differential.neural_ode import NeuralODE
from corollary.differential.solve import finite, for_field


class Sensitivity(NamedTuple):
    """Loss and gradient, and how many numbers the equations carry along at a time that were solved for it."""

    loss: Float[Array, ""]
    gradient: PyTree
    equations: int

    __repr__ = shown


@implements("M22.02")
def tracking_loss(
    ode: NeuralODE, target: Callable, start: Float[ArrayLike, "d"], *, condition: Any = None
) -> Float[Array, ""]:
    r"""$\frac12\int_0^T|h-u|^2dt+\frac12|h(T)-u(T)|^2$, $h$ the `target`, a function of time.

    With Euler's method the integral is the sum $\sum_{i=1}^N\frac12|h(i\Delta)-u_i|^2\Delta$ over the ends of the
    steps; with that of Runge and Kutta it is integrated along with the solution, to the same order.

    >>> ode = NeuralODE(lambda u: 0 * u, method="euler")
    >>> print(tracking_loss(ode, lambda t: jnp.ones(1), jnp.zeros(1)))
    1.0
    """
    start, _, _ = _opened(ode, target, start, condition)
    if ode.method == "euler":
        return _sum_of_steps(ode, target, ode.path(start, condition))

    def velocity(state, _):
        t, u, _ = state
        return jnp.ones_like(t), ode.field(u, condition), _half_square(target(t) - u)

    zero = jnp.zeros((), start.dtype)
    (_, u, running), _ = _scanned(velocity, (zero, start, zero), ode)
    return running + _half_square(target(ode.horizon) - u)


@implements("M22.03")
def forward_sensitivity(
    ode: NeuralODE, target: Callable, start: Float[ArrayLike, "d"], *, condition: Any = None
) -> Sensitivity:
    r"""The gradient from $\tilde u=\nabla_\theta u$, which solves $\dot{\tilde u}=\frac{\partial m}{\partial u}\tilde
    u+ \nabla_\theta m$, $\tilde u(0)=0$: as many equations as states times parameters.

    $\nabla\Lambda=-\int_0^T\tilde u^\top(h-u)\,dt-\tilde u(T)^\top(h(T)-u(T))$; the text has the opposite sign.
    """
    start, theta, rebuilt = _opened(ode, target, start, condition)
    if not theta.size:
        raise ValueError("ode must have parameters to differentiate by, and its field has none.")

    def velocity(state, _):
        t, u, tangent, _, _ = state
        miss = u - target(t)
        slope, by_state = jax.jacfwd(_twice(lambda u: rebuilt(theta).field(u, condition)), has_aux=True)(u)[::-1]
        by_theta = jax.jacrev(lambda theta: rebuilt(theta).field(u, condition))(theta)
        return jnp.ones_like(t), slope, by_state @ tangent + by_theta, _half_square(miss), miss @ tangent

    zero = jnp.zeros((), start.dtype)
    state = zero, start, jnp.zeros((start.size, theta.size), start.dtype), zero, jnp.zeros_like(theta)
    (_, u, tangent, running, gradient), _ = _scanned(velocity, state, ode)
    miss = u - target(ode.horizon)
    gradient = gradient + miss @ tangent
    return Sensitivity(running + _half_square(miss), _as_network(ode, gradient), _size(state[1:3]))


@implements("M22.04")
def adjoint(ode: NeuralODE, target: Callable, start: Float[ArrayLike, "d"], *, condition: Any = None) -> Sensitivity:
    r"""The gradient from the adjoint equation $-\dot{\hat u}=\frac{\partial m}{\partial u}^\top\hat u+(u-h)$,
    $\hat u(T)=u(T)-h(T)$, solved backwards: as many equations as states, however many parameters.

    $\nabla\Lambda=\int_0^T\nabla_\theta m^\top\hat u\,dt$, of the order of the method. The solution is kept at the
    times at which the way back looks, so that it is not solved backwards, which need not be stable. The text has the
    opposite sign of $u-h$ everywhere.
    """
    start, theta, rebuilt = _opened(ode, target, start, condition)
    h = ode.horizon / ode.steps
    # the way back looks at the middle of every step too where the method has stages there
    looks = 1 if ode.method == "euler" else 2

    def forward(state, _):
        t, u, _ = state
        return jnp.ones_like(t), ode.field(u, condition), _half_square(target(t) - u)

    zero = jnp.zeros((), start.dtype)
    end, path = _scanned(forward, (zero, start, zero), ode, finer=looks)
    path = jax.tree.map(lambda first, later: jnp.concatenate([first[None], later]), (zero, start), path[:2])
    miss = end[1] - target(ode.horizon)

    def back(state, i):
        def velocity(state, share):
            # stage times lie at whole looks of the stored path
            at = i * looks - jnp.round(share * looks).astype(int)
            t, u = path[0][at], path[1][at]
            _, pull = jax.vjp(lambda theta, u: rebuilt(theta).field(u, condition), theta, u)
            by_theta, by_state = pull(state[0])
            return by_state + u - target(t), by_theta

        return stepped(velocity, state, h, ode.method), None

    (hat, gradient), _ = jax.lax.scan(back, (miss, jnp.zeros_like(theta)), jnp.arange(ode.steps, 0, -1))
    return Sensitivity(end[2] + _half_square(miss), _as_network(ode, gradient), _size((start, hat)))


@implements("M22.08")
def discrete_adjoint(
    ode: NeuralODE, target: Callable, start: Float[ArrayLike, "d"], *, condition: Any = None
) -> Sensitivity:
    r"""The gradient of the loss of Euler's scheme itself, exact for every length of the steps.

    $\hat u_N=(u_N-h_N)(1+\Delta)$, $\hat u_i=\hat u_{i+1}+\frac{\partial m}{\partial u}(u_i)^\top\hat u_{i+1}\Delta+
    (u_i-h_i)\Delta$ and $\nabla\Lambda=\sum_{i=0}^{N-1}\nabla_\theta m(u_i)^\top\hat u_{i+1}\Delta$: back-propagation,
    written out. The text has the opposite sign of $u-h$ everywhere.
    """
    start, theta, rebuilt = _opened(ode, target, start, condition)
    if ode.method != "euler":
        raise ValueError('discrete_adjoint is that of Euler\'s scheme: use NeuralODE(..., method="euler").')
    h = ode.horizon / ode.steps
    path = ode.path(start, condition)
    misses = path - jax.vmap(target)(ode.times.astype(start.dtype))

    def back(carry, seen):
        hat, gradient = carry
        u, miss = seen
        _, pull = jax.vjp(lambda theta, u: rebuilt(theta).field(u, condition), theta, u)
        by_theta, by_state = pull(hat)
        return (hat + h * by_state + h * miss, gradient + h * by_theta), None

    last = misses[-1] * (1 + h)
    (hat, gradient), _ = jax.lax.scan(back, (last, jnp.zeros_like(theta)), (path[:-1], misses[:-1]), reverse=True)
    return Sensitivity(_sum_of_steps(ode, target, path), _as_network(ode, gradient), _size((start, hat)))


def _opened(ode, target, start, condition):
    """Checked arguments: the start, the parameters as one vector, and how to make an equation of them again."""
    if not isinstance(ode, NeuralODE):
        raise TypeError(f"ode must be a NeuralODE, got {type(ode).__name__}.")
    if not callable(target):
        raise TypeError(f"target must be a function of time, got {type(target).__name__}.")
    start = real("start", start, "d")
    seen = jax.eval_shape(target, jax.ShapeDtypeStruct((), start.dtype))
    if getattr(seen, "shape", None) != start.shape:
        got = getattr(seen, "shape", type(seen).__name__)
        raise ValueError(f"target must return what has the shape {start.shape} of the state, got {got}.")
    params, static = eqx.partition(ode, eqx.is_inexact_array)
    theta, unravel = ravel_pytree(params)
    start = for_field(lambda u: ode.field(u, condition), start.astype(jnp.result_type(start.dtype, theta.dtype)))
    return start, theta, lambda theta: eqx.combine(unravel(theta), static)


def _as_network(ode, gradient):
    """The gradient in the form of the equation's network, None where there is no parameter."""
    params = eqx.filter(ode, eqx.is_inexact_array)
    return ravel_pytree(params)[1](gradient).network


def _scanned(velocity, state, ode, *, finer=1):
    """The state at the end, and at the end of every step, each step split into `finer` ones.

    A state begins with the time and the solution, which must stay finite.
    """
    h = ode.horizon / (ode.steps * finer)

    def onward(state, _):
        state = stepped(velocity, state, h, ode.method)
        return state, state

    end, later = jax.lax.scan(onward, state, length=ode.steps * finer)
    finite(later[1], later[0])
    return end, later


def _sum_of_steps(ode, target, path):
    misses = path - jax.vmap(target)(ode.times.astype(path.dtype))
    return ode.horizon / ode.steps * _half_square(misses[1:]) + _half_square(misses[-1])


def _half_square(miss):
    return (miss**2).sum() / 2


def _twice(function):
    """The value as result and as what comes along, for a derivative together with its value."""

    def both(u):
        value = function(u)
        return value, value

    return both


def _size(state):
    return sum(leaf.size for leaf in jax.tree.leaves(state))
