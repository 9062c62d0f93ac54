r"""Mixtures fitted by raising the evidence lower bound in turns: in the posterior, and in the model."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import labels, real, whole, within
from corollary.catalog import implements
from corollary.generative.mixture import GaussianMixture


class FittedMixture(NamedTuple):
    """The mixture after the last step, and the mean lower bound of each step's posterior (of EM: the likelihood)."""

    mixture: GaussianMixture
    bounds: jax.Array

    __repr__ = shown


@implements("T14.02")
def em(mixture: GaussianMixture, x: Float[ArrayLike, "n d"], steps: int) -> FittedMixture:
    r"""Expectation and maximisation: posteriors of the components, then the best mixture for these.

    `bounds` holds the mean log-likelihood before each step and after the last; it never falls. A component that all
    mass leaves, or that shrinks to a point, ends in values that are not finite.

    >>> x = jnp.array([[0.0], [0.1], [3.0], [3.1]])
    >>> start = GaussianMixture([0.5, 0.5], [[0.5], [2.0]], [[[1.0]], [[1.0]]])
    >>> [round(float(m), 2) for m in em(start, x, 20).mixture.means[:, 0]]
    [0.05, 3.05]
    """
    x = _points(mixture, x)

    def advance(mixture, _):
        joint = jax.vmap(mixture.log_joint)(x)
        likelihood = jnp.mean(jax.scipy.special.logsumexp(joint, axis=1))
        return _maximised(x, jax.nn.softmax(joint)), likelihood

    mixture, bounds = lax.scan(advance, mixture, length=whole("steps", steps))
    return FittedMixture(mixture, jnp.append(bounds, jnp.mean(jax.vmap(mixture.log_prob)(x))))


@implements("T14.10")
def variational_em(
    mixture: GaussianMixture,
    x: Float[ArrayLike, "n d"],
    steps: int,
    *,
    step: Scalar = 1.0,
    groups: Int[ArrayLike, "n"] | None = None,
) -> FittedMixture:
    r"""The lower bound raised in turns, with posteriors that need not be exact.

    Each turn moves $q(h|x)$ from uniform ones by `step` towards the posterior along $q\propto q^{1-s}p(h|x)^s$, a step
    of mirror ascent, then takes the best mixture for it. `step=1` is the exact posterior, and thereby `em`. Examples
    with one label of `groups`, from 0 to n - 1, share one $q$, the best for all of them: a family that does not hold
    the posterior.
    `bounds` holds the mean lower bound of each turn, after its first half; it never falls.
    """
    x, step = _points(mixture, x), within("step", real("step", step, ""), 0.0, 1.0, open="low")
    if groups is not None:
        groups = labels("groups", groups, len(x), "n", {"n": len(x)})

    def together(joint):
        """The mean over each group, for all that are in it."""
        if groups is None:
            return joint
        totals = jax.ops.segment_sum(joint, groups, len(x))
        return (totals / jnp.maximum(jnp.bincount(groups, length=len(x)), 1)[:, None])[groups]

    def advance(carry, _):
        mixture, log_q = carry
        joint = jax.vmap(mixture.log_joint)(x)
        log_q = jax.nn.log_softmax((1 - step) * log_q + step * together(joint))
        q = jnp.exp(log_q)
        return (_maximised(x, q), log_q), jnp.mean(jnp.sum(q * (joint - log_q), 1))

    uniform = jnp.full((len(x), mixture.weights.size), -jnp.log(mixture.weights.size), x.dtype)
    (mixture, _), bounds = lax.scan(advance, (mixture, uniform), length=whole("steps", steps))
    return FittedMixture(mixture, bounds)


def _points(mixture, x) -> Array:
    if not isinstance(mixture, GaussianMixture):
        raise TypeError(f"mixture must be a GaussianMixture to start from, got {type(mixture).__name__}.")
    return real("x", x, f"n {mixture.means.shape[1]}")


def _maximised(x, q):
    """The mixture with the largest mean of ln p(x, h) under the posteriors q (n, k)."""
    mass = q.sum(0)
    means = q.T @ x / mass[:, None]
    apart = x - means[:, None]
    covariances = jnp.einsum("nk,kni,knj->kij", q, apart, apart) / mass[:, None, None]
    return GaussianMixture(mass / len(x), means, covariances)
