"""What kind of point a network has arrived at, from products with its Hessian alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from corollary._show import shown
from corollary._types import LossLike, NetworkLike, Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.landscape.operator import Curvature, hessian


class Point(NamedTuple):
    r"""The numbers by which the definitions decide, and `kind`, what they say.

    `least` and `largest` are the extreme eigenvalues of the Hessian, `error` bounds the distance of `least` from an
    eigenvalue, `direction` is a unit vector of the least curvature, pointing downhill, like the parameters.
    """

    gradient_norm: jax.Array
    least: jax.Array
    largest: jax.Array
    error: jax.Array
    direction: Any
    epsilon: jax.Array
    gamma: jax.Array

    def __repr__(self) -> str:
        return shown(self, ("kind", *self._fields))

    @property
    def kind(self) -> str:
        if self.gradient_norm > self.epsilon:
            return "none"
        if self.least < -self.gamma:
            return "saddle"
        return "minimum" if self.least > self.error else "second-order stationary"


@implements("T06.19", "T07.03")
def classify(
    network: NetworkLike,
    loss: LossLike | None = None,
    data: PyTree | None = None,
    *,
    epsilon: Scalar = 1e-3,
    gamma: Scalar | None = None,
    products: int = 1000,
) -> Point:
    r"""Minimum, saddle, $(\epsilon,\gamma)$-second-order stationary point, or none of these.

    - `none`: $\|\nabla\Lambda\|>\epsilon$.
    - `saddle`: stationary, and $\lambda_{\min}(\nabla^2\Lambda)<-\gamma$: the loss falls along `direction` and against
      it. This is proved by the direction itself, whether or not it is the steepest. (Maxima count as saddles.)
    - `minimum`: stationary, and the least eigenvalue found is positive beyond its error.
    - `second-order stationary`: stationary, no curvature below $-\gamma$ was found, and flat directions leave the rest
      open; the usual end of training.

    `gamma` is $\sqrt{\rho\epsilon}$ with $\rho=1$ unless given. `network`, `loss` and `data` as in `hessian`; or
    a `Curvature` made by `hessian` or `hessian_of` alone.

    >>> classify(hessian_of(lambda w: w[0] ** 2 - w[1] ** 2, jnp.zeros(2))).kind
    'saddle'
    """
    operator = network if isinstance(network, Curvature) else hessian(network, loss, data)
    if operator.kind != "Hessian":
        raise ValueError(f"classify needs the Hessian, got the {operator.kind}: use landscape.hessian.")
    epsilon = positive("epsilon", real("epsilon", epsilon, ""))
    gamma = jnp.sqrt(epsilon) if gamma is None else positive("gamma", real("gamma", gamma, ""))
    slope, unravel = ravel_pytree(operator.gradient())
    ends = operator.top(2, which="both", products=whole("products", products)) if operator.size > 1 else operator.top(1)
    least = ends.vectors[-1]
    downhill = jnp.where(least @ slope > 0, -least, least)
    return Point(
        jnp.linalg.norm(slope), ends.values[-1], ends.values[0], ends.residuals[-1], unravel(downhill), epsilon, gamma
    )
