r"""Gradient descent on a quadratic: the factor of every axis, the threshold, the best step.

`corollary.optimization.quadratic_descent` and `quadratic_flow` have the paths in closed form.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import positive, real, within
from corollary.catalog import implements


@implements("T02.20")
def condition_number(hessian: Float[ArrayLike, "d d"]) -> Array:
    r"""$\kappa=\lambda_{\max}/\lambda_{\min}$ of a symmetric positive semidefinite matrix, infinite if singular."""
    hessian = real("hessian", hessian, "d d")
    spectrum = jnp.abs(jnp.linalg.eigvalsh((hessian + hessian.T) / 2))
    least, most = spectrum.min(), spectrum.max()
    singular = least <= spectrum.size * jnp.finfo(spectrum.dtype).eps * most
    return jnp.where(singular, jnp.inf, most / jnp.where(singular, 1, least))


@implements("B05.12", "B05.13", "T02.19")
def quadratic_factor(spectrum: Float[ArrayLike, "d"], step: Float[ArrayLike, "..."]) -> Array:
    r"""$\max_i|1-\eta\lambda_i|$: the factor of the slowest axis in a step, of the value its square.

    Below 1, and gradient descent converges from everywhere, iff $0<\eta\lambda_i<2$ for all $i$. `step` may be an
    array: one factor for each.
    """
    spectrum, step = real("spectrum", spectrum, "d"), real("step", step)
    return jnp.abs(1 - step[..., None] * spectrum).max(-1)


@implements("B05.13")
def best_step(spectrum: Float[ArrayLike, "d"]) -> Array:
    r"""$\frac2{\lambda_{\max}+\lambda_{\min}}$, which makes the factor least: $\frac{\kappa-1}{\kappa+1}$."""
    spectrum = positive("spectrum", real("spectrum", spectrum, "d"))
    return 2 / (spectrum.max() + spectrum.min())


@implements("T02.19")
def steps_to_shrink(factor: Float[ArrayLike, "..."], epsilon: Float[ArrayLike, "..."]) -> Array:
    r"""$\lceil\ln\epsilon/\ln\rho\rceil$ steps of a factor $\rho<1$ shrink what there was to $\epsilon$ of it."""
    factor = within("factor", real("factor", factor), 0.0, 1.0, open="both")
    epsilon = within("epsilon", real("epsilon", epsilon), 0.0, 1.0, open="both")
    return jnp.ceil(jnp.log(epsilon) / jnp.log(factor))
