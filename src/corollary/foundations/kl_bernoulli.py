r"""The relative entropy of two coins and its inverse, to the last digits.

$\mathrm{kl}(q\|p)=q\ln\frac qp+(1-q)\ln\frac{1-q}{1-p}$ is small where $p$ is near $q$, and both of its terms are not:
written as $d(q,p)+d(1-q,1-p)$ with $d(a,b)=a\ln\frac ab-a+b\ge0$ nothing cancels. The inverse is solved for the
logarithm of the odds, in which kl is convex: Newton's method runs to the root from outside without turning back.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.scipy.special import xlogy
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import one_of, real, within
from corollary.catalog import implements

# from the starting points below Newton's method is within a factor of the root, and doubles its digits with each step
STEPS = 12


@implements("B09.14", "M03.06", "M03.30")
def kl_bernoulli(q: Float[ArrayLike, "..."], p: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$q\ln\frac qp+(1-q)\ln\frac{1-q}{1-p}$ with an error of a few units in the last place, however near $p$ to $q$.

    >>> float(kl_bernoulli(0.5, 0.5 + 2.0**-20)) > 0
    True
    """
    q, p = _probability("q", q), _probability("p", p)
    return _kl(*_pair(q, p))


@implements("B09.14")
def kl_inverse(q: Float[ArrayLike, "..."], c: Float[ArrayLike, "..."], *, side: str = "upper") -> Float[Array, "..."]:
    r"""The largest (`side="upper"`) or least (`"lower"`) $p$ with $\mathrm{kl}(q\|p)\le c$.

    A sample mean $q$ of $n$ examples and $c=\ln(1/\delta)/n$ give a bound on the mean of the law. Differentiable in
    both arguments; the slope in $c$ is infinite at $c=0$, that in $q$ at $q=0$ (upper) and $q=1$ (lower).

    >>> round(float(kl_inverse(0.028, 0.094, side="upper")), 3)
    0.161
    """
    one_of("side", side, ("upper", "lower"))
    q, c = _probability("q", q), within("c", real("c", c, finite=False), 0.0)
    return _inverse(*_pair(q, c), side == "upper")


def _probability(name, value):
    return within(name, real(name, value), 0.0, 1.0)


def _pair(a, b):
    dtype = jnp.result_type(a, b)
    return jnp.broadcast_arrays(a.astype(dtype), b.astype(dtype))


def _divergence(a, b, difference):
    r"""$a\ln\frac ab-a+b$, with $a-b$ given apart because it may be known better than its parts."""
    total = a + b
    v = difference / jnp.where(total > 0, total, 1)
    near = jnp.abs(v) < 0.1
    # ln(a/b) = 2 artanh v, and the first term of its series cancels against b - a
    square = jnp.where(near, v, 0) ** 2
    series = jnp.zeros_like(v)
    for k in range(19, 1, -2):
        series = (series + 1 / k) * square
    close = difference * v + 2 * a * v * series
    far = xlogy(a, a / jnp.where(b > 0, b, 1)) - difference
    impossible = (a > 0) & (b <= 0)
    return jnp.where(near, close, jnp.where(impossible, jnp.inf, far))


def _both(q, r, p, s, difference):
    """kl from the probabilities q, p, their complements r, s, and p - q."""
    return _divergence(q, p, -difference) + _divergence(r, s, difference)


@jax.custom_jvp
def _kl(q, p):
    return _both(q, 1 - q, p, 1 - p, p - q)


def _kl_jvp(primals, tangents):
    (q, p), (dq, dp) = primals, tangents
    slope = jnp.zeros_like(q)
    # a side that does not move adds nothing, even where its own slope is infinite
    if not isinstance(dp, SymbolicZero):
        at_end = (p <= 0) | (p >= 1)
        inside = (p - q) / jnp.where(at_end, 1, p * (1 - p))
        edge = jnp.where(p == q, jnp.where(p <= 0, 1.0, -1.0), jnp.where(p <= 0, -jnp.inf, jnp.inf))
        slope = slope + jnp.where(at_end, edge, inside) * dp
    if not isinstance(dq, SymbolicZero):
        slope = slope + (jnp.log(q) - jnp.log1p(-q) - jnp.log(p) + jnp.log1p(-p)) * dq
    return _kl(q, p), slope


_kl.defjvp(_kl_jvp, symbolic_zeros=True)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
@partial(jax.jit, static_argnums=2)
def _inverse(q, c, upper):
    # the lower end for q is the upper one for 1 - q, seen from the other side
    low, high = (q, 1 - q) if upper else (1 - q, q)
    # beyond this the complement is no longer a number of full precision, and p is 1; short of it by more than rounding,
    # because a complement that is rounded to 0 would look infinitely far away
    most = -jnp.log(jnp.finfo(q.dtype).tiny) - 1
    start = jnp.minimum(jnp.minimum(*_above(low, high, c)), most)

    def newton(_, t):  # a loop, and not its steps one after the other: these would be most of what a bound compiles
        return jnp.minimum(t - _step(low, high, *_odds(low, high, t), c), most)

    p, s = _odds(low, high, jax.lax.fori_loop(0, STEPS, newton, start))
    # the last step for the probability itself: the logarithm of the odds has fewer digits where p is tiny
    move = _step(low, high, p, s, c) * p * s
    end = p - move if upper else s + move
    # what cannot move: no room, nothing to spend, or everything
    end = jnp.where((c == 0) | (high == 0), q, jnp.where(jnp.isinf(c), float(upper), end))
    return jnp.clip(end, q, 1.0) if upper else jnp.clip(end, 0.0, q)


def _inverse_jvp(upper, primals, tangents):
    (q, c), (dq, dc) = primals, tangents
    p = _inverse(q, c, upper)
    distance = p - q
    still = distance == 0
    room = p * (1 - p) / jnp.where(still, 1, distance)
    slope = jnp.zeros_like(p)
    if not isinstance(dc, SymbolicZero):
        slope = slope + jnp.where(still, jnp.where(c > 0, 0.0, jnp.inf if upper else -jnp.inf), room) * dc
    if not isinstance(dq, SymbolicZero):
        slope = slope + jnp.where(still, 1.0, room * jnp.log1p(distance / (q * (1 - p)))) * dq
    return p, slope


_inverse.defjvp(_inverse_jvp, symbolic_zeros=True)


def _above(q, r, c):
    """Two logarithms of odds, both at or above those of the solution."""
    entropy = -xlogy(q, q) - xlogy(r, r)
    # kl ≥ -entropy - r ln(1 - p)
    far = (c + entropy) / jnp.where(r > 0, r, 1)
    # kl ≥ 2d², d²/(2p) and d²/(2r) for d = p - q
    d = jnp.minimum(jnp.minimum(jnp.sqrt(c / 2), jnp.sqrt(2 * r * c)), c + jnp.sqrt(c**2 + 2 * q * c))
    left = r - d
    near = jnp.where(left > 0, jnp.log(q + d) - jnp.log(jnp.where(left > 0, left, 1)), jnp.inf)
    return far, near


def _odds(q, r, t):
    """The probability with logarithm of odds t, and its complement, at least q and at most r."""
    return jnp.maximum(jax.nn.sigmoid(t), q), jnp.minimum(jax.nn.sigmoid(-t), r)


def _step(q, r, p, s, c):
    """The step of Newton's method in the logarithm of the odds; zero where p has not left q."""
    d = jnp.where(p < 0.5, p - q, r - s)
    return jnp.where(d > 0, (_both(q, r, p, s, d) - c) / jnp.where(d > 0, d, 1), 0.0)
