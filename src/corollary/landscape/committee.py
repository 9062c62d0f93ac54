r"""A ReLU committee that learns from another: the population loss in closed form.

Student $\sum_{i\le n}\sigma(w_i^\top x)$, teacher $\sum_{j\le k}\sigma(v_j^\top x)$, $x\sim N(0,I)$. With the
overlap $\mathbb E\sigma(u^\top x)\sigma(v^\top x)=\frac{\|u\|\|v\|}{2\pi}(\sin\theta+(\pi-\theta)\cos\theta)$
the loss, its gradient and its Hessian are exact, so that a spurious minimum can be told from a slow run.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements


@jax.custom_jvp
def _angle(c):
    return jnp.arccos(jnp.clip(c, -1, 1))


@_angle.defjvp
def _angle_jvp(primals, tangents):
    (c,), (dc,) = primals, tangents
    # at parallel vectors dc is 0 to the rounding, and so is what the floor multiplies
    return _angle(c), -dc / jnp.sqrt(jnp.maximum(1 - c**2, jnp.finfo(c.dtype).eps))


@jax.custom_jvp
def _bend(c):
    """sin θ - θ cos θ: what the overlap has beyond its linear part; its derivative in cos θ is -θ."""
    theta = _angle(c)
    return jnp.sin(theta) - theta * c


@_bend.defjvp
def _bend_jvp(primals, tangents):
    (c,), (dc,) = primals, tangents
    return _bend(c), -_angle(c) * dc


@implements("B06.02")
def relu_overlaps(u: Float[ArrayLike, "n d"], v: Float[ArrayLike, "k d"]) -> Float[Array, "n k"]:
    r"""$\mathbb E\,\sigma(u_i^\top x)\sigma(v_j^\top x)$ for the rows of `u` (n, d) and `v` (k, d): shape (n, k).

    $\frac12u^\top v+\frac{\|u\|\|v\|}{2\pi}(\sin\theta-\theta\cos\theta)$, twice differentiable also where
    the rows are parallel.
    """
    dims = {}
    u, v = real("u", u, "n d", dims), real("v", v, "k d", dims)
    tiny = jnp.finfo(u.dtype).tiny
    lengths = jnp.sqrt(jnp.maximum((u**2).sum(1), tiny))[:, None] * jnp.sqrt(jnp.maximum((v**2).sum(1), tiny))
    dots = u @ v.T
    return 0.5 * dots + lengths * _bend(dots / lengths) / (2 * jnp.pi)


@implements("B06.02")
def committee_loss(w: Float[ArrayLike, "n d"], v: Float[ArrayLike, "k d"]) -> Float[Array, ""]:
    r"""$\frac12\mathbb E(\sum_i\sigma(w_i^\top x)-\sum_j\sigma(v_j^\top x))^2$, exact, for students `w` (n,
    d) and teachers `v` (k, d).
    """
    return 0.5 * (relu_overlaps(w, w).sum() - 2 * relu_overlaps(w, v).sum() + relu_overlaps(v, v).sum())


@implements("B06.02")
def committee_descent(
    width: int,
    teacher: Float[ArrayLike, "k d"],
    *,
    key: PRNGKeyArray,
    trials: int,
    step: Scalar = 0.1,
    steps: int = 1500,
) -> Float[Array, "_ _ _"]:
    r"""Where gradient descent ends from `trials` random starts of `width` units: weights (trials, width, d).

    The starts are normal with variance $1/d$ a coordinate.
    """
    width, trials, steps = whole("width", width), whole("trials", trials), whole("steps", steps)
    teacher, step = real("teacher", teacher, "k d"), positive("step", real("step", step, ""))
    shape = (width, teacher.shape[1])
    begin = jax.random.normal(key, (trials, *shape), teacher.dtype) / jnp.sqrt(shape[1])
    slope = jax.vmap(jax.grad(committee_loss), in_axes=(0, None))
    return jax.lax.scan(lambda w, _: (w - step * slope(w, teacher), None), begin, length=steps)[0]


class CommitteeEnds(NamedTuple):
    """What runs ended at: weights (trials, n, d), losses, gradient norms, least eigenvalues of the Hessian."""

    weights: jax.Array
    loss: jax.Array
    gradient_norm: jax.Array
    least_curvature: jax.Array

    __repr__ = shown


@implements("B06.02")
def committee_polish(
    weights: Float[ArrayLike, "t n d"], teacher: Float[ArrayLike, "k d"], *, steps: int = 10
) -> CommitteeEnds:
    r"""Newton's method from where descent has ended, and what it comes to: a spurious minimum has a loss
    above 0, no gradient and positive curvature.

    `weights` (trials, n, d). The steps are damped by the gradient norm and use the Hessian with its negative
    eigenvalues turned round, so that they go down.
    """
    dims = {}
    weights, teacher = real("weights", weights, "t n d", dims), real("teacher", teacher, "k d", dims)
    steps, slope = whole("steps", steps), jax.grad(committee_loss)

    def newton(w, _):
        spectrum, axes = jnp.linalg.eigh(jax.hessian(committee_loss)(w, teacher).reshape(w.size, w.size))
        g = slope(w, teacher)
        size = jnp.linalg.norm(g)
        move = axes @ ((axes.T @ g.ravel()) / (jnp.abs(spectrum) + size + jnp.finfo(w.dtype).eps))
        return w - move.reshape(w.shape), CommitteeEnds(w, committee_loss(w, teacher), size, spectrum[0])

    def finish(w):
        # the last point is looked at and not left
        _, seen = jax.lax.scan(newton, w, length=steps + 1)
        return jax.tree.map(lambda a: a[-1], seen)

    # one matrix after the other: batched decompositions in one program can wait for each other's threads for ever
    return jax.lax.map(finish, weights)
