"""A problem: a function to minimise, together with what is known of it."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from corollary._validate import positive, real, whole


class Problem(eqx.Module):
    r"""Minimise $f(\theta)$. The constants are exact or certified bounds; what is not known is None.

    `function(theta, *data)` is fixed, `data` are arrays, so that a family of problems is one `vmap`. `L` bounds the
    Lipschitz constant of the gradient, `mu` the strong convexity from below (0 for a merely convex function, None for
    one that is not convex), `pl` the Polyak-Łojasiewicz constant, `minimum` is $f^*$ and `minimiser` a point where it
    is attained.
    """

    function: Callable = eqx.field(static=True)
    data: tuple
    start: jax.Array
    L: jax.Array | None = None
    mu: jax.Array | None = None
    pl: jax.Array | None = None
    minimum: jax.Array | None = None
    minimiser: jax.Array | None = None

    def __call__(self, theta):
        return self.function(theta, *self.data)

    def gradient(self, theta):
        return jax.grad(self)(theta)

    def hessian(self, theta):
        return jax.hessian(self)(theta)

    def oracle(self, theta, key):
        """What a method sees in a step; without noise it is the gradient."""
        return self.gradient(theta)


class FiniteSum(Problem):
    r"""$f(\theta)=\frac1n\sum_if_i(\theta)$ with $f_i(\theta)=$ `term(theta, *example)`, seen through minibatches.

    `data` are the arrays of the examples along their first axis. A step sees the mean gradient of `batch` examples,
    drawn with replacement.
    """

    term: Callable = eqx.field(static=True, kw_only=True)
    batch: int = eqx.field(static=True, default=1, kw_only=True)

    def gradients(self, theta):
        r"""$\nabla f_i(\theta)$ of every example: shape (n, ...)."""
        return jax.vmap(lambda *example: jax.grad(self.term)(theta, *example))(*self.data)

    def oracle(self, theta, key):
        n = self.data[0].shape[0]
        chosen = jax.random.randint(key, (self.batch,), 0, n)
        examples = tuple(a[chosen] for a in self.data)
        return jax.vmap(lambda *example: jax.grad(self.term)(theta, *example))(*examples).mean(0)


def finite_sum(term: Callable, data: tuple, start, *, batch: int = 1, **known) -> FiniteSum:
    """The mean of `term(theta, *example)` over the examples in `data`, with what is `known` of it (`L`, `mu`, ...)."""
    batch = whole("batch", batch)
    data = tuple(real(f"data[{i}]", a) for i, a in enumerate(data))
    if not data or len({a.shape[:1] for a in data}) > 1 or data[0].ndim == 0:
        raise ValueError("data must be arrays with the examples along one first axis.")

    def mean(theta, *data):
        return jax.vmap(lambda *example: term(theta, *example))(*data).mean()

    return FiniteSum(mean, data, real("start", start), term=term, batch=batch, **known)


class Noisy(Problem):
    r"""A problem whose oracle returns $\nabla f(\theta)+\sigma\xi$ with $\xi$ normal, $\mathbb E\|\xi\|^2=1$."""

    sigma: jax.Array = eqx.field(kw_only=True)

    def oracle(self, theta, key):
        noise = jax.random.normal(key, theta.shape, theta.dtype) / jnp.sqrt(theta.size)
        return self.gradient(theta) + self.sigma * noise


def noisy(problem: Problem, sigma) -> Noisy:
    r"""`problem` seen through gradients with independent noise of variance $\sigma^2$ (its mean square norm)."""
    sigma = positive("sigma", real("sigma", sigma, ""))
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {type(problem).__name__}.")
    known = {name: getattr(problem, name) for name in ("L", "mu", "pl", "minimum", "minimiser")}
    return Noisy(problem.function, problem.data, problem.start, sigma=sigma, **known)
