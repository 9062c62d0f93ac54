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


class Fit(NamedTuple):
    """What a fit returns. Without `converged`, `theta` is only the last iterate: a minimiser may not exist."""

    theta: jax.Array
    loss: jax.Array
    gradient_norm: jax.Array
    steps: jax.Array
    converged: jax.Array


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

    Directions in which the curvature drowns in rounding are of two kinds. Some change no logit (collinear
    features, a number added to all classes): they do not matter and get no step. Others do change the logits, far
    out where the logistic function is flat: they get a long gradient step, and the direction is not trusted.
    Far out a step can also be absurdly long; along each eigenvector it at most triples the greatest logit.
    """
    eps = jnp.finfo(slope.dtype).eps
    curvature, basis = jnp.linalg.eigh(hessian)
    along = basis.T @ slope
    resolved = curvature > 8 * slope.size * eps * curvature[-1]
    moves = jax.vmap(move)(basis.T)
    inert = moves <= eps**0.6 * jnp.max(moves)
    tiny = jnp.finfo(slope.dtype).tiny
    longest = 2 * (1 + move(theta)) / jnp.maximum(moves, tiny)
    step = along / jnp.maximum(curvature, jnp.maximum(jnp.abs(along) / longest, tiny))
    return basis @ jnp.where(resolved | ~inert, step, 0), jnp.all(resolved | inert)


def scores(x):
    r"""Extended features in scored coordinates, `z = x @ change`, where Newton's linear algebra is well conditioned.

    `x` has its column of ones last. Parameters transform as `theta = change @ phi`.
    """
    mean, scale = x[:, :-1].mean(axis=0), x[:, :-1].std(axis=0)
    scale = jnp.where(scale > 0, scale, 1)
    d = mean.size
    change = jnp.zeros((d + 1, d + 1), x.dtype)
    change = change.at[jnp.arange(d), jnp.arange(d)].set(1 / scale).at[d, :d].set(-mean / scale).at[d, d].set(1)
    z = jnp.concatenate([(x[:, :-1] - mean) / scale, x[:, -1:]], axis=1)
    return z, change
