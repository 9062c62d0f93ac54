r"""MaSS, Nesterov's method with a compensation term, which accelerates stochastic gradients (Liu and Belkin)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import ArrayLike, Float

from corollary._engine.trees import each
from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, within
from corollary.catalog import implements
from corollary.optimization._arguments import asked_for, offset_of, positive_of, share_of


class MassParameters(NamedTuple):
    """Step, compensation and momentum of MaSS."""

    step: jax.Array
    compensation: jax.Array
    momentum: jax.Array

    __repr__ = shown


@implements("M18.24")
def mass(step: Scalar, compensation: Scalar, momentum: Scalar) -> optax.GradientTransformationExtraArgs:
    r"""$\theta_{k+1}=u_k-\eta_1g_k$, $u_{k+1}=(1+\gamma)\theta_{k+1}-\gamma\theta_k+\eta_2g_k$ with $g_k$ the
    stochastic gradient at $u_k$, from $u_0=\theta_0$.

    Without compensation, $\eta_2=0$, it is Nesterov's method. The state is $u_k$, where `gradient_fn` is asked.
    """
    eta, back = positive_of("step", step), offset_of("compensation", compensation)
    gamma = share_of("momentum", momentum)

    def update(updates, u, params, *, gradient_fn=None, **extra):
        g = asked_for("gradient_fn", gradient_fn)(u)
        new = each(lambda u, g: u - eta * g, u, g)
        ahead = each(lambda new, theta, g: (1 + gamma) * new - gamma * theta + back * g, new, params, g)
        return each(jnp.subtract, new, params), ahead

    return optax.GradientTransformationExtraArgs(lambda params: params, update)


@implements("M18.24")
def mass_parameters(
    L1: Float[ArrayLike, "..."], mu: Float[ArrayLike, "..."], statistical_condition: Float[ArrayLike, "..."]
) -> MassParameters:
    r"""The parameters with which MaSS contracts least squares by $1-\alpha$, $\alpha=1/\sqrt{\kappa\tilde\kappa}$.

    With inputs $x$, $H=\mathbb Exx^\top\succeq\mu I$: $L_1$ and $\tilde\kappa$ are the least numbers with
    $\mathbb E\|x\|^2xx^\top\preceq L_1H$ and $\mathbb E(x^\top H^{-1}x)xx^\top\preceq\tilde\kappa H$, and
    $\kappa=L_1/\mu$. Then $\eta_1=\frac1{L_1}$, $\gamma=\frac{1-\alpha}{1+\alpha}$ and
    $\eta_2=\frac{\eta_1}{1+\alpha}(1-\frac1{\tilde\kappa})$.
    """
    L1, mu = positive("L1", real("L1", L1)), positive("mu", real("mu", mu))
    statistical = within("statistical_condition", real("statistical_condition", statistical_condition), 1.0)
    within("mu over L1", mu / L1, 0.0, 1 + 1e-9, open="low")
    alpha = jnp.sqrt(mu / (L1 * statistical))
    return MassParameters(1 / L1, (1 - 1 / statistical) / (L1 * (1 + alpha)), (1 - alpha) / (1 + alpha))
