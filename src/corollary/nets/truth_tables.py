r"""All 16 truth tables of the quadrants, as nested steps and as logistic networks 2-2-2-1 with explicit weights.

The quadrants are numbered as usual: Q1 is $x,y>0$, then counterclockwise. On the axes nothing is promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import one_of, positive, real
from corollary.catalog import implements
from corollary.nets.activations import logistic
from corollary.nets.feedforward import FeedForward
from corollary.nets.steps import smooth_clip, smooth_step


class Region(NamedTuple):
    """A union of quadrants: which of Q1 to Q4 belong to it, and which of the five constructions makes it."""

    quadrants: tuple[int, int, int, int]
    kind: str


#: signs of x and y in Q1 to Q4
SIGNS = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])

_ONE = tuple(tuple(int(i == q) for i in range(4)) for q in range(4))

#: the 16 regions by name
REGIONS: dict[str, Region] = {
    "nowhere": Region((0, 0, 0, 0), "constant"),
    "everywhere": Region((1, 1, 1, 1), "constant"),
    "x > 0": Region((1, 0, 0, 1), "half-plane"),
    "x < 0": Region((0, 1, 1, 0), "half-plane"),
    "y > 0": Region((1, 1, 0, 0), "half-plane"),
    "y < 0": Region((0, 0, 1, 1), "half-plane"),
    **{f"Q{q + 1}": Region(_ONE[q], "quadrant") for q in range(4)},
    **{f"not Q{q + 1}": Region(tuple(1 - b for b in _ONE[q]), "complement") for q in range(4)},
    "Q1 or Q3": Region((1, 0, 1, 0), "opposing"),
    "Q2 or Q4": Region((0, 1, 0, 1), "opposing"),
}


@implements("M05.14")
def region_of(pattern: ArrayLike | Sequence[int]) -> str:
    """The name of the region with this pattern of four bits, those of Q1 to Q4."""
    bits = np.asarray(pattern)
    if bits.shape != (4,) or not np.isin(bits, (0, 1)).all():
        raise ValueError(f"pattern must hold four bits, one per quadrant, got {pattern!r}.")
    return next(name for name, region in REGIONS.items() if region.quadrants == tuple(bits.astype(int).tolist()))


@implements("M05.14")
def in_region(region: str, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."]) -> Array:
    """The truth: 1 where (x, y) lies in the region, else 0. A point on an axis lies only in the whole plane."""
    bits = np.array(REGIONS[one_of("region", region, REGIONS)].quadrants)
    x, y = real("x", x), real("y", y)
    inside = [(s[0] * x > 0) & (s[1] * y > 0) for s, bit in zip(SIGNS, bits, strict=True) if bit]
    whole_plane = jnp.broadcast_to(bool(bits.all()), jnp.broadcast_shapes(x.shape, y.shape))
    return jnp.any(jnp.stack([whole_plane, *inside]), axis=0).astype(int)


@implements("M05.08", "M05.10", "M05.14")
def region_indicator(
    region: str, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."], eps: Float[ArrayLike, "..."]
) -> Array:
    r"""The region as nested steps, each in its shortest form: as the text has them, with three misprints corrected.

    Constants $S_\varepsilon(\pm1)$, half-planes $S_\varepsilon(\pm x)$, $S_\varepsilon(\pm y)$; for a quadrant
    with signs $s,t$ and $k$ of them negative $S_\varepsilon(u)$, $u=sS_\varepsilon(x)+tS_\varepsilon(y)-\frac32+k$, and
    $S_\varepsilon(-u)$ for its complement; opposing quadrants as a clipped sum. Entrywise in x and y.
    """
    quadrants, kind = REGIONS[one_of("region", region, REGIONS)]
    x, y = jnp.broadcast_arrays(real("x", x), real("y", y))
    if kind == "constant":
        return smooth_step(jnp.full_like(x, 2 * quadrants[0] - 1), eps)
    if kind == "half-plane":
        return smooth_step(_half_plane(quadrants) @ jnp.stack([x.ravel(), y.ravel()]), eps).reshape(x.shape)
    if kind == "opposing":
        return smooth_clip(sum(_quadrant(q, x, y, eps) for q in range(4) if quadrants[q]), eps)
    if kind == "quadrant":
        return _quadrant(quadrants.index(1), x, y, eps)
    return smooth_step(-_evidence(quadrants.index(0), x, y, eps), eps)


@implements("M05.11", "M05.12", "M05.14")
def truth_table_network(region: str, eps: Scalar) -> FeedForward:
    r"""The logistic network 2-2-2-1 for the region, 15 numbers: all divided by $\varepsilon$, used with $S$ itself.

    Not with $S_\varepsilon$: the $1/\varepsilon$ is in the weights already.
    """
    eps = positive("eps", real("eps", eps, ""))
    parameters = _parameters(*REGIONS[one_of("region", region, REGIONS)])
    return FeedForward.of([(jnp.asarray(w) / eps, jnp.asarray(b) / eps) for w, b in parameters], logistic)


def _parameters(quadrants, kind) -> list:
    """The matrices and biases before the division by ε."""
    first, second, third = (
        [np.eye(2), np.zeros(2)],
        [np.array([[1.0, 1.0], [0.0, 0.0]]), None],
        [np.array([[1.0, 0.0]])],
    )
    if kind == "constant":
        first = [np.zeros((2, 2)), np.full(2, 2.0 * quadrants[0] - 1)]
        second, third = [np.eye(2), np.full(2, -0.5)], [np.full((1, 2), 0.5)]
    elif kind == "half-plane":
        first[0] = np.stack([_half_plane(quadrants), np.zeros(2)])
        second = [np.diag([1.0, 0.0]), np.array([-0.5, 0.0])]
    elif kind == "quadrant":
        first[0] = np.diag(SIGNS[quadrants.index(1)])
        second[1] = np.array([-1.5, 0.0])
    elif kind == "complement":  # by de Morgan: one of the two opposite conditions
        first[0] = np.diag(-SIGNS[quadrants.index(0)])
        second[1] = np.array([-0.5, 0.0])
    else:
        first[0] = np.diag(SIGNS[0] if quadrants[0] else SIGNS[3])
        second = [np.array([[1.0, 1.0], [-1.0, -1.0]]), np.array([-1.5, 0.5])]
        third = [np.ones((1, 2))]
    return [first, second, [*third, np.array([-0.5])]]


def _half_plane(quadrants) -> np.ndarray:
    """The coefficients of x and y: the mean of the signs over the two quadrants."""
    return SIGNS[np.flatnonzero(quadrants)].mean(axis=0)


def _evidence(q, x, y, eps):
    s, t = SIGNS[q]
    return s * smooth_step(x, eps) + t * smooth_step(y, eps) - 1.5 + (SIGNS[q] < 0).sum()


def _quadrant(q, x, y, eps):
    return smooth_step(_evidence(q, x, y, eps), eps)
