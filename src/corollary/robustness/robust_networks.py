r"""Two-layer networks whose sign no small perturbation changes, and exactly how far away it changes along a ray.

Examples $x_i$ on the sphere of radius $\sqrt d$ with $|x_i\cdot x_j|\le cd$ are told apart by one unit each, with
$w_j=\frac{2x_j}{d(1-c)}$ and $b_j=-\frac{1+c}{1-c}$: its input is 1 at its own example and at most -1 at the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, real, whole, within
from corollary.catalog import implements

#: How far the length of an example may be off, relatively: what single precision leaves of a normalised vector.
ON_SPHERE = 1e-5


@implements("B12.08")
class TwoLayerNetwork(eqx.Module):
    r"""$f(x)=\sum_{j\le k}a_j\sigma(w_j\cdot x+b_j)$: `outer` is $a$ (k,), `inner` $w$ (k, d), `bias` $b$ (k,)."""

    outer: jax.Array
    inner: jax.Array
    bias: jax.Array
    activation: Callable = eqx.field(static=True)

    def __init__(
        self,
        outer: Float[ArrayLike, "k"],
        inner: Float[ArrayLike, "k d"],
        bias: Float[ArrayLike, "k"],
        activation: Callable = jax.nn.relu,
    ):
        if not callable(activation):
            raise TypeError(f"activation must be a function of a number, got {type(activation).__name__}.")
        dims = {}
        self.outer, self.inner = real("outer", outer, "k", dims), real("inner", inner, "k d", dims)
        self.bias, self.activation = real("bias", bias, "k", dims), activation

    def units(self, x: Float[ArrayLike, "d"]) -> Float[Array, "k"]:
        """What the units get at `x`, before the activation."""
        x = real("x", x, "d", {"d": self.inner.shape[1]}, finite=False)
        return self.inner @ x + self.bias

    def __call__(self, x: Float[ArrayLike, "d"]) -> Float[Array, ""]:
        return self.outer @ self.activation(self.units(x))


def sphere_points(points: int, features: int, *, key: PRNGKeyArray) -> Float[Array, "n d"]:
    r"""So many independent `points` of the uniform law on the sphere of radius $\sqrt d$, $d$ the number of `features`.

    >>> print(jnp.sum(sphere_points(2, 4, key=key) ** 2, 1).round(4))
    [4. 4.]
    """
    points, features = whole("points", points), whole("features", features)
    x = jax.random.normal(key, (points, features))
    return x * (features**0.5 / jnp.linalg.norm(x, axis=1, keepdims=True))


def coherence(x: Float[ArrayLike, "n d"]) -> Float[Array, ""]:
    r"""$\max_{i\ne j}|x_i\cdot x_j|/d$ of examples on the sphere of radius $\sqrt d$; 0 for one example."""
    x = _on_sphere(real("x", x, "n d"))
    return jnp.max(jnp.abs(x @ x.T) * (1 - jnp.eye(x.shape[0], dtype=x.dtype))) / x.shape[1]


class RobustNetwork(NamedTuple):
    r"""A network that fits its examples, and how far each is from where the output changes its sign.

    `radius` is $\frac{1-c}4\sqrt d$, the certificate of the theorem. `exact_radius` is twice that: up to there no other
    unit is active, the own one is, and at $x_i-\frac{1-c}2x_i$ the output is zero. `coherence` is $c$.
    """

    network: TwoLayerNetwork
    coherence: jax.Array
    radius: jax.Array
    exact_radius: jax.Array

    __repr__ = shown


@implements("B12.10", "B12.11")
def robust_network(x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n"], c: Scalar | None = None) -> RobustNetwork:
    r"""The ReLU network of one unit per example with $f(x_i)=y_i$ whose sign no shorter step than `radius` changes.

    `x` lie on the sphere of radius $\sqrt d$, `y` are -1 or 1, and $|x_i\cdot x_j|\le cd$ for $i\ne j$; `c` is the
    `coherence` unless given.

    >>> x = sphere_points(3, 50, key=key)
    >>> made = robust_network(x, jnp.array([1.0, -1.0, 1.0]))
    >>> print(jax.vmap(made.network)(x).round(3))
    [ 1. -1.  1.]
    """
    dims = {}
    x, y = real("x", x, "n d", dims), real("y", y, "n", dims)
    if concrete(y) and not np.isin(np.asarray(y), (-1, 1)).all():
        raise ValueError("y must hold the labels -1 and 1.")
    found = coherence(x)
    if concrete(found) and not float(found) < 1 - ON_SPHERE:
        raise ValueError("x must not hold the same example twice, or two opposite ones: no unit can tell them apart.")
    c = found if c is None else real("c", c, "")
    within("c", c, float(found) if concrete(found) else -np.inf, 1.0, open="high")
    d = dims["d"]
    network = TwoLayerNetwork(y, 2 * x / (d * (1 - c)), jnp.full(dims["n"], -1.0, x.dtype) * (1 + c) / (1 - c))
    return RobustNetwork(network, c, (1 - c) / 4 * d**0.5, (1 - c) / 2 * d**0.5)


@implements("B12.09")
def ray_flip(
    network: TwoLayerNetwork, x: Float[ArrayLike, "d"], direction: Float[ArrayLike, "d"], *, opposite: bool = False
) -> Float[Array, ""]:
    r"""The least $t\ge0$ at which $f(x+tv)$ no longer has the sign of $f(x)$, $v$ the unit vector along `direction`.

    Exact for two-layer ReLU networks, which are piecewise linear along a line: the places where units switch are
    sorted, and the line is followed from one to the next. Infinite if the sign never changes. A network is
    $R$-robust at $x$ if this is at least $R$ in all directions. An output of zero counts as a change; with `opposite`
    only one of the other sign does.

    >>> line = TwoLayerNetwork([1.0, -1.0], [[1.0], [-1.0]], [0.0, 0.0])  # f(x) = x
    >>> float(ray_flip(line, [2.0], [-3.0]))
    2.0
    """
    if not isinstance(network, TwoLayerNetwork) or network.activation is not jax.nn.relu:
        raise TypeError("network must be a TwoLayerNetwork with ReLU units: others are not piecewise linear.")
    dims = {"d": network.inner.shape[1]}
    x, direction = real("x", x, "d", dims), real("direction", direction, "d", dims)
    length = jnp.linalg.norm(direction)
    within("the length of direction", length, 0.0, open="low")
    u, v = network.units(x), network.inner @ direction / length
    sign = jnp.sign(network(x))
    a = sign * network.outer
    switches = u * v < 0
    times = jnp.where(switches, -u / jnp.where(switches, v, 1), jnp.inf)
    order = jnp.argsort(times)
    times = jnp.concatenate([jnp.zeros(1, times.dtype), times[order]])
    # a unit that goes on adds its slope, one that goes off had a slope of the other sign: both add |v|
    first = jnp.sum(jnp.where((u > 0) | ((u == 0) & (v > 0)), a * v, 0))
    slopes = first + jnp.concatenate([jnp.zeros(1, v.dtype), jnp.cumsum(jnp.where(switches, a * jnp.abs(v), 0)[order])])
    # slopes and values that are zero but for the rounding of these sums are zero
    eps = 8 * u.size * jnp.finfo(u.dtype).eps
    slopes = jnp.where(jnp.abs(slopes) <= eps * jnp.sum(jnp.abs(a * v)), 0, slopes)
    steps = jnp.where(jnp.isfinite(times[1:]), times[1:], 0) - times[:-1]
    passed = jnp.where(jnp.isfinite(times[1:]), slopes[:-1] * steps, 0)
    values = sign * network(x) + jnp.concatenate([jnp.zeros(1, passed.dtype), jnp.cumsum(passed)])
    reach = jnp.sum(jnp.abs(a) * (jnp.abs(u) + jnp.abs(v) * jnp.max(jnp.where(jnp.isfinite(times), times, 0))))
    values = jnp.where(jnp.abs(values) <= eps * reach, 0, values)
    falls = slopes < 0
    crossing = times + jnp.maximum(values, 0) / jnp.where(falls, -slopes, 1)
    ends = jnp.concatenate([times[1:], jnp.full(1, jnp.inf, times.dtype)])
    # beyond the next switch the line is another one; there its value was found to be zero, or is still positive
    found = jnp.where(falls & (crossing < ends), crossing, jnp.inf)
    if not opposite:
        found = jnp.minimum(found, jnp.where(values <= 0, times, jnp.inf))
        found = jnp.where(sign == 0, 0.0, found)
    return jnp.min(jnp.where(jnp.isfinite(times), found, jnp.inf))


def _on_sphere(x):
    """`x`, whose rows have the length of the root of their number of entries; one sentence otherwise."""
    if concrete(x):
        lengths, radius = np.linalg.norm(np.asarray(x, float), axis=1), x.shape[1] ** 0.5
        worst = int(np.abs(lengths - radius).argmax())
        if abs(lengths[worst] - radius) > ON_SPHERE * radius:
            raise ValueError(
                f"x must lie on the sphere of radius √d = {radius:.6g}, and example {worst} has the length "
                f"{lengths[worst]:.6g}: scale every example to that length."
            )
    return x
