"""Stochastic gradient descent: batches drawn with or without replacement or epoch by epoch, averages, what to return.

The step itself is Optax's (`optax.sgd`, with a number or a schedule); here is what feeds it, and what
one makes of a path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PRNGKeyArray, PyTree

from corollary._engine.trees import each
from corollary._types import Scalar
from corollary._validate import one_of, whole
from corollary.catalog import implements
from corollary.optimization.minimize import Method, Path, Pointed, method_of, point
from corollary.optimization.problem import FiniteSum, batch_gradient, batch_value

Sampling = Literal["with", "without", "reshuffle"]


@implements("B05.26", "M18.02", "M18.06", "M07.14", "M07.24")
def minibatch(
    transformation: optax.GradientTransformation, *, batch_size: int = 1, sampling: Sampling = "with"
) -> Method:
    r"""An Optax transformation fed with mean gradients of `batch_size` examples of a `FiniteSum`.

    `sampling` draws them independently (`"with"` replacement), as a subset that is new in every step (`"without"`), or
    partitions the examples anew in every epoch and goes through the parts (`"reshuffle"`; `batch_size` must divide
    their number). `batch_size=1` is online learning, all of them without replacement is gradient descent.
    """
    if not isinstance(transformation, optax.GradientTransformation):
        raise TypeError(f"transformation must be an Optax transformation, got {type(transformation).__name__}.")
    transformation = optax.with_extra_args_support(transformation)
    batch_size = whole("batch_size", batch_size)
    one_of("sampling", sampling, ("with", "without", "reshuffle"))

    def init(problem, theta):
        if not isinstance(problem, FiniteSum):
            raise TypeError(f"problem must be a FiniteSum to draw batches from, got {type(problem).__name__}.")
        n = problem.data[0].shape[0]
        if sampling != "with" and batch_size > n:
            raise ValueError(f"batch_size must be at most the number of examples {n}, got {batch_size}.")
        if sampling == "reshuffle" and n % batch_size:
            raise ValueError(f"batch_size must divide the number of examples {n} in an epoch, got {batch_size}.")
        return theta, transformation.init(theta), jnp.arange(n), jnp.zeros((), int)

    def step(problem, state, key):
        theta, inner, order, count = state
        chosen, order = _draw(key, problem.data[0].shape[0], batch_size, sampling, order, count)
        updates, inner = transformation.update(
            batch_gradient(problem, theta, chosen),
            inner,
            theta,
            value=batch_value(problem, theta, chosen),
            gradient_fn=lambda theta: batch_gradient(problem, theta, chosen),
            full_gradient_fn=problem.gradient,
        )
        return optax.apply_updates(theta, updates), inner, order, count + 1

    return Method(init, step, lambda state: point(*state[:2]))


@implements("B05.24", "E03.16", "M18.02", "T02.10", "M07.03", "M07.05", "M07.14")
def sgd(step: Scalar | Callable, *, batch_size: int = 1, sampling: Sampling = "with") -> Method:
    r"""$\theta_{k+1}=\theta_k-\eta_kG_k$ with the mean gradient $G_k$ of a random batch; `step` is a number or a
    schedule.
    """
    return minibatch(optax.sgd(step), batch_size=batch_size, sampling=sampling)


@implements("B05.28")
def averaged(method: Method | optax.GradientTransformation) -> Method | optax.GradientTransformationExtraArgs:
    r"""Polyak-Ruppert averaging: the same steps, but the point is
    $\bar\theta_{k+1}=\frac k{k+1}\bar\theta_k+\frac1{k+1}\theta_{k+1}$.

    It is the mean of $\theta_1,\dots,\theta_{k+1}$; the start does not count. Of an Optax transformation it is one too,
    and `point(params, state)` is the mean.
    """
    if isinstance(method, optax.GradientTransformation):
        return _averaged_transformation(optax.with_extra_args_support(method))
    method = method_of(method)

    def init(problem, theta):
        return method.init(problem, theta), theta, jnp.zeros((), int)

    def step(problem, state, key):
        inner, mean, k = state
        inner = method.step(problem, inner, key)
        return inner, _mean_with(mean, method.point(inner), k), k + 1

    return Method(init, step, lambda state: state[1])


def _averaged_transformation(method):
    def init(params):
        return Pointed(params, (method.init(params), jnp.zeros((), jnp.int32)))

    def update(updates, state, params, **extra):
        inner, k = state.memory
        updates, inner = method.update(updates, inner, params, **extra)
        reached = point(optax.apply_updates(params, updates), inner)
        return updates, Pointed(_mean_with(state.point, reached, k), (inner, k + 1))

    return optax.GradientTransformationExtraArgs(init, update)


def _mean_with(mean, new, k):
    """The mean of k + 1 points from that of the first k."""
    return each(lambda mean, new: mean + (new - mean) / (k + 1), mean, new)


@implements("T02.24", "T02.26")
def best_iterate(path: Path) -> PyTree:
    r"""The iterate with the least gradient among $\theta_0,\dots,\theta_{K-1}$: what the theorem returns.

    It needs the true gradients, which the method does not see; `random_iterate` does without.
    """
    return _iterate(path, lambda norms: jnp.argmin(norms))


@implements("B05.30")
def random_iterate(path: Path, *, key: PRNGKeyArray) -> PyTree:
    r"""One of $\theta_0,\dots,\theta_{K-1}$, each as likely: its expected squared gradient is the average along the
    path.
    """
    return _iterate(path, lambda norms: jax.random.randint(key, (), 0, norms.shape[0]))


def _iterate(path, which):
    """The iterate whose number `which` finds from the gradient norms of all but the last."""
    kept = isinstance(path, Path) and jnp.ndim(path.value) == 1 and path.value.shape[0] > 1
    if not kept or any(leaf.shape[:1] != path.value.shape for leaf in jax.tree.leaves(path.theta)):
        raise TypeError(f"path must be a Path of at least one step with its iterates, got {type(path).__name__}.")
    chosen = which(path.gradient_norm[:-1])
    return jax.tree.map(lambda theta: theta[chosen], path.theta)


def _draw(key, n, batch_size, sampling, order, count):
    """The indices of the next batch, and the order of the epoch it belongs to."""
    if sampling == "with":
        return jax.random.randint(key, (batch_size,), 0, n), order
    if sampling == "without":
        return jax.random.choice(key, n, (batch_size,), replace=False), order
    place = count % (n // batch_size)
    order = jax.lax.cond(place == 0, lambda: jax.random.permutation(key, n), lambda: order)
    return jax.lax.dynamic_slice(order, (place * batch_size,), (batch_size,)), order
