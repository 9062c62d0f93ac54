"""Stochastic gradient descent: batches drawn with or without replacement or epoch by epoch, averages, what to return.

The step itself is Optax's (`optax.sgd`, with a number or a schedule); here is what feeds it, and what
one makes of a path.
"""

from typing import Literal

import jax
import jax.numpy as jnp
import optax

from corollary._validate import one_of, whole
from corollary.catalog import implements
from corollary.optimization.minimize import Method, Path, of_optax
from corollary.optimization.problem import FiniteSum

Sampling = Literal["with", "without", "reshuffle"]


@implements("B05.26", "M18.02", "M18.06", "M07.14", "M07.24")
def minibatch(transformation: optax.GradientTransformation, *, batch: int = 1, sampling: Sampling = "with") -> Method:
    r"""An Optax transformation fed with mean gradients of `batch` examples of a `FiniteSum`.

    `sampling` draws them independently (`"with"` replacement), as a subset that is new in every step (`"without"`), or
    partitions the examples anew in every epoch and goes through the parts (`"reshuffle"`; `batch` must divide their
    number). `batch=1` is online learning, all of them without replacement is gradient descent.
    """
    if not isinstance(transformation, optax.GradientTransformation):
        raise TypeError(f"transformation must be an Optax transformation, got {type(transformation).__name__}.")
    batch, sampling = whole("batch", batch), one_of("sampling", sampling, ("with", "without", "reshuffle"))

    def init(problem, theta):
        if not isinstance(problem, FiniteSum):
            raise TypeError(f"problem must be a FiniteSum to draw batches from, got {type(problem).__name__}.")
        n = problem.data[0].shape[0]
        if sampling != "with" and batch > n:
            raise ValueError(f"batch must be at most the number of examples {n}, got {batch}.")
        if sampling == "reshuffle" and n % batch:
            raise ValueError(f"batch must divide the number of examples {n} in an epoch, got {batch}.")
        return theta, transformation.init(theta), jnp.arange(n), jnp.zeros((), int)

    def step(problem, state, key):
        theta, inner, order, count = state
        n = problem.data[0].shape[0]
        chosen, order = _draw(key, n, batch, sampling, order, count)
        updates, inner = transformation.update(batch_gradient(problem, theta, chosen), inner, theta)
        return optax.apply_updates(theta, updates), inner, order, count + 1

    return Method(init, step, lambda state: state[0])


@implements("B05.24", "E03.16", "M18.02", "T02.10", "M07.03", "M07.05", "M07.14")
def sgd(step, *, batch: int = 1, sampling: Sampling = "with") -> Method:
    r"""$\theta_{k+1}=\theta_k-\eta_kG_k$ with the mean gradient $G_k$ of a random batch; `step` is a number or a
    schedule.
    """
    return minibatch(optax.sgd(step), batch=batch, sampling=sampling)


def batch_gradient(problem: FiniteSum, theta, chosen):
    r"""$\frac1B\sum_{i\in S}\nabla f_i(\theta)$ for the indices $S$ in `chosen`."""
    examples = tuple(a[chosen] for a in problem.data)
    return jax.vmap(lambda *example: jax.grad(problem.term)(theta, *example))(*examples).mean(0)


@implements("B05.28")
def averaged(method: Method | optax.GradientTransformation) -> Method:
    r"""Polyak-Ruppert averaging: the same steps, but the point is
    $\bar\theta_{k+1}=\frac k{k+1}\bar\theta_k+\frac1{k+1}\theta_{k+1}$.

    It is the mean of $\theta_1,\dots,\theta_{k+1}$; the start does not count.
    """
    if isinstance(method, optax.GradientTransformation):
        method = of_optax(method)
    if not isinstance(method, Method):
        raise TypeError(f"method must be a Method or an Optax transformation, got {type(method).__name__}.")

    def init(problem, theta):
        return method.init(problem, theta), theta, jnp.zeros((), int)

    def step(problem, state, key):
        inner, mean, k = state
        inner = method.step(problem, inner, key)
        return inner, mean + (method.point(inner) - mean) / (k + 1), k + 1

    return Method(init, step, lambda state: state[1])


@implements("T02.24", "T02.26")
def best_iterate(path: Path):
    r"""The iterate with the least gradient among $\theta_0,\dots,\theta_{K-1}$: what the theorem returns.

    It needs the true gradients, which the method does not see; `random_iterate` does without.
    """
    return _path(path).theta[jnp.argmin(path.gradient_norm[:-1])]


@implements("B05.30")
def random_iterate(path: Path, key):
    r"""One of $\theta_0,\dots,\theta_{K-1}$, each as likely: its expected squared gradient is the average along the
    path.
    """
    return _path(path).theta[jax.random.randint(key, (), 0, path.theta.shape[0] - 1)]


def _path(path):
    if not isinstance(path, Path) or path.theta.shape[0] < 2:
        raise TypeError(f"path must be a Path of at least one step, got {type(path).__name__}.")
    return path


def _draw(key, n, batch, sampling, order, count):
    """The indices of the next batch, and the order of the epoch it belongs to."""
    if sampling == "with":
        return jax.random.randint(key, (batch,), 0, n), order
    if sampling == "without":
        return jax.random.choice(key, n, (batch,), replace=False), order
    place = count % (n // batch)
    order = jax.lax.cond(place == 0, lambda: jax.random.permutation(key, n), lambda: order)
    return jax.lax.dynamic_slice(order, (place * batch,), (batch,)), order
