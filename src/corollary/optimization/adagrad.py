r"""AdaGrad: steps divided by the root of the accumulated squared gradients, as a matrix, by coordinate, or as a number.

All are Optax transformations. They differ from `optax.adagrad` in where the offset stands: it puts both of its own
inside the root, $(u+u_0+\epsilon)^{-1/2}$; the texts put $\epsilon$ beside the root, or none at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from corollary._types import Scalar
from corollary.catalog import implements
from corollary.optimization._arguments import offset_of, positive_of, step_of
from corollary.optimization.minimize import Path
from corollary.optimization.sgd import best_iterate


class Accumulated(NamedTuple):
    """What AdaGrad remembers: the sum of the squares (or outer products) of all gradients so far."""

    total: optax.Params


@implements("E03.14", "M18.27", "T02.29")
def adagrad(step: Scalar | Callable = 1.0, *, eps: Scalar = 1e-8) -> optax.GradientTransformation:
    r"""Each coordinate: $u_{k+1}=u_k+g_k^2$, $\theta_{k+1}=\theta_k-\frac{\eta}{\epsilon+\sqrt{u_{k+1}}}\odot g_k$.

    A coordinate that has never seen a gradient does not move, also with `eps` zero.
    """
    eps = offset_of("eps", eps)

    def update(updates, state, params=None):
        total = jax.tree.map(lambda u, g: u + g**2, state.total, updates)
        steps = jax.tree.map(lambda u, g: _divide(g, jnp.sqrt(u) + eps), total, updates)
        return steps, Accumulated(total)

    return _scaled(optax.GradientTransformation(_zeros, update), step)


@implements("T02.34")
def adagrad_shifted(sigma: Scalar, step: Scalar | Callable = 1.0) -> optax.GradientTransformation:
    r"""By coordinate, from the past alone: $P_t=(\sigma^2+\sum_{i<t}g_i\odot g_i)^{-1/2}$ (T, Theorem 2.5.5).

    $P_t$ does not know $g_t$, so that $\mathbb E[P_tg_t]=P_t\,\mathbb Eg_t$ given the past.
    """
    sigma = positive_of("sigma", sigma)

    def update(updates, state, params=None):
        steps = jax.tree.map(lambda u, g: g * jax.lax.rsqrt(u + sigma**2), state.total, updates)
        return steps, Accumulated(jax.tree.map(lambda u, g: u + g**2, state.total, updates))

    return _scaled(optax.GradientTransformation(_zeros, update), step)


@implements("T02.30")
def adagrad_norm(step: Scalar | Callable = 1.0) -> optax.GradientTransformation:
    r"""One step size for all: $\theta_{t+1}=\theta_t-\eta\,\big(\sum_{i\le t}\|g_i\|^2\big)^{-1/2}g_t$.

    Nothing to tune but $\eta$, which is a length: the first step has length $\eta$, whatever the function's scale.
    """

    def init(params):
        return Accumulated(jnp.zeros((), ravel_pytree(params)[0].dtype))

    def update(updates, state, params=None):
        total = state.total + sum(jnp.sum(g**2) for g in jax.tree.leaves(updates))
        return jax.tree.map(lambda g: _divide(g, jnp.sqrt(total)), updates), Accumulated(total)

    return _scaled(optax.GradientTransformation(init, update), step)


@implements("M18.26")
def adagrad_full(step: Scalar | Callable = 1.0, *, eps: Scalar = 0.0) -> optax.GradientTransformation:
    r"""The full matrix: $G_k=\sum_{i\le k}g_ig_i^\top$, $\theta_{k+1}=\theta_k-\eta\,(G_k+\epsilon I)^{-1/2}g_k$.

    $G_k$ is singular as long as fewer gradients than coordinates have been seen. With `eps` zero the inverse is the
    pseudo-inverse, which loses nothing: $g_k$ is in the range of $G_k$. Costs an eigendecomposition a step.
    """
    eps = offset_of("eps", eps)

    def init(params):
        flat = ravel_pytree(params)[0]
        return Accumulated(jnp.zeros((flat.size, flat.size), flat.dtype))

    def update(updates, state, params=None):
        flat, shape_back = ravel_pytree(updates)
        total = state.total + jnp.outer(flat, flat)
        values, vectors = jnp.linalg.eigh(total)
        # the eigenvalues that should be zero are of the order of the rounding of the largest
        floor = jnp.where(eps > 0, -jnp.inf, flat.size * jnp.finfo(flat.dtype).eps * values[-1])
        root = jnp.where(values > floor, jax.lax.rsqrt(jnp.maximum(values, 0) + eps), 0)
        return shape_back(vectors @ (jnp.where(jnp.isfinite(root), root, 0) * (vectors.T @ flat))), Accumulated(total)

    return _scaled(optax.GradientTransformation(init, update), step)


@implements("T02.29")
def flattest(path: Path) -> PyTree:
    r"""What Algorithm 3 of T returns: of all points where a gradient was taken, the one where it was shortest.

    `path` is a `Path`; its last point is not among them, since nothing was decided there.
    """
    return best_iterate(path)


def _zeros(params):
    return Accumulated(jax.tree.map(jnp.zeros_like, params))


def _divide(g, by):
    """`g / by`, and zero where nothing has been accumulated: the gradient is zero there too."""
    return jnp.where(by > 0, g / jnp.where(by > 0, by, 1), 0)


def _scaled(transformation, step):
    return optax.chain(transformation, optax.scale_by_learning_rate(step_of(step)))
