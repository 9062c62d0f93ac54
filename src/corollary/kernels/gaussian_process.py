r"""Gaussian processes: random functions of which any finitely many values are jointly normal."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import real, whole, within
from corollary.catalog import implements
from corollary.kernels.dynamics import Law
from corollary.kernels.gram import gram


@implements("B07.09")
class GaussianProcess(eqx.Module):
    r"""$f\sim GP(\mu,\Sigma)$: $(f(t_i))_i\sim\mathcal N((\mu(t_i)),(\Sigma(t_i,t_j)))$ for all finite sets of points.

    `kernel` $\Sigma$ is a function of two points, `mean` $\mu$ of one (zero unless given). Points are in rows.
    """

    kernel: Callable
    mean: Callable | None = None

    def __check_init__(self):
        if not callable(self.kernel):
            raise TypeError(f"kernel must be a function of two points, got {type(self.kernel).__name__}.")
        if self.mean is not None and not callable(self.mean):
            raise TypeError(f"mean must be a function of a point, got {type(self.mean).__name__}.")

    def law(self, t: Float[ArrayLike, "..."]) -> Law:
        """Mean and covariance of the values at the points `t`."""
        t = _points("t", t)
        return Law(self._mean(t), gram(self.kernel, t))

    @implements("B07.09")
    def sample(self, t: Float[ArrayLike, "..."], size: int, *, key: PRNGKeyArray) -> Float[Array, "size n"]:
        """Values at the points `t` of `size` functions drawn from the prior: (size, points)."""
        return sample_law(self.law(t), size, key=key)

    @implements("B07.09", "B07.11")
    def condition(
        self, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "n"], t: Float[ArrayLike, "..."], noise: Scalar = 0.0
    ) -> Law:
        r"""The law at the points `t` given values `y` at `x`, seen with normal noise of variance `noise`.

        Mean $\mu(t)+\Sigma(t,x)(\Sigma(x,x)+\sigma^2I)^{-1}(y-\mu(x))$ and covariance
        $\Sigma(t,t)-\Sigma(t,x)(\Sigma(x,x)+\sigma^2I)^{-1}\Sigma(x,t)$. Without noise $\Sigma(x,x)$ must be regular.
        """
        x, t = _points("x", x), _points("t", t)
        y = real("y", y, "n", {"n": x.shape[0]})
        noise = within("noise", real("noise", noise, ""), 0.0).astype(x.dtype)
        seen = gram(self.kernel, x) + noise * jnp.eye(x.shape[0], dtype=x.dtype)
        cross = gram(self.kernel, t, x)
        # one system for both, by Cholesky's factor: half the work, and the covariance stays semidefinite
        low = jnp.linalg.cholesky(seen)
        half = jax.scipy.linalg.solve_triangular(low, cross.T, lower=True)
        gap = jax.scipy.linalg.solve_triangular(low, y - self._mean(x), lower=True)
        return Law(self._mean(t) + half.T @ gap, gram(self.kernel, t) - half.T @ half)

    def _mean(self, t):
        return jnp.zeros(t.shape[0], t.dtype) if self.mean is None else jax.vmap(self.mean)(t)


@implements("B07.09")
def sample_law(law: Law, size: int, *, key: PRNGKeyArray) -> Float[Array, "size n"]:
    """Draws of a Gaussian vector, (size, points), also where its covariance is singular."""
    if not isinstance(law, Law):
        raise TypeError(f"law must be a Law, as GaussianProcess.law returns it, got {type(law).__name__}.")
    size = whole("size", size)
    values, vectors = jnp.linalg.eigh((law.covariance + law.covariance.T) / 2)
    root = vectors * jnp.sqrt(jnp.maximum(values, 0))  # a Gaussian kernel's small eigenvalues round to below zero
    return law.mean + jax.random.normal(key, (size, law.mean.shape[0]), root.dtype) @ root.T


def _points(name, value):
    value = real(name, value)
    return real(name, value[:, None] if value.ndim == 1 else value, "n d")
