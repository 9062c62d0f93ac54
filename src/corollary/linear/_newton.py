r"""Damped Newton for the convex losses of this room, and an honest answer to whether a minimiser was found.

A convex loss of this kind need not have a minimiser: on separable data its infimum is at infinity, and there too
the gradient tends to zero. What tells the two apart is the Newton step $d$. If it moves every logit by less than
one, the fitted probabilities can be corrected to $p'=p-\nabla S\cdot\tilde Xd$, still strictly inside the simplex,
so that $\sum(p'-y)\tilde x$ (plus the slope of the penalty) is exactly zero: a strictly feasible point of the dual,
which exists only if the primal has a minimiser. On separable data the step therefore keeps moving some logit by one
or more, however small the gradient. Convergence is declared only when the step moves no logit by more than a small
tolerance, and that last step is then taken.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from corollary._show import shown


class Fit(NamedTuple):
    """What a fit returns. Without `converged`, `theta` is only the last iterate: a minimiser may not exist."""

    theta: jax.Array
    loss: jax.Array
    gradient_norm: jax.Array
    steps: jax.Array
    converged: jax.Array

    __repr__ = shown


class _State(NamedTuple):
    theta: jax.Array
    step: jax.Array
    converged: jax.Array
    stuck: jax.Array


def newton(value, gradient, hessian, move, start, steps: int, tolerance):
    """Minimise `value` from the flat vector `start`; returns theta, the number of steps and whether it converged.

    `move(d)` is the greatest change of a logit along `d`. Steps are halved until the loss falls enough (Armijo).
    """
    eps = jnp.finfo(start.dtype).eps

    def advance(state):
        theta = state.theta
        slope = gradient(theta)
        direction, trusted = newton_direction(slope, hessian(theta), move, theta)
        converged = trusted & (move(direction) <= tolerance)
        now, fall = value(theta), slope @ direction

        def too_long(t):
            # A loss is a sum of positive terms, so its rounding error is relative to itself.
            enough = value(theta - t * direction) <= now - 1e-4 * t * fall + 8 * eps * jnp.abs(now)
            return ~enough & (t > 2.0**-100)

        t = jax.lax.while_loop(too_long, lambda t: t / 2, jnp.ones((), theta.dtype))
        stuck = (t <= 2.0**-100) & ~converged
        t = jnp.where(converged, 1, jnp.where(stuck, 0, t))
        return _State(theta - t * direction, state.step + 1, converged, stuck)

    def going(state):
        return ~state.converged & ~state.stuck & (state.step < steps)

    state = _State(start, jnp.zeros((), int), jnp.zeros((), bool), jnp.zeros((), bool))
    end = jax.lax.while_loop(going, advance, state)
    return end.theta, end.step, end.converged


def newton_direction(slope, hessian, move, theta):
    r"""$H^{-1}g$, and whether it can be trusted.

    Coordinates that change no logit and are not penalised have neither slope nor curvature; they get curvature, so
    that they stay where they are. Any other direction whose curvature drowns in rounding lies far out, where the
    logistic function is flat: it gets a long step downhill, and the result is not trusted. Far out a step can also
    be absurdly long; along each eigenvector it at most triples the greatest logit.
    """
    eps, tiny = jnp.finfo(slope.dtype).eps, jnp.finfo(slope.dtype).tiny
    bare = jax.vmap(move)(jnp.eye(slope.size, dtype=slope.dtype)) == 0
    bare = bare & (jnp.diagonal(hessian) == 0)
    greatest = jnp.max(jnp.diagonal(hessian))
    curvature, basis = jnp.linalg.eigh(hessian + jnp.diag(jnp.where(bare, jnp.maximum(greatest, tiny), 0)))
    along = basis.T @ slope
    resolved = curvature > 8 * slope.size * eps * curvature[-1]
    longest = 2 * (1 + move(theta)) / jnp.maximum(jax.vmap(move)(basis.T), tiny)
    step = along / jnp.maximum(curvature, jnp.maximum(jnp.abs(along) / longest, tiny))
    return basis @ step, jnp.all(resolved)


def scores(x):
    r"""Extended features in coordinates where they are orthonormal: `z = x @ change`, $z^\top z=n$.

    `x` has its column of ones last; parameters transform as `theta = change @ phi`. Newton's path is the same in all
    coordinates, its rounding errors are not. A direction in which the features do not vary gets a column of zeros.
    """
    n, p = x.shape
    mean, scale = x[:, :-1].mean(axis=0), x[:, :-1].std(axis=0)
    scale = jnp.append(jnp.where(scale > 0, scale, 1), 1)
    centre = jnp.eye(p, dtype=x.dtype).at[-1, :-1].set(-mean) / scale
    scored = jnp.concatenate([x[:, :-1] - mean, x[:, -1:]], axis=1) / scale
    triangle = jnp.linalg.qr(scored, mode="r")
    triangle = jnp.pad(triangle, ((0, p - triangle.shape[0]), (0, 0)))
    _, size, axes = jnp.linalg.svd(triangle)
    varies = size > 8 * p * jnp.finfo(x.dtype).eps * size[0]
    turn = axes.T * jnp.where(varies, n**0.5 / jnp.where(varies, size, 1), 1)
    return jnp.where(varies, scored @ turn, 0), centre @ turn
