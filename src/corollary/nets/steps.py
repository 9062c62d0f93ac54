r"""The scaled logistic step $S_\varepsilon(z)=S(z/\varepsilon)$, near 1 for $z>0$ and 0 for $z<0$, and logic of it.

Everything works entrywise on arrays that broadcast against each other.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import positive, real, whole
from corollary.catalog import implements


@implements("M05.04")
def smooth_step(x: Float[ArrayLike, "..."], eps: Float[ArrayLike, "..."]) -> Array:
    r"""$S_\varepsilon(x)=1/(1+e^{-x/\varepsilon})$, off from $\mathbf 1[x>0]$ by $1/(1+e^{|x|/\varepsilon})$."""
    return jax.nn.sigmoid(real("x", x) / _scale(eps))


@implements("M05.09")
def smooth_clip(z: Float[ArrayLike, "..."], eps: Float[ArrayLike, "..."]) -> Array:
    r"""$S_\varepsilon(z-\frac12)$ (5.11): values in (0, 1), nearly the identity on $\{0,1\}$.

    It is off by $S(-\frac1{2\varepsilon})$ there. For $\varepsilon<\frac14$ repeated clipping leads every
    $z\ne\frac12$ to one of two fixed points near 0 and 1; for $\varepsilon\ge\frac14$ it leads everything to
    $\frac12$.
    """
    return smooth_step(real("z", z) - 0.5, eps)


@implements("M05.05", "M05.06")
def smooth_and(
    x: Float[ArrayLike, "..."],
    y: Float[ArrayLike, "..."],
    eps: Float[ArrayLike, "..."],
    shift: Float[ArrayLike, "..."] = 1.5,
) -> Array:
    r"""$S_\varepsilon(S_\varepsilon(x)+S_\varepsilon(y)-z)$ (5.7): near the indicator of Q1 for any $z\in(1,2)$."""
    shift = real("shift", shift)
    return smooth_step(smooth_step(x, eps) + smooth_step(y, eps) - shift, eps)


@implements("M05.10")
def opposing_sum(x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."], eps: Float[ArrayLike, "..."]) -> Array:
    r"""(5.10), the sum of the indicators of the first and the third quadrant, without a step around it.

    It lies in (0, 1) all the same: with $s=S_\varepsilon(x)+S_\varepsilon(y)$ it is
    $1-(S_\varepsilon(s-\frac12)-S_\varepsilon(s-\frac32))$.
    """
    x, y = real("x", x), real("y", y)
    return smooth_and(x, y, eps) + smooth_and(-x, -y, eps)


@implements("M05.10")
def smooth_xnor(x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."], eps: Float[ArrayLike, "..."]) -> Array:
    r"""(5.12): near the indicator of $xy>0$, the first and third quadrants."""
    return smooth_clip(opposing_sum(x, y, eps), eps)


@implements("M05.10")
def smooth_xor(x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."], eps: Float[ArrayLike, "..."]) -> Array:
    r"""(5.13): near the indicator of $xy<0$, the second and fourth quadrants."""
    return smooth_xnor(x, -real("y", y), eps)


@implements("M05.05")
def conjunction_error(
    margin: Float[ArrayLike, "..."],
    eps: Float[ArrayLike, "..."],
    conditions: int = 2,
    gap: Float[ArrayLike, "..."] = 0.5,
) -> Array:
    r"""How far a smooth AND of $k$ conditions can be from the truth: $S(-(g-kq)/\varepsilon)$.

    Of $S_\varepsilon(\sum_iS_\varepsilon(c_i)-z)$ when every $|c_i|\ge\delta$, the `margin`, and the shift $z$ keeps
    the distance $g$, the `gap`, from $k-1$ and $k$. Each inner step is off by at most
    $q=1/(1+e^{\delta/\varepsilon})$, so the outer one sees at least $g-kq$ on the right side of 0; where that is
    negative the formula says nothing.
    """
    eps, margin, gap = _scale(eps), positive("margin", real("margin", margin)), positive("gap", real("gap", gap))
    return jax.nn.sigmoid(-(gap - whole("conditions", conditions) * jax.nn.sigmoid(-margin / eps)) / eps)


@implements("M05.04", "M05.11")
def nested_step(x: Float[ArrayLike, "..."], eps: Float[ArrayLike, "..."], depth: int) -> Array:
    r"""$S_\varepsilon(x)$, clipped `depth` - 1 times over: the half-plane $x>0$ written with as many nested steps.

    Each clip makes it steeper, by $\frac1{4\varepsilon}$ at 0: for small $\varepsilon$ it is nearly
    $S(x/(4^{d-1}\varepsilon^d))$, and on a bounded interval at $L^1$ distance $2\ln2\cdot4^{d-1}\varepsilon^d$ from
    the step.
    """
    out = smooth_step(x, eps)
    for _ in range(whole("depth", depth) - 1):
        out = smooth_clip(out, eps)
    return out


def _scale(eps):
    return positive("eps", real("eps", eps))
