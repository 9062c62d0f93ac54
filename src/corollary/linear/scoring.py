r"""Scoring (standardisation) of features, and how the optimum moves under an affine change of features."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import concrete, real, whole
from corollary.catalog import implements


@implements("M03.14")
class Standardiser(eqx.Module):
    r"""$x\mapsto(x-\mu)/\sigma$ per feature, with the statistics of the data it was fitted on."""

    mean: jax.Array
    scale: jax.Array

    @classmethod
    def fit(cls, x: Float[ArrayLike, "..."], ddof: int = 1) -> "Standardiser":
        """Mean and standard deviation over the first axis; `ddof` 1 divides by n - 1, `ddof` 0 by n."""
        x, ddof = _features("x", x), whole("ddof", ddof, 0, 1)
        if x.shape[0] <= ddof:
            raise ValueError(f"x must have more than {ddof} row(s), got {x.shape[0]}.")
        scale = jnp.std(x, axis=0, ddof=ddof)
        if concrete(x) and (np.ptp(np.asarray(x), axis=0) == 0).any():
            raise ValueError("x must vary in every feature: a constant one has no scale.")
        return cls(x.mean(axis=0), scale)

    def transform(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """`x` in units of standard deviations from the mean; any rows, new ones too."""
        return (self._same(x) - self.mean) / self.scale

    def inverse(self, u: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The features whose scores are `u`."""
        return self._same(u, "u") * self.scale + self.mean

    def _same(self, x, name="x"):
        x = real(name, x)
        tail = self.mean.shape
        if x.shape[len(x.shape) - len(tail) :] != tail:
            raise ValueError(f"{name} must end in shape {tail} like the fitted features, got {x.shape}.")
        return x


@implements("M03.15")
def theta_in_scores(
    theta: Float[ArrayLike, "p"], mean: Float[ArrayLike, "..."], scale: Float[ArrayLike, "..."]
) -> Float[Array, "p"]:
    r"""The same model in the coordinates $u$ of $x=\sigma u+\mu$: weights $\sigma^\top w$, bias $b+w\cdot\mu$.

    `scale` is a number, one number per feature, or an invertible (d, d) matrix.
    """
    w, b, mean, matrix = _affine(theta, mean, scale)
    return jnp.append(matrix.T @ w, b + w @ mean)


@implements("M03.15")
def theta_from_scores(
    theta: Float[ArrayLike, "p"], mean: Float[ArrayLike, "..."], scale: Float[ArrayLike, "..."]
) -> Float[Array, "_"]:
    r"""The inverse of `theta_in_scores`: from the optimum for $u$ to the optimum for $x=\sigma u+\mu$."""
    w, b, mean, matrix = _affine(theta, mean, scale)
    w = jnp.linalg.solve(matrix.T, w)
    return jnp.append(w, b - w @ mean)


def _features(name, x):
    x = real(name, x)
    return real(name, x, "n" if x.ndim == 1 else "n d")


def _affine(theta, mean, scale):
    theta = real("theta", theta, "p")
    d = theta.shape[0] - 1
    if d < 1:
        raise ValueError(f"theta must hold at least one weight and the bias, got shape {theta.shape}.")
    mean, scale = real("mean", mean), real("scale", scale)
    if mean.shape not in ((), (d,)):
        raise ValueError(f"mean must be a number or have shape ({d},), got {mean.shape}.")
    if scale.shape not in ((), (d,), (d, d)):
        raise ValueError(f"scale must be a number or have shape ({d},) or ({d}, {d}), got {scale.shape}.")
    matrix = scale if scale.ndim == 2 else jnp.diag(jnp.broadcast_to(scale, (d,)))
    if concrete(matrix) and np.linalg.matrix_rank(np.asarray(matrix)) < d:
        raise ValueError("scale must be invertible: it must not collapse a feature.")
    return theta[:-1], theta[-1], jnp.broadcast_to(mean, (d,)), matrix
