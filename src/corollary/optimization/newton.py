r"""Newton's method, its approximations by a part of the Hessian, and the local models that they minimise."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import concrete, one_of, positive, real
from corollary.catalog import implements
from corollary.optimization.minimize import Method


@implements("B05.09", "M17.05", "T02.22")
def newton(damping: Scalar = 1.0) -> Method:
    r"""$\theta_{k+1}=\theta_k-\alpha\,[\nabla^2f(\theta_k)]^{-1}\nabla f(\theta_k)$ for a vector $\theta$.

    Goes to the stationary point of the local quadratic model, a minimum only where the Hessian is positive definite.
    """
    damping = positive("damping", real("damping", damping, ""))
    return _method(jnp.linalg.solve, damping)


@implements("B05.10")
def block_newton(blocks: Float[ArrayLike, "d"], damping: Scalar = 1.0) -> Method:
    r"""$\theta_{k+1}=\theta_k-\alpha\,B(\theta_k)^{-1}\nabla f(\theta_k)$, $B$ the Hessian within blocks.

    `blocks` (d,) names the block of each coordinate: `arange(d)` keeps the diagonal, zeros keep everything. Near a
    minimum the error contracts by the spectral radius of $I-\alpha B^{-1}H$, at most $\|B^{-1}\|\|H-B\|$ for
    $\alpha=1$. Blocks of one size $b$ are solved one by one, in $db^2$ operations instead of $d^3$.
    """
    blocks, damping = real("blocks", blocks, "d"), positive("damping", real("damping", damping, ""))
    if concrete(blocks):
        names, sizes = np.unique(np.asarray(blocks), return_counts=True)
        if (sizes == sizes[0]).all():
            members = np.argsort(np.asarray(blocks), kind="stable").reshape(len(names), -1)
            return _method(lambda hessian, gradient: _by_blocks(members, hessian, gradient), damping)
    together = blocks[:, None] == blocks
    return _method(lambda hessian, gradient: jnp.linalg.solve(jnp.where(together, hessian, 0), gradient), damping)


@implements("T02.02", "B05.09")
def taylor_model(f: Callable, centre: Float[ArrayLike, "..."], order: int = 2) -> Callable:
    r"""$w\mapsto f(c)+\nabla f(c)\cdot(w-c)+\frac12(w-c)^\top\nabla^2f(c)(w-c)$; `order` 1 leaves out the last term."""
    f, centre, order = _function(f), real("centre", centre), one_of("order", order, (1, 2))
    value, slope = jax.value_and_grad(f)(centre)

    def model(w):
        move = w - centre
        linear = value + jnp.vdot(slope, move)
        if order == 1:
            return linear
        return linear + 0.5 * jnp.vdot(move, jax.jvp(jax.grad(f), (centre,), (move,))[1])

    return model


@implements("B05.11")
def isotropic_model(f: Callable, centre: Float[ArrayLike, "..."], step: Scalar) -> Callable:
    r"""$w\mapsto f(c)+\nabla f(c)\cdot(w-c)+\frac1{2\eta}\|w-c\|^2$, whose minimiser is the gradient step; nowhere
    below an $L$-smooth $f$ if $\eta\le1/L$.
    """
    linear, centre = taylor_model(f, centre, 1), real("centre", centre)
    step = positive("step", real("step", step, ""))
    return lambda w: linear(w) + jnp.sum((w - centre) ** 2) / (2 * step)


def _by_blocks(members, hessian, gradient):
    """The blocks whose coordinates are the rows of `members` (m, b), each solved for itself."""
    if members.shape[1] == 1:
        return gradient / jnp.diagonal(hessian)
    # one after the other: batched decompositions in one program can wait for each other's threads for ever
    parts = hessian[members[:, :, None], members[:, None, :]], gradient[members]
    solved = jax.lax.map(lambda part: jnp.linalg.solve(*part), parts)
    return jnp.zeros_like(gradient).at[members].set(solved)


def _method(solve, damping):
    def step(problem, theta, key):
        return theta - damping * solve(problem.hessian(theta), problem.gradient(theta))

    return Method(lambda problem, theta: real("start", theta, "d"), step, lambda theta: theta)


def _function(f):
    if not callable(f):
        raise TypeError(f"f must be a function of a point, got {type(f).__name__}.")
    return f
