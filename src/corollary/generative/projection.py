r"""The law of a family that is nearest to a given one in relative entropy, by descent on quadrature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import PyTree

from corollary._show import shown
from corollary._validate import whole
from corollary.catalog import implements
from corollary.generative.elbo import posterior_rule


class Projection(NamedTuple):
    r"""`theta`, the `law` it stands for, and `values`: $\mathrm{KL}(q|\nu)$ by step, up to what normalises $\nu$."""

    theta: Any
    law: Any
    values: jax.Array

    __repr__ = shown


@implements("M15.03")
def kl_projection(
    log_density: Callable, family: Callable, start: PyTree, *, steps: int = 100, nodes: int = 80
) -> Projection:
    r"""$\min_\theta\mathrm{KL}(q_\theta|\nu)$ from `start`, for laws `family(theta)` in one or two dimensions.

    `family(theta)` is a `DiagonalGaussian`, a `Gaussian` or a `GaussianMixture`; `log_density(z)` is $\ln\nu$, which
    need not be normalised: with $\ln p(x,z)$ for a given $x$ the least value is minus the largest lower bound. Descent
    by L-BFGS on a quadrature of `nodes` points per axis and component finds a minimum near the start, not all of them.

    >>> target = lambda z: -(z[0] - 2.0) ** 2 / 18
    >>> near = kl_projection(target, lambda t: DiagonalGaussian(t[:1], jnp.exp(t[1:])), jnp.zeros(2), steps=30)
    >>> [round(float(v), 3) for v in (near.law.mean[0], near.law.deviation[0])]
    [2.0, 3.0]
    """
    for name, value in (("log_density", log_density), ("family", family)):
        if not callable(value):
            raise TypeError(f"{name} must be a function, got {type(value).__name__}.")

    def objective(theta):
        law = family(theta)
        z, weights = posterior_rule(law, nodes)
        return weights @ (jax.vmap(law.log_prob)(z) - jax.vmap(log_density)(z))

    method = optax.lbfgs()
    slopes = optax.value_and_grad_from_state(objective)

    def advance(carry, _):
        theta, memory = carry
        value, slope = slopes(theta, state=memory)
        change, memory = method.update(slope, memory, theta, value=value, grad=slope, value_fn=objective)
        return (optax.apply_updates(theta, change), memory), value

    (theta, _), values = lax.scan(advance, (start, method.init(start)), length=whole("steps", steps))
    return Projection(theta, family(theta), jnp.append(values, objective(theta)))
