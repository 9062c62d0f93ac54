r"""Neurons that fire above a threshold: McCulloch and Pitts, and the linear threshold unit with its hyperplane.

The texts use two signs. `sgn` is zero at zero, so that a point on the hyperplane counts as a mistake for either label;
`sgn_plus` is one there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, one_of, real, whole
from corollary.catalog import implements
from corollary.linear._shapes import features
from corollary.linear._signs import signs


@implements("E01.02")
def sgn(z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$+1,0,-1$ for positive, zero and negative $z$."""
    return jnp.sign(real("z", z))


@implements("M01.02")
def sgn_plus(z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$+1$ for $z\ge0$, else $-1$."""
    z = real("z", z)
    return jnp.where(z >= 0, 1, -1).astype(z.dtype)


@implements("E01.01")
class McCullochPitts(eqx.Module):
    r"""$\mathbb 1\{\sigma\cdot x\ge\theta\}$ for $x\in\{0,1\}^n$: synapses excite (+1) or inhibit (-1)."""

    sigma: jax.Array
    theta: jax.Array

    def __init__(self, sigma: Float[ArrayLike, "..."], theta: Scalar):
        self.sigma, self.theta = signs("sigma", sigma), real("theta", theta, "")

    def __call__(self, x: Float[ArrayLike, "_"]) -> Int[Array, ""]:
        x = real("x", x, str(self.sigma.shape[0]))
        if concrete(x) and not np.isin(np.asarray(x), (0, 1)).all():
            raise ValueError("x must hold zeros and ones only.")
        return (self.sigma @ x >= self.theta).astype(int)


@implements("E01.01")
def binary_inputs(n: int) -> Int[Array, "_ _"]:
    """All of $\\{0,1\\}^n$ in the order of binary numbers, the first input the most significant: (2^n, n)."""
    n = whole("n", n, 1, 20)
    return jnp.asarray((np.arange(2**n)[:, None] >> np.arange(n)[::-1]) & 1)


@implements("E01.01")
def truth_table(function: Callable, n: int) -> Int[Array, "_"]:
    """What `function` of one input vector says on each of `binary_inputs(n)`."""
    if not callable(function):
        raise TypeError(f"function must be a function of one input vector, got {type(function).__name__}.")
    return jax.vmap(function)(binary_inputs(n))


@implements("E01.01")
def mcculloch_pitts_tables(n: int) -> Int[Array, "_ _"]:
    r"""The truth tables of all McCulloch-Pitts neurons of $n$ inputs, each once: (count, 2^n).

    The sums $\sigma\cdot x$ are whole and lie in $[-n,n]$, so the thresholds $-n,\dots,n+1$ stand for all others.
    """
    fires, _ = _neurons(whole("n", n, 1, 8))
    return jnp.asarray(np.unique(fires.reshape(-1, fires.shape[-1]), axis=0).astype(int))


@implements("E01.01")
def find_mcculloch_pitts(table: Float[ArrayLike, "m"]) -> McCullochPitts | None:
    """A neuron with this truth table (in the order of `binary_inputs`), or None if there is none."""
    table = np.asarray(real("table", table, "m"))
    n = int(table.size).bit_length() - 1
    if table.size != 2**n or not 1 <= n <= 8:
        raise ValueError(f"table must have 2, 4, ... or 256 entries, got {table.size}.")
    if not np.isin(table, (0, 1)).all():
        raise ValueError("table must hold zeros and ones only.")
    fires, sigmas = _neurons(n)
    hits = np.argwhere((fires == (table == 1)).all(axis=-1))
    return None if hits.size == 0 else McCullochPitts(sigmas[hits[0, 0]], float(hits[0, 1] - n))


@implements("E01.02", "M01.02", "M04.01")
class LinearThreshold(eqx.Module):
    r"""The perceptron $\operatorname{sgn}(w\cdot x+b)$, called on one example; `vmap` it over rows.

    `at_zero` is its value on the hyperplane itself: 0, or 1 for $\operatorname{sgn}(0)=+1$.
    """

    weight: jax.Array
    bias: jax.Array
    at_zero: int = eqx.field(static=True)

    def __init__(self, features: int, *, at_zero: int = 0, key: PRNGKeyArray):
        features = whole("features", features)
        draw = jax.random.uniform(key, (features + 1,), minval=-1, maxval=1) * features**-0.5
        self.weight, self.bias, self.at_zero = draw[:-1], draw[-1], one_of("at_zero", at_zero, (0, 1))

    @classmethod
    def of(cls, w: Float[ArrayLike, "d"], b: Scalar = 0.0, *, at_zero: int = 0) -> "LinearThreshold":
        """The unit with weights `w` and bias `b`."""
        w, b = real("w", w, "d"), real("b", b, "")
        blank = cls(w.shape[0], at_zero=at_zero, key=jax.random.key(0))
        return eqx.tree_at(lambda unit: (unit.weight, unit.bias), blank, (w, b))

    def __call__(self, x: Float[ArrayLike, "_"]) -> Float[Array, ""]:
        z = self.weight @ real("x", x, str(self.weight.shape[0])) + self.bias
        return jnp.where(z == 0, self.at_zero, jnp.sign(z)).astype(z.dtype)


class Hyperplane(NamedTuple):
    r"""$\{x:n\cdot x=d\}$ with the unit vector $n$ and the signed distance $d$ of the origin's foot along it."""

    normal: jax.Array
    offset: jax.Array

    __repr__ = shown

    @property
    def foot(self) -> Float[Array, "_"]:
        """The point of the hyperplane nearest to the origin."""
        return self.offset * self.normal

    def distance(self, x: Float[ArrayLike, "... _"]) -> Float[Array, "..."]:
        """The signed distance of each point of `x` (..., d), positive on the side of the normal."""
        return real("x", x, f"... {self.normal.shape[0]}") @ self.normal - self.offset

    def project(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The nearest point of the hyperplane to each of `x` (..., d)."""
        return x - self.distance(x)[..., None] * self.normal


@implements("E01.03")
def hyperplane(w: Float[ArrayLike, "..."], b: Scalar) -> Hyperplane:
    r"""The boundary $w\cdot x+b=0$ in Hesse normal form: $n=w/\|w\|$, $d=-b/\|w\|$."""
    w, b, length = _nonzero(w, b)
    return Hyperplane(w / length, -b / length)


@implements("E01.04")
def signed_distance(
    w: Float[ArrayLike, "..."], b: Scalar, x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$\gamma[w,b](x,y)=y(w\cdot x+b)/\|w\|$ of every labelled point, $y=\pm1$: (n,).

    A zero `w` has no hyperplane and is refused; where its value is not known yet (under `jit`) the distance is 0,
    which counts as a mistake.
    """
    x, y = _data(x, y)
    w, b, length = _nonzero(w, b, x.shape[1])
    return jnp.where(jnp.any(w != 0), y * (x @ w + b) / length, 0)


@implements("E01.06")
def margin(
    w: Float[ArrayLike, "..."], b: Scalar, x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "..."]
) -> Float[Array, ""]:
    r"""$\gamma[w,b](S)$, the least signed distance of the data: positive exactly if all are classified correctly."""
    return jnp.min(signed_distance(w, b, x, y))


def _neurons(n):
    """Whether the neuron (sign vector, threshold) fires on each input, and the sign vectors."""
    inputs = np.asarray(binary_inputs(n))
    sigmas = 2 * inputs - 1
    thresholds = np.arange(-n, n + 2)
    return (sigmas @ inputs.T)[:, None, :] >= thresholds[:, None], sigmas


def _data(x, y):
    dims = {}
    return features(x, dims), signs("y", y, "n", dims)


def _nonzero(w, b, d: int | None = None):
    w, b = real("w", w, "d" if d is None else str(d)), real("b", b, "")
    if concrete(w) and not np.asarray(w).any():
        raise ValueError("w must not be zero: it defines no hyperplane.")
    scale = jnp.max(jnp.abs(w))
    scale = jnp.where(scale > 0, scale, 1)  # neither the squares of large nor of small weights leave the range
    length = scale * jnp.linalg.norm(w / scale)
    return w, b, jnp.where(length > 0, length, 1)
