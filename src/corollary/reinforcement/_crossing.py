r"""Where the matrix $A-\beta B$ loses its stability: the discount at which an eigenvalue leaves the right half plane.

The largest growth rate is the maximum of many curves, some flat and some steep, which a search by its values follows
no faster than by halves, at the price of a whole spectrum each time. One curve is smooth, and moves by
$\lambda'(\beta)=-\frac{w^*Bv}{w^*v}$ with its right and left eigenvectors, which a factored matrix gives. So the curve
that is largest at the unstable end is followed to its crossing, and the whole spectrum is asked for only there.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.linalg import lu_factor, lu_solve
from jaxtyping import Array, Float

_ROUNDS, _STEPS = 40, 30
_CLOSE = 1e-6  # ends of the interval that count as one
_EQUAL = 1e-2  # rates that differ by this share count as one


def followed(a, b, rate, beta, value, least, most, *, close):
    r"""Newton's steps in $\beta$ on the curve of the eigenvalue `value` of $A-\beta B$, to where it grows at `rate`.

    `(beta, growing)`: the place, and whether it was reached and the growth rate grows with $\beta$ there, so that
    just after it something does grow.
    """
    n = a.shape[0]
    small = jnp.finfo(a.dtype).eps * (jnp.linalg.norm(a) + jnp.linalg.norm(b))

    def unit(v):
        return v / jnp.linalg.norm(v)

    def step(state):
        i, beta, value, right, left, _, _ = state
        matrix = a - beta * b
        # a shift by rounding, lest an exact eigenvalue make the factors singular
        factors = lu_factor(matrix - (value + small) * jnp.eye(n))
        right, left = unit(lu_solve(factors, right)), unit(lu_solve(factors, left, trans=2))
        overlap = jnp.vdot(left, right)
        value = jnp.vdot(left, matrix @ right) / overlap
        slope = -jnp.vdot(left, b @ right) / overlap
        reached = jnp.clip(beta - (value.real + rate) / slope.real, least, most)
        moved = reached - beta
        return i + 1, reached, value + slope * moved, right, left, moved, slope.real < 0

    def on(state):
        i, beta, value, *_, moved, _ = state
        return (i < _STEPS) & (jnp.abs(moved) > close) & jnp.isfinite(beta) & jnp.isfinite(jnp.abs(value))

    start = unit(jax.random.normal(jax.random.key(0), (n,), value.dtype))
    begun = 0, beta, value, start, start, jnp.full_like(beta, jnp.inf), jnp.asarray(False)
    _, beta, *_, moved, growing = jax.lax.while_loop(on, step, begun)
    return beta, growing & (jnp.abs(moved) <= close)


def first_crossing(fastest, a: Array, b: Array, rate, left: Array, right: Array, value: Array) -> Float[Array, ""]:
    r"""A discount between `left` and `right` where the largest growth rate of $A-\beta B$ comes to exceed `rate`.

    `fastest(beta)` gives by how much it does, and the eigenvalue that grows so; at `left` it does not, at `right` it
    does, with `value`. Where the curve of an eigenvalue cannot be followed (two that meet turn by a right angle), the
    interval is halved.
    """
    close = jnp.asarray(_CLOSE / 100, left.dtype)

    def narrowed(state):
        i, left, right, value, _, _ = state
        at, growing = followed(a, b, rate, right, value, left, right, close=close)
        inside = growing & (left < at) & (at < right)
        at = jnp.where(inside, at, (left + right) / 2)
        excess, largest = fastest(at)
        up = excess > 0
        ends = jnp.where(up, left, at), jnp.where(up, at, right)
        # nothing but the curve that was followed, which is at the rate itself
        return i + 1, *ends, jnp.where(up, largest, value), at, inside & (excess <= _EQUAL * rate)

    def apart(state):
        i, left, right, *_, found = state
        return (i < _ROUNDS) & (right - left > _CLOSE) & ~found

    start = 0, left, right, value, right, jnp.asarray(False)
    *_, at, _ = jax.lax.while_loop(apart, narrowed, start)
    return at
