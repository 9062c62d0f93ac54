"""A problem: a function to minimise, together with what is known of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray, PyTree

from corollary._engine.trees import normal_like, size_of
from corollary._types import Scalar
from corollary._validate import positive, real, whole


class Problem(eqx.Module):
    r"""Minimise $f(\theta)$. The constants are exact or certified bounds; what is not known is None.

    `function(theta, *data)` is fixed, `data` are arrays, so that a family of problems is one `vmap`; $\theta$ is an
    array or any pytree of real arrays, of the shapes of `start`. `L` bounds the
    Lipschitz constant of the gradient, `mu` the strong convexity from below (0 for a merely convex function, None for
    one that is not convex), `pl` the Polyak-Łojasiewicz constant, `minimum` is $f^*$ and `minimiser` a point where it
    is attained.

    >>> Problem(lambda w: jnp.sum(w**2), (), jnp.ones(2)).gradient(jnp.array([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """

    function: Callable = eqx.field(static=True)
    data: tuple
    start: Any
    L: jax.Array | None = None
    mu: jax.Array | None = None
    pl: jax.Array | None = None
    minimum: jax.Array | None = None
    minimiser: Any = None

    def __call__(self, theta: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        return self.function(theta, *self.data)

    def gradient(self, theta: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return jax.grad(self)(theta)

    def hessian(self, theta: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return jax.hessian(self)(theta)

    def oracle(self, theta: PyTree, *, key: PRNGKeyArray) -> PyTree:
        """What a method sees in a step; without noise it is the gradient."""
        return self.gradient(theta)

    def seen(self, theta: PyTree, *, key: PRNGKeyArray) -> Float[Array, ""]:
        """The value that goes with it: of the batch that `oracle` draws with this key, or of $f$ itself."""
        return self(theta)


class FiniteSum(Problem):
    r"""$f(\theta)=\frac1n\sum_if_i(\theta)$ with $f_i(\theta)=$ `term(theta, *example)`, seen through minibatches.

    `data` are the arrays of the examples along their first axis. A step sees the mean gradient of `batch_size`
    examples, drawn with replacement.
    """

    term: Callable = eqx.field(static=True, kw_only=True)
    batch_size: int = eqx.field(static=True, default=1, kw_only=True)

    def gradients(self, theta: PyTree) -> PyTree:
        r"""$\nabla f_i(\theta)$ of every example: leaves of shape (n, ...)."""
        return jax.vmap(lambda *example: jax.grad(self.term)(theta, *example))(*self.data)

    def oracle(self, theta: PyTree, *, key: PRNGKeyArray) -> PyTree:
        return batch_gradient(self, theta, self._draw(key))

    def seen(self, theta: PyTree, *, key: PRNGKeyArray) -> Float[Array, ""]:
        return batch_value(self, theta, self._draw(key))

    def _draw(self, key):
        return jax.random.randint(key, (self.batch_size,), 0, self.data[0].shape[0])


def batch_gradient(problem: FiniteSum, theta: PyTree, chosen: Int[ArrayLike, "b"]) -> PyTree:
    r"""$\frac1B\sum_{i\in S}\nabla f_i(\theta)$ for the indices $S$ in `chosen`."""
    examples = tuple(a[chosen] for a in problem.data)
    slopes = jax.vmap(lambda *example: jax.grad(problem.term)(theta, *example))(*examples)
    return jax.tree.map(lambda slope: slope.mean(0), slopes)


def batch_value(problem: FiniteSum, theta: PyTree, chosen: Int[ArrayLike, "b"]) -> Float[Array, ""]:
    r"""$\frac1B\sum_{i\in S}f_i(\theta)$ for the indices $S$ in `chosen`."""
    examples = tuple(a[chosen] for a in problem.data)
    return jax.vmap(lambda *example: problem.term(theta, *example))(*examples).mean()


def finite_sum(
    term: Callable, data: tuple, start: Float[ArrayLike, "..."], *, batch_size: int = 1, **known: Any
) -> FiniteSum:
    """The mean of `term(theta, *example)` over the examples in `data`, with what is `known` of it (`L`, `mu`, ...)."""
    batch_size = whole("batch_size", batch_size)
    data = tuple(real(f"data[{i}]", a) for i, a in enumerate(data))
    if not data or len({a.shape[:1] for a in data}) > 1 or data[0].ndim == 0:
        raise ValueError("data must be arrays with the examples along one first axis.")

    def mean(theta, *data):
        return jax.vmap(lambda *example: term(theta, *example))(*data).mean()

    return FiniteSum(mean, data, _arrays(start), term=term, batch_size=batch_size, **known)


def _arrays(start):
    """`start` as a pytree of arrays; a list of numbers is one array."""
    leaves = jax.tree.leaves(start)
    if isinstance(start, list | tuple) and all(isinstance(leaf, int | float) for leaf in leaves):
        return real("start", start)
    return jax.tree.map(lambda leaf: real("start", leaf), start)


class Noisy(Problem):
    r"""A problem whose oracle returns $\nabla f(\theta)+\sigma\xi$ with $\xi$ normal, $\mathbb E\|\xi\|^2=1$."""

    sigma: jax.Array = eqx.field(kw_only=True)

    def oracle(self, theta: PyTree, *, key: PRNGKeyArray) -> PyTree:
        noise, root = normal_like(key, theta), jnp.sqrt(size_of(theta))
        return jax.tree.map(lambda slope, xi: slope + self.sigma * (xi / root), self.gradient(theta), noise)


def noisy(problem: Problem, sigma: Scalar) -> Noisy:
    r"""`problem` seen through gradients with independent noise of variance $\sigma^2$ (its mean square norm)."""
    sigma = positive("sigma", real("sigma", sigma, ""))
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {type(problem).__name__}.")
    known = {name: getattr(problem, name) for name in ("L", "mu", "pl", "minimum", "minimiser")}
    return Noisy(problem.function, problem.data, problem.start, sigma=sigma, **known)
