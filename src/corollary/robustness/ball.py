r"""What an attacker may do: $\{\|x'-x\|_p\le r\}$ for $p=1,2,\infty$, inside the box of inputs that exist.

All three things that are asked of this set have an answer in closed form, in a few rounds or by one sorting: the
nearest point of it, the point that is farthest along a direction, and a random one. A coordinate can go as far as the
box lets it, its *room*; in the direction of one vector, who meets the box first is known from the ratio of room and
entry.
"""

from __future__ import annotations

import math
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, one_of, real, within
from corollary.catalog import implements

NORMS = (1, 2, math.inf)
#: Rounds of an iteration before it is asked whether there is more to do: a GPU waits for every answer, a CPU does not.
ROUNDS = {"cpu": 1}


class Ball(eqx.Module):
    r"""The points within `radius` of a centre in the norm $p$, `low` and `high` being the box of all inputs.

    `radius` has the unit of the data; without `low` and `high` there is no box. The centre, which lies in the box, is
    an argument of every method: one input of any shape, all of whose entries count as one vector.

    >>> ball = Ball(jnp.inf, 0.1, 0.0, 1.0)
    >>> print(ball.project(jnp.array([0.5, 1.3]), jnp.array([0.2, 0.95])))
    [0.3 1. ]
    """

    p: Literal[1, 2] | float = eqx.field(static=True)
    radius: Array
    low: Array | None
    high: Array | None

    def __init__(
        self,
        p: Literal[1, 2] | float,
        radius: Scalar,
        low: Float[ArrayLike, "..."] | None = None,
        high: Float[ArrayLike, "..."] | None = None,
    ):
        self.p = norm_order(p)
        self.radius = within("radius", real("radius", radius, ""), 0)
        self.low = None if low is None else real("low", low)
        self.high = None if high is None else real("high", high)
        boxed = low is not None and high is not None and concrete(low) and concrete(high)
        if boxed and np.any(np.asarray(low) > np.asarray(high)):
            raise ValueError(
                "low must be at most high: they are the least and the largest value that an input can have."
            )

    def distance(self, x: Float[ArrayLike, "..."], centre: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        r"""$\|x-\mathrm{centre}\|_p$."""
        return _size(self.p, real("x", x) - real("centre", centre))

    @implements("B12.05", "T18.04")
    def project(self, x: Float[ArrayLike, "..."], centre: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""The nearest point of ball and box; a point that is in both stays what it is, bit for bit.

        $p=\infty$: every coordinate is clipped. $p=2$: the way from the centre is shortened, where the box has clipped
        it the other coordinates by less. $p=1$: all coordinates come nearer by the same amount, those that arrive stay.
        """
        x, centre = real("x", x), real("centre", centre)
        if self.p == math.inf:
            low, high = self._ends(centre)
            return _moved(jnp.clip(x, low, high), centre)
        if self.p == 2:
            return _moved(self._shortened(x, centre), centre)
        shift = x - centre
        room, size = self._room(shift, centre), jnp.abs(shift)
        kept = jnp.clip(size - _threshold(size, room, self.radius), 0, room)
        inside = (self.distance(x, centre) <= self.radius) & jnp.all(size <= room)
        return _moved(jnp.where(inside, x, self._placed(jnp.sign(shift) * kept, centre)), centre)

    def steepest(self, slope: Float[ArrayLike, "..."], centre: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""The point $x'$ of ball and box with the largest $\langle\mathrm{slope},x'\rangle$.

        For $p=\infty$ the sign step, for $p=2$ the gradient step, for $p=1$ the largest coordinates one after the
        other; what the box takes from one coordinate others get. Where the slope is 0 nothing moves.
        """
        slope, centre = real("slope", slope, finite=False), real("centre", centre)
        size = jnp.abs(slope)
        if self.p == math.inf:
            low, high = self._ends(centre)
            return _moved(jnp.where(slope > 0, high, jnp.where(slope < 0, low, centre)), centre)
        if self.p == 2:
            return _moved(self._farthest(slope, centre), centre)
        room = jnp.where(size > 0, self._room(slope, centre), 0)
        order = jnp.argsort(-size.ravel())
        spent = jnp.cumsum(room.ravel()[order])
        before = jnp.concatenate([jnp.zeros_like(spent[:1]), spent[:-1]])
        filled = jnp.clip(self.radius - before, 0, room.ravel()[order])
        kept = jnp.zeros_like(filled).at[order].set(filled).reshape(size.shape)
        return _moved(self._placed(jnp.sign(slope) * kept, centre), centre)

    def support(self, slope: Float[ArrayLike, "..."], centre: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        r"""$\max\langle\mathrm{slope},x'-\mathrm{centre}\rangle$; without box $r\|\mathrm{slope}\|_q$."""
        slope, centre = real("slope", slope), real("centre", centre)
        return jnp.sum(slope * (self.steepest(slope, centre) - centre))

    def sample(self, centre: Float[ArrayLike, "..."], *, key: PRNGKeyArray) -> Float[Array, "..."]:
        """A random point: uniform in the ball, and then clipped to the box; for the largest norm uniform in both."""
        centre = real("centre", centre)
        direction, length = jax.random.split(key)
        if self.p == math.inf:
            low, high = self._ends(centre)
            return _moved(low + jax.random.uniform(direction, centre.shape, centre.dtype) * (high - low), centre)
        draw = jax.random.normal if self.p == 2 else jax.random.laplace
        shift = draw(direction, centre.shape, centre.dtype)
        share = jax.random.uniform(length, (), centre.dtype) ** (1 / centre.size)
        return _moved(self._placed(self.radius * share / _size(self.p, shift) * shift, centre), centre)

    def _ends(self, centre):
        """The interval of every coordinate, for the largest norm."""
        low, high = centre - self.radius, centre + self.radius
        low = low if self.low is None else jnp.maximum(low, self.low)
        return low.astype(centre.dtype), (high if self.high is None else jnp.minimum(high, self.high)).astype(
            centre.dtype
        )

    def _room(self, direction, centre):
        """How far every coordinate can go in its direction before it meets the box."""
        up = jnp.inf if self.high is None else jnp.maximum(self.high - centre, 0)
        down = jnp.inf if self.low is None else jnp.maximum(centre - self.low, 0)
        return jnp.where(direction > 0, up, down).astype(centre.dtype)

    def _shortened(self, x, centre):
        """The projection for the Euclidean norm."""
        boxed = jnp.clip(x, self.low, self.high)
        kept = boxed == x
        unit, length = _unit(x - centre)
        radius, low, high = self._in_radii(centre)
        whole = length / radius
        factor = _reach(unit, low, high, jnp.minimum(1, whole), jnp.where(jnp.all(kept), 0, whole))
        point = jnp.clip(centre + self.radius * factor * unit, self.low, self.high)
        return jnp.where(length <= self.radius, jnp.where(kept, x, boxed), point).astype(centre.dtype)

    def _farthest(self, slope, centre):
        """The steepest point for the Euclidean norm."""
        _, low, high = self._in_radii(centre)
        unit, length = _unit(jnp.where(jnp.clip(slope, low, high) == 0, 0, slope))
        unboxed = self.low is None and self.high is None
        factor = _reach(unit, low, high, jnp.ones_like(length), jnp.asarray(0 if unboxed else jnp.inf, length.dtype))
        return jnp.clip(centre + self.radius * factor * unit, self.low, self.high).astype(centre.dtype)

    def _in_radii(self, centre):
        """The radius, or 1 where it is 0, and how far the box lies below and above the centre, in radii."""
        radius = _or_one(self.radius).astype(centre.dtype)
        low = -jnp.inf if self.low is None else jnp.minimum(self.low - centre, 0) / radius
        high = jnp.inf if self.high is None else jnp.maximum(self.high - centre, 0) / radius
        return radius, low, high

    def _placed(self, shift, centre):
        """`centre + shift`; what rounding has put outside the ball or the box is brought back."""
        size = _size(self.p, shift)
        shift = shift * jnp.where(size > self.radius, self.radius / jnp.where(size > 0, size, 1), 1)
        return jnp.clip(centre + shift, self.low, self.high).astype(centre.dtype)

    __repr__ = shown


def norm_order(p) -> float:
    """`p` as 1, 2 or infinity; one sentence for anything else."""
    if isinstance(p, jax.Array | np.ndarray | np.generic) and np.ndim(p) == 0 and concrete(p):
        p = float(p)
    return one_of("p", p if isinstance(p, int | float) else repr(p), NORMS)


def _size(p, shift):
    shift = shift.ravel()
    if p == math.inf:
        return jnp.max(jnp.abs(shift))
    if p == 1:
        return jnp.sum(jnp.abs(shift))
    top = jnp.max(jnp.abs(shift))  # squares of small or large numbers would be 0 or infinite
    return top * jnp.sqrt(jnp.sum((shift / jnp.where(top > 0, top, 1)) ** 2))


def _moved(x, centre):
    """`x`; where that is the centre, the bits of the centre: zero has two signs."""
    return jnp.where(x == centre, centre, x)


def _or_one(a):
    """A divisor: `a`, or 1 where that is 0."""
    return jnp.where(a == 0, 1, a)


def _unit(v):
    """The unit vector along `v`, or 0, and the length of `v`."""
    top = jnp.max(jnp.abs(v))  # squares of small or large numbers would be 0 or infinite
    v = v / _or_one(top)
    length = jnp.sqrt(_or_one(jnp.sum(v**2)))
    return v / length, top * length


@jax.custom_jvp
def _reach(unit, low, high, least, most):
    """The factor of a unit vector with which it has length 1 after it is clipped, in the end from `least` to `most`.

    From below: who meets the box at one factor meets it at every larger one. A few rounds, and nothing to sort.
    """

    def further(factor):
        way = factor * unit
        clipped = jnp.clip(way, low, high)
        free = jnp.sum(jnp.where(clipped == way, unit**2, 0))
        left = 1 - jnp.sum(clipped**2)
        some = (free > 0) & (left > 4 * jnp.finfo(unit.dtype).eps)
        return jnp.where(some, jnp.minimum(jnp.sqrt(factor**2 + left / _or_one(free)), most), factor)

    def again(state):
        factor, _ = state
        for _ in range(ROUNDS.get(jax.default_backend(), 3)):
            before, factor = factor, jnp.maximum(factor, further(factor))
        return factor, factor > before

    return jax.lax.while_loop(lambda state: state[1], again, (least, least < most))[0]


@_reach.defjvp
def _reach_moved(primals, tangents):
    """Of the factor that it ends with: the rounds are not differentiated."""
    found = _reach(*primals)

    def closed(unit, low, high):
        clipped = jnp.clip(found * unit, low, high)
        free = clipped == found * unit
        left, share = 1 - jnp.sum(jnp.where(free, 0, clipped) ** 2), jnp.sum(jnp.where(free, unit, 0) ** 2)
        some = (share > 0) & (left > 0)  # the root of 0 has no derivative
        return jnp.where(some, jnp.sqrt(jnp.where(some, left, 1) / jnp.where(some, share, 1)), found)

    return found, jax.jvp(closed, primals[:3], tangents[:3])[1]


def _threshold(size, room, radius):
    r"""The $\tau\ge0$ with $\sum_i\min((\mathrm{size}_i-\tau)_+,\mathrm{room}_i)=r$, and 0 if the sum is less there.

    From above, the sum grows with slope 1 from $\tau=\mathrm{size}_i$ down, until the room of that coordinate is used.
    """
    size, room = size.ravel(), room.ravel()
    bends = jnp.concatenate([size, jnp.maximum(size - room, 0)])
    order = jnp.argsort(-bends)
    bends = bends[order]
    slopes = jnp.cumsum(jnp.where(order < size.size, 1.0, -1.0).astype(size.dtype))
    sums = jnp.concatenate([jnp.zeros(1, size.dtype), jnp.cumsum(slopes[:-1] * (bends[:-1] - bends[1:]))])
    last = jnp.maximum(jnp.sum(sums < radius) - 1, 0)  # the last bend above the threshold
    found = bends[last] - (radius - sums[last]) / jnp.maximum(slopes[last], 1)
    return jnp.where(jnp.sum(jnp.minimum(size, room)) <= radius, 0, jnp.maximum(found, 0))
