"""Distributions on the line by mass or by density, the expectation as an integral of the tail, and Gaussians."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Complex, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import concrete, real, whole, within
from corollary.catalog import implements
from corollary.foundations.quadrature import half_line, panels


@implements("B01.28")
class Discrete(eqx.Module):
    """A random variable with finitely many values, each with its mass."""

    values: jax.Array
    masses: jax.Array

    def __init__(self, values: Float[ArrayLike, "k"], masses: Float[ArrayLike, "k"]):
        dims = {}
        self.values = real("values", values, "k", dims)
        self.masses = within("masses", real("masses", masses, "k", dims), 0.0)
        if concrete(self.masses) and abs(total := float(np.sum(np.asarray(self.masses, float))) - 1) > 1e-5:
            raise ValueError(f"masses must add up to 1, got {total + 1:g}.")

    def pmf(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$\Pr(X=x)$."""
        return jnp.sum(jnp.where(self.values == real("x", x)[..., None], self.masses, 0), axis=-1)

    def cdf(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$\Pr(X\le x)$."""
        return jnp.sum(jnp.where(self.values <= real("x", x)[..., None], self.masses, 0), axis=-1)

    def probability(self, a: Float[ArrayLike, "..."], b: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$\Pr(a\le X\le b)$, both ends included."""
        a, b = real("a", a)[..., None], real("b", b)[..., None]
        return jnp.sum(jnp.where((a <= self.values) & (self.values <= b), self.masses, 0), axis=-1)

    def expectation(self, g: Callable = lambda x: x) -> Float[Array, ""]:
        r"""$\mathbb E\,g(X)=\sum_ig(x_i)p_i$."""
        return jnp.sum(self.masses * jax.vmap(g)(self.values))


@implements("B01.28")
class Continuous(eqx.Module):
    """A random variable with a density on the interval from `low` to `high`; all integrals by Gauss-Legendre."""

    density: callable = eqx.field(static=True)
    low: jax.Array
    high: jax.Array
    cells: int = eqx.field(static=True)

    def __init__(self, density: Callable, low: Scalar, high: Scalar, *, cells: int = 100):
        if not callable(density):
            raise TypeError(f"density must be a function of a number, got {type(density).__name__}.")
        self.density, self.cells = density, whole("cells", cells)
        self.low, self.high = real("low", low, ""), real("high", high, "")
        if concrete(self.low) and concrete(self.high) and not float(self.low) < float(self.high):
            raise ValueError(f"low must be below high, got {self.low} and {self.high}.")
        mass = self.probability(self.low, self.high)
        if concrete(mass) and abs(float(mass) - 1) > 1e-4:
            raise ValueError(f"density must have the integral 1 from low to high, got {float(mass):.6g}.")

    def pdf(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        x = real("x", x)
        inside = (self.low <= x) & (x <= self.high)
        return jnp.where(inside, jnp.vectorize(self.density)(jnp.clip(x, self.low, self.high)), 0)

    def probability(self, a: Scalar, b: Scalar) -> Float[Array, "..."]:
        r"""$\Pr(a\le X\le b)=\int_a^bf$ (1.29); zero for a single point."""
        a, b = (jnp.clip(real(name, end, ""), self.low, self.high) for name, end in (("a", a), ("b", b)))
        return self._integral(lambda x: 1.0, a, jnp.maximum(a, b))

    def cdf(self, x: Scalar) -> Float[Array, ""]:
        r"""$F(x)=\int_{-\infty}^xf$ (1.30) at one point; its derivative is the density."""
        return self.probability(self.low, x)

    def expectation(self, g: Callable = lambda x: x) -> Float[Array, ""]:
        r"""$\mathbb E\,g(X)=\int g(x)f(x)\,dx$."""
        return self._integral(g, self.low, self.high)

    def _integral(self, g, a, b):
        x, w = panels(a + (b - a) * jnp.linspace(0, 1, self.cells + 1), 8)
        return jnp.sum(w * jax.vmap(lambda x: g(x) * self.density(x))(x))


@implements("B01.29")
def expectation_from_tail(survival: Callable, breaks: Float[ArrayLike, "k"] = (0.0,)) -> Float[Array, ""]:
    r"""$\mathbb EX=\int_0^\infty\Pr(X\ge t)\,dt$ for $X\ge0$, from `survival`, the function $t\mapsto\Pr(X\ge t)$.

    `breaks` are the points from 0 on where the function has a kink or a jump, in increasing order: between them it
    is integrated by Gauss-Legendre, after the last one by a rule for half-lines that copes with heavy tails.
    """
    if not callable(survival):
        raise TypeError(f"survival must be a function of a number, got {type(survival).__name__}.")
    breaks = real("breaks", breaks, "k")
    if concrete(breaks) and (np.asarray(breaks)[0] < 0 or (np.diff(np.asarray(breaks)) < 0).any()):
        raise ValueError("breaks must be zero or more and increasing.")
    edges = jnp.concatenate([jnp.zeros(1, breaks.dtype), breaks])
    value = jax.vmap(survival)
    x, w = panels(edges, 24)
    t, v = (jnp.asarray(a, breaks.dtype) for a in half_line())
    return jnp.sum(w * value(x)) + jnp.sum(v * value(edges[-1] + t))


@implements("B01.35")
class Gaussian(eqx.Module):
    r"""$\mathcal N(\mu,\Sigma)$ on $\mathbb R^k$. $\Sigma$ may be singular: then there is no density."""

    mean: jax.Array
    covariance: jax.Array

    def __init__(self, mean: Float[ArrayLike, "k"], covariance: Float[ArrayLike, "k k"]):
        dims = {}
        self.mean, self.covariance = real("mean", mean, "k", dims), real("covariance", covariance, "k k", dims)
        if concrete(self.covariance):
            c = np.asarray(self.covariance, float)
            scale = 1e3 * float(jnp.finfo(self.covariance.dtype).eps) * np.abs(c).max()
            if (np.abs(c - c.T) > scale).any() or np.linalg.eigvalsh(c)[0] < -scale:
                raise ValueError("covariance must be symmetric and positive semi-definite.")

    def density(self, x: Float[ArrayLike, "_"]) -> Float[Array, ""]:
        r"""$(2\pi)^{-k/2}\det(\Sigma)^{-1/2}\exp(-\frac12(x-\mu)^\top\Sigma^{-1}(x-\mu))$ at one point."""
        x = real("x", x, str(self.mean.size)) - self.mean
        _, logdet = jnp.linalg.slogdet(2 * jnp.pi * self.covariance)
        if concrete(logdet) and not np.isfinite(np.asarray(logdet)):
            raise ValueError("covariance is singular: this Gaussian has no density.")
        return jnp.exp(-0.5 * (logdet + x @ jnp.linalg.solve(self.covariance, x)))

    def log_prob(self, x: Float[ArrayLike, "_"]) -> Float[Array, ""]:
        r"""The logarithm of the density at one point, also where the density itself underflows."""
        x = real("x", x, str(self.mean.size)) - self.mean
        factor = jnp.linalg.cholesky(self.covariance)
        white = jax.scipy.linalg.solve_triangular(factor, x, lower=True)
        return -0.5 * (white @ white + x.size * jnp.log(2 * jnp.pi)) - jnp.sum(jnp.log(jnp.diagonal(factor)))

    def kl(self, other: "Gaussian") -> Float[Array, ""]:
        r"""$\frac12(\mathrm{tr}\,\Lambda^{-1}\Sigma+(\mu-m)^\top\Lambda^{-1}(\mu-m)-k-\ln\det\Lambda^{-1}\Sigma)$.

        The relative entropy to the `other` law, $N(m,\Lambda)$; infinite where only this law has no density.
        """
        if not isinstance(other, Gaussian) or other.mean.shape != self.mean.shape:
            raise TypeError(f"other must be a Gaussian of dimension {self.mean.size}.")
        ratio = jnp.linalg.solve(other.covariance, self.covariance)
        apart = self.mean - other.mean
        sign, logdet = jnp.linalg.slogdet(ratio)
        square = apart @ jnp.linalg.solve(other.covariance, apart)
        value = 0.5 * (jnp.trace(ratio) + square - apart.size - logdet)
        return jnp.where(sign > 0, value, jnp.inf)

    def characteristic(self, t: Float[ArrayLike, "_"]) -> Complex[Array, ""]:
        r"""$\mathbb E\,e^{it^\top X}=\exp(it^\top\mu-\frac12t^\top\Sigma t)$, which determines the law."""
        t = real("t", t, str(self.mean.size))
        return jnp.exp(1j * (t @ self.mean) - 0.5 * t @ self.covariance @ t)

    def affine(self, a: Float[ArrayLike, "p k"], b: Float[ArrayLike, "p"]) -> "Gaussian":
        r"""The law of $AX+b$: $\mathcal N(A\mu+b,A\Sigma A^\top)$, also where that has no density."""
        dims = {"k": self.mean.size}
        a, b = real("a", a, "p k", dims), real("b", b, "p", dims)
        spread = a @ self.covariance @ a.T
        return Gaussian(a @ self.mean + b, (spread + spread.T) / 2)

    def sample(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "_ _"]:
        """Independent samples, of shape (count, k)."""
        values, basis = jnp.linalg.eigh(self.covariance)
        noise = jax.random.normal(key, (whole("count", count), self.mean.size), self.mean.dtype)
        return self.mean + (noise * jnp.sqrt(jnp.maximum(values, 0))) @ basis.T
