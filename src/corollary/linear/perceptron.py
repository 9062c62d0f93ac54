r"""The perceptron algorithm, step by step of its mistakes.

Nothing happens between two mistakes, so the loops here do not walk through the data: a step finds the next mistake in
the order of presentation at once, and corrects it. The updates are those of the algorithm in the texts, one for one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, labels, one_of, positive, real, whole
from corollary.catalog import implements
from corollary.linear._shapes import extended, features
from corollary.linear._signs import signs


class PerceptronFit(NamedTuple):
    r"""Where the algorithm stopped. Without `converged` some point is still misclassified.

    `counts` has the number of mistakes on each point, so that from zero $w=\eta\sum_i\text{counts}_iy_ix_i$; `updates`
    is their sum; `sweeps` counts the passes through the data, the last clean one included.
    """

    w: jax.Array
    b: jax.Array
    updates: jax.Array
    sweeps: jax.Array
    counts: jax.Array
    converged: jax.Array

    __repr__ = shown


class PerceptronPath(NamedTuple):
    """The parameters before the first and after each update, and which point was presented when.

    `index` is the point of each update and `clock` counts all presentations before it; both are -1 for updates that
    did not happen because nothing was misclassified any more.
    """

    w: jax.Array
    b: jax.Array
    index: jax.Array
    clock: jax.Array

    __repr__ = shown


class SampledPath(NamedTuple):
    """Weights before the first and after each of the steps, the points drawn, and whether each was a mistake."""

    w: jax.Array
    index: jax.Array
    mistake: jax.Array

    __repr__ = shown


class _State(NamedTuple):
    theta: jax.Array
    counts: jax.Array
    clock: jax.Array  # presentations so far
    last: jax.Array  # the presentation of the last mistake, -1 before the first
    updates: jax.Array
    clean: jax.Array


@implements("E01.09", "M04.04")
def perceptron(
    x: Float[ArrayLike, "n *d"],
    y: Float[ArrayLike, "..."],
    *,
    bias: bool = True,
    order: Int[ArrayLike, "n"] | None = None,
    step: Scalar = 1.0,
    start: Float[ArrayLike, "..."] | None = None,
    updates: int = 10_000,
) -> PerceptronFit:
    r"""Sweep through the data; at each $(x,y)$ with $\operatorname{sgn}(w\cdot x+b)\ne y$ set
    $w\leftarrow w+\eta yx$, $b\leftarrow b+\eta y$; stop after a sweep without a mistake, or after `updates`.

    `order` is the order of a sweep, a permutation of the points. `start` holds the weights, and last the bias where
    there is one; zero unless given. A point on the hyperplane is a mistake.

    >>> perceptron([[-1.0], [2.0]], [-1, 1]).converged.tolist()
    True
    """
    x, y, order, step, start = _problem(x, y, bias, order, step, start)
    end = _run(x[order], y[order], step, start, whole("updates", updates))
    w, b = _split(end.theta, bias)
    counts = jnp.zeros_like(end.counts).at[order].set(end.counts)
    sweeps = jnp.where(end.last < 0, 0, end.last // x.shape[0] + 1) + end.clean
    return PerceptronFit(w, b, end.updates, sweeps, counts, end.clean)


@implements("E01.09")
def perceptron_path(
    x: Float[ArrayLike, "n *d"],
    y: Float[ArrayLike, "..."],
    *,
    updates: int,
    bias: bool = True,
    order: Int[ArrayLike, "n"] | None = None,
    step: Scalar = 1.0,
    start: Float[ArrayLike, "..."] | None = None,
) -> PerceptronPath:
    """The same algorithm with its history of exactly `updates` updates; where it stops earlier, it stands still."""
    x, y, order, step, start = _problem(x, y, bias, order, step, start)
    theta, at, clock = _trace(x[order], y[order], step, start, whole("updates", updates))
    w, b = _split(theta, bias)
    return PerceptronPath(w, b, jnp.where(at < 0, -1, order[at]), clock)


@implements("M04.04")
def sampled_perceptron(
    x: Float[ArrayLike, "n *d"],
    y: Float[ArrayLike, "..."],
    *,
    steps: int,
    key: PRNGKeyArray,
    at_zero: int = 1,
    start: Float[ArrayLike, "..."] | None = None,
) -> SampledPath:
    r"""At each step draw a point uniformly; if $y\ne\operatorname{sign}(w\cdot x)$ set $w\leftarrow w+yx$. No bias.

    `at_zero` is $\operatorname{sign}(0)$: 1 as in the text, where zero weights classify a point of label 1 correctly;
    with 0 a point on the hyperplane is always a mistake.
    """
    x, y, _, _, start = _problem(x, y, False, None, 1.0, start)
    steps, at_zero = whole("steps", steps), one_of("at_zero", at_zero, (0, 1))
    index = jax.random.randint(key, (steps,), 0, x.shape[0])

    def advance(w, i):
        z = x[i] @ w
        mistake = jnp.where(z == 0, at_zero, jnp.sign(z)) != y[i]
        w = jnp.where(mistake, w + y[i] * x[i], w)
        return w, (w, mistake)

    _, (path, mistake) = jax.lax.scan(advance, start, index)
    return SampledPath(jnp.concatenate([start[None], path]), index, mistake)


@implements("M04.06")
def single_sample_sgd(
    gradient: Callable,
    start: Float[ArrayLike, "..."],
    x: Float[ArrayLike, "n *d"],
    y: Float[ArrayLike, "n"],
    *,
    step: Scalar,
    steps: int,
    key: PRNGKeyArray,
) -> Float[Array, "..."]:
    r"""Stochastic gradient descent: $\theta_{k+1}=\theta_k-\eta\nabla\lambda^m(\theta_k)$ with $m$ uniform, as a path.

    `gradient(theta, x, y)` is the gradient of the loss of one point. Returns `(steps + 1, *start.shape)`; one key draws
    the same points here and in `sampled_perceptron`.
    """
    if not callable(gradient):
        raise TypeError(f"gradient must be a function of theta and one point, got {type(gradient).__name__}.")
    start, step, steps = real("start", start), positive("step", real("step", step, "")), whole("steps", steps)
    dims = {}
    x = features(x, dims)
    y = real("y", y, "n", dims)
    slope = jax.eval_shape(gradient, start, x[0], y[0])
    if getattr(slope, "shape", None) != start.shape:
        raise ValueError(f"gradient must return shape {start.shape} like start, got {slope}.")
    dtype = jnp.result_type(start, slope.dtype)
    start, step = start.astype(dtype), step.astype(dtype)
    index = jax.random.randint(key, (steps,), 0, x.shape[0])

    def advance(theta, i):
        theta = theta - step * gradient(theta, x[i], y[i])
        return theta, theta

    _, path = jax.lax.scan(advance, start, index)
    return jnp.concatenate([start[None], path])


def _problem(x, y, bias, order, step, start):
    dims = {}
    x = features(x, dims)
    y = signs("y", y, "n", dims)
    x = extended(x) if bias else x
    n, width = x.shape
    order = jnp.arange(n) if order is None else labels("order", order, n, "n", dims)
    if concrete(order) and np.unique(np.asarray(order)).size != n:
        raise ValueError(f"order must name each of the {n} points once.")
    step = positive("step", real("step", step, ""))
    start = jnp.zeros(width, x.dtype) if start is None else real("start", start)
    if start.shape != (width,):
        extra = ", the weights and the bias" if bias else ""
        raise ValueError(f"start must have shape ({width},){extra}, got {start.shape}.")
    dtype = jnp.result_type(x, start)
    return x.astype(dtype), y.astype(dtype), order, step.astype(dtype), start.astype(dtype)


def _split(theta, bias):
    return (theta[..., :-1], theta[..., -1]) if bias else (theta, jnp.zeros(theta.shape[:-1], theta.dtype))


def _correct(x, y, step, state: _State) -> _State:
    """Go on to the next mistake and correct it; `clean` if there is none."""
    n = x.shape[0]
    mistaken = y * (x @ state.theta) <= 0
    ahead = jnp.roll(mistaken, -(state.clock % n))
    wait = jnp.argmax(ahead)
    any_left = ahead[wait]
    now = state.clock + wait
    i = now % n
    return _State(
        jnp.where(any_left, state.theta + step * y[i] * x[i], state.theta),
        state.counts.at[i].add(any_left),
        jnp.where(any_left, now + 1, state.clock),
        jnp.where(any_left, now, state.last),
        state.updates + any_left,
        ~any_left,
    )


def _initial(x, start):
    zero = jnp.zeros((), int)
    return _State(start, jnp.zeros(x.shape[0], int), zero, zero - 1, zero, jnp.zeros((), bool))


@partial(jax.jit, static_argnames="limit")
def _run(x, y, step, start, limit):
    end = jax.lax.while_loop(
        lambda state: ~state.clean & (state.updates < limit), partial(_correct, x, y, step), _initial(x, start)
    )
    # the last allowed update may have been the one that was needed
    return end._replace(clean=jnp.all(y * (x @ end.theta) > 0))


@partial(jax.jit, static_argnames="limit")
def _trace(x, y, step, start, limit):
    def advance(state, _):
        after = _correct(x, y, step, state)
        clock = jnp.where(after.clean, -1, after.last)
        return after, (after.theta, jnp.where(after.clean, -1, after.last % x.shape[0]), clock)

    _, (theta, at, clock) = jax.lax.scan(advance, _initial(x, start), length=limit)
    return jnp.concatenate([start[None], theta]), at, clock
