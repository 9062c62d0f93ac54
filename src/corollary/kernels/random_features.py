r"""Regression on features that are drawn once and kept: a network of which only the last layer is trained.

$f(x,\theta)=\frac1{\sqrt p}\theta\cdot\varphi(Wx+b)$, with the kernel
$K(x,x')=\frac1p\varphi(Wx+b)\cdot\varphi(Wx'+b)$. The model is linear in $\theta$, so that `flow_predictions` is its
evolution, exactly, at every $p$; for normal $\theta_0$ its law before training is that of a `GaussianProcess` with this
kernel, and afterwards `trained_law` of $(K,K)$, the posterior of that process.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements


@implements("B07.07", "B07.01")
class RandomFeatures(eqx.Module):
    r"""Features $\frac1{\sqrt p}\varphi(w_i\cdot x+b_i)$, $i\le p$, with rows $w_i$ of `weight` (p, d) and `bias` (p,).

    Made with `RandomFeatures.draw` or `fourier_features`. Called as `f(theta, x)` on points in the rows of x.
    """

    weight: jax.Array
    bias: jax.Array
    phi: Callable = eqx.field(static=True)

    @classmethod
    def draw(
        cls,
        dim: int,
        features: int,
        phi: Callable = jax.nn.relu,
        *,
        weight_std: Scalar = 1.0,
        bias_std: Scalar = 0.0,
        key: PRNGKeyArray,
    ) -> "RandomFeatures":
        r"""Weights from $\mathcal N(0,\sigma_w^2)$ and biases from $\mathcal N(0,\sigma_b^2)$."""
        dim, features = whole("dim", dim), whole("features", features)
        if not callable(phi):
            raise TypeError(f"phi must be a function that acts entrywise, got {type(phi).__name__}.")
        weight_std = positive("weight_std", real("weight_std", weight_std, ""))
        bias_std = real("bias_std", bias_std, "")
        weight_key, bias_key = jax.random.split(key)
        weight = weight_std * jax.random.normal(weight_key, (features, dim))
        return cls(weight, bias_std * jax.random.normal(bias_key, (features,)), phi)

    def features(self, x: Float[ArrayLike, "n d"]) -> Array:
        r"""$\phi(x)/\sqrt p$ of points in the rows: (n, p)."""
        x = real("x", x, "n d", {"d": self.weight.shape[1]})
        return self.phi(x @ self.weight.T + self.bias) / self.weight.shape[0] ** 0.5

    def kernel(self, x1: Float[ArrayLike, "n d"], x2: Float[ArrayLike, "m d"] | None = None) -> Float[Array, "n m"]:
        r"""$K(x,x')=\frac1p\langle\phi(x),\phi(x')\rangle$ at all pairs: (n1, n2)."""
        first = self.features(x1)
        return first @ (first if x2 is None else self.features(x2)).T

    def __call__(self, theta: Float[ArrayLike, "p"], x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        theta = real("theta", theta, "p", {"p": self.weight.shape[0]})
        return self.features(x) @ theta


@implements("B07.07")
def fourier_features(
    dim: int, features: int, *, width: Scalar = 1.0, paired: bool = False, key: PRNGKeyArray
) -> RandomFeatures:
    r"""Features $\sqrt{2/p}\cos(w\cdot x+b)$, $w\sim\mathcal N(0,I/h^2)$, $b$ uniform: those of a Gaussian kernel.

    $\mathbb E\,2\cos(w\cdot x+b)\cos(w\cdot x'+b)=e^{-\|x-x'\|^2/2h^2}$ with `width` $h$. `paired`: half as many
    frequencies, each with its cosine and its sine instead of a random phase; the kernel then depends on $x-x'$ only.
    """
    dim, features = whole("dim", dim), whole("features", features)
    width = positive("width", real("width", width, ""))
    if paired and features % 2:
        raise ValueError(f"features must be even for pairs of a cosine and a sine, got {features}.")
    weight_key, bias_key = jax.random.split(key)
    if paired:
        weight = jnp.repeat(jax.random.normal(weight_key, (features // 2, dim)), 2, axis=0) / width
        return RandomFeatures(weight, jnp.tile(jnp.array([0.0, -np.pi / 2]), features // 2), _wave)
    weight = jax.random.normal(weight_key, (features, dim)) / width
    return RandomFeatures(weight, jax.random.uniform(bias_key, (features,), maxval=2 * np.pi), _wave)


def fourier_error_bound(
    features: Float[ArrayLike, "..."], error: Float[ArrayLike, "..."], *, paired: bool = False
) -> Array:
    r"""$P(|\hat K(x,x')-K(x,x')|\ge\epsilon)\le2e^{-p\epsilon^2/8}$ for any two points, by Hoeffding's inequality.

    $p$ independent terms $2\cos\cos\in[-2,2]$; with `paired` features $\frac p2$ terms from $[-1,1]$ and
    $2e^{-p\epsilon^2/4}$.
    """
    features, error = positive("features", real("features", features)), positive("error", real("error", error))
    return jnp.minimum(2 * jnp.exp(-features * error**2 / (4 if paired else 8)), 1.0)


def fourier_uniform_bound(
    features: Float[ArrayLike, "..."], error: Float[ArrayLike, "..."], dim: int, diameter: Scalar, width: Scalar = 1.0
) -> Array:
    r"""A bound on the probability that some two points of a set of this `diameter` are off by `error` or more.

    For `paired` features: with $q=\frac p2$ frequencies the kernel is $\frac1q\sum\cos(w_i\cdot\Delta)$, $\Delta=x-x'$
    in a ball of radius $\ell$. Balls of radius $r\le2\ell$ cover it, at most $(4\ell/r)^d$ of them. At their centres
    the error is below $\epsilon/2$ but for probability $2(4\ell/r)^de^{-q\epsilon^2/8}$ (Hoeffding); between them it
    grows by at most $r$ times a slope of mean square at most $4\sigma^2$, $\sigma^2=d/h^2$, hence by less than
    $\epsilon/2$ but for $16r^2\sigma^2/\epsilon^2$ (Markov). The radius is the best one.
    """
    features, error = positive("features", real("features", features)), positive("error", real("error", error))
    dim, diameter = whole("dim", dim), positive("diameter", real("diameter", diameter, ""))
    width = positive("width", real("width", width, ""))
    log_net = jnp.log(2.0) + dim * jnp.log(4 * diameter) - features * error**2 / 16
    slope = 16 * dim / (width * error) ** 2
    # the derivative of (net r^-d + slope r²) vanishes at r^(d+2) = d net / (2 slope)
    best = jnp.exp((log_net + jnp.log(dim / (2 * slope))) / (dim + 2))
    r = jnp.minimum(best, 2 * diameter)
    return jnp.minimum(jnp.exp(log_net - dim * jnp.log(r)) + slope * r**2, 1.0)


def _wave(z):
    return 2**0.5 * jnp.cos(z)
