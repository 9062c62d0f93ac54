r"""Polynomials in one variable: least squares in three bases, and the polynomial through all points.

Least squares of a degree below the number of points has one solution, whatever the basis; the basis decides what a
penalty measures, which of many solutions is the shortest, and how many digits are lost.
"""

from __future__ import annotations

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._types import Scalar
from corollary._validate import concrete, labels, one_of, real, whole, within
from corollary.catalog import implements

BASES = ("orthonormal", "legendre", "monomial")


@implements("M11.02")
class Polynomial(eqx.Module):
    r"""$x\mapsto\sum_dc_dp_d(x)$ in a basis of polynomials $p_0,p_1,\dots$ of these degrees; made by `polynomial_fit`.

    The basis is a recurrence in $u=(x-s)/h$, with `shift` $s$ and `scale` $h$: $p_0=1$ and
    $g_dp_{d+1}=(u-a_d)p_d-b_dp_{d-1}$, with $a$, $b$, $g$ in the rows of `recurrence` (3, D).
    """

    coefficients: jax.Array
    recurrence: jax.Array
    shift: jax.Array
    scale: jax.Array

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The value at each entry of `x`."""
        x = real("x", x)
        u = (x - self.shift) / self.scale
        return jnp.tensordot(_values(u, self.recurrence), self.coefficients, 1)

    def truncated(self, degree: Int[ArrayLike, ""]) -> Polynomial:
        """The terms up to `degree`, which may be traced.

        In the orthonormal basis and without a penalty that is the least-squares fit of that degree.
        """
        degree = labels("degree", degree, None, "")
        kept = jnp.arange(self.coefficients.shape[0]) <= degree
        return eqx.tree_at(lambda p: p.coefficients, self, jnp.where(kept, self.coefficients, 0))

    def monomials(self) -> Float[Array, "_"]:
        r"""$c_0,\dots,c_D$ of $\sum_dc_dx^d$. High degrees lose digits: values are taken from `__call__`."""
        degree = self.recurrence.shape[1]
        zero = jnp.zeros(degree + 1, self.coefficients.dtype)

        def times(p):  # (x - shift) / scale times p
            return (jnp.roll(p, 1).at[0].set(0) - self.shift * p) / self.scale

        first = zero.at[0].set(1)
        return self.coefficients @ _recurrence(times, zero, first, self.recurrence)


@implements("M11.02", "M11.03", "T05.03")
def polynomial_fit(
    x: Float[ArrayLike, "n"],
    y: Float[ArrayLike, "n"],
    degree: int,
    *,
    penalty: Scalar = 0.0,
    basis: str = "orthonormal",
) -> Polynomial:
    r"""The polynomial of least $\frac1n\sum_i(y_i-P(x_i))^2+\lambda\sum_dc_d^2$, with $\lambda$ = `penalty`.

    `basis` says what the $c_d$ are: `"orthonormal"`, of the polynomials that are orthonormal for the mean over the
    points, the best conditioned, for degrees below the number of points; `"legendre"`, of Legendre polynomials on the
    range of the points, of mean square 1 there; or `"monomial"`, of $1,x,x^2,\dots$. In the last two, without a
    penalty and with more coefficients than points, it is the interpolant with the least $\sum_dc_d^2$.

    >>> p = polynomial_fit(jnp.array([0.0, 1.0, 2.0]), jnp.array([1.0, 3.0, 7.0]), 2)
    >>> [round(float(c), 3) for c in p.monomials()]
    [1.0, 1.0, 1.0]
    """
    dims = {}
    x, y = real("x", x, "n", dims), real("y", y, "n", dims)
    degree, penalty = whole("degree", degree, 0), within("penalty", real("penalty", penalty, ""), 0.0)
    one_of("basis", basis, BASES)
    n = x.shape[0]
    if basis == "orthonormal" and degree >= n:
        raise ValueError(
            f"degree must be below the number of points for the orthonormal basis, got {degree} for {n} points: "
            "take basis='legendre' or 'monomial'."
        )
    low, high = jnp.min(x), jnp.max(x)
    flat = jnp.where(high > low, (high - low) / 2, 1)
    shift, scale = ((low + high) / 2, flat) if basis != "monomial" else (jnp.zeros_like(low), jnp.ones_like(low))
    u = (x - shift) / scale
    if basis == "orthonormal":
        values, recurrence = _orthonormal(u, degree)
        coefficients = values.T @ y / n / (1 + penalty)
    else:
        recurrence = jnp.asarray(_legendre(degree) if basis == "legendre" else _monomial(degree), u.dtype)
        left, s, right = jnp.linalg.svd(_values(u, recurrence), full_matrices=False)
        kept = s > max(n, degree + 1) * jnp.finfo(u.dtype).eps * s[0]
        gain = jnp.where(kept, s / jnp.where(kept, s**2 + n * penalty, 1), 0)
        coefficients = right.T @ (gain * (left.T @ y))
    return Polynomial(coefficients, recurrence, shift, scale)


@implements("B13.17", "M11.05")
class InterpolatingPolynomial(eqx.Module):
    r"""$\sum_iy_iw_i\prod_{j\ne i}(x-x_j)$, the polynomial of degree n - 1 through n points, exact at the nodes.

    Made by `interpolating_polynomial`; `signs` and `logs` are those of the weights $w_i$.
    """

    nodes: jax.Array
    values: jax.Array
    signs: jax.Array
    logs: jax.Array

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The value at each entry of `x`."""
        x = real("x", x)
        distance = x[..., None] - self.nodes
        # within rounding of a node: what is computed twice may be rounded twice, and the sign of a distance be lost
        hit = jnp.abs(distance) <= 4 * jnp.finfo(distance.dtype).eps * jnp.abs(self.nodes)
        safe = jnp.where(hit, 1, distance)
        size = jnp.abs(safe)
        whole, sign = jnp.sum(jnp.log(size), -1, keepdims=True), jnp.prod(jnp.sign(safe), -1)
        share = self.signs * jnp.sign(safe) * jnp.exp(self.logs + whole - jnp.log(size))
        at = sign * jnp.sum(share * self.values, -1)
        return jnp.where(
            hit.any(-1), jnp.sum(jnp.where(hit, self.values, 0), -1) / jnp.maximum(jnp.sum(hit, -1), 1), at
        )


@implements("B13.17", "M11.05", "T05.03")
def interpolating_polynomial(x: Float[ArrayLike, "n"], y: Float[ArrayLike, "n"]) -> InterpolatingPolynomial:
    r"""The one polynomial of degree below n with $P(x_i)=y_i$, for different $x_i$.

    $P(x)=\ell(x)\sum_i\frac{w_i}{x-x_i}y_i$ with $\ell(x)=\prod_j(x-x_j)$ and $1/w_i=\prod_{j\ne i}(x_i-x_j)$, which
    is stable wherever it is evaluated; products are sums of logarithms, so that only the value itself can overflow.
    """
    dims = {}
    x, y = real("x", x, "n", dims), real("y", y, "n", dims)
    if concrete(x) and (len(np.unique(np.asarray(x))) < x.shape[0]):
        raise ValueError("x must have no value twice: no polynomial takes two values at one point.")
    n = x.shape[0]
    difference = jnp.where(jnp.eye(n, dtype=bool), 1, x[:, None] - x)
    logs = -jnp.sum(jnp.log(jnp.abs(difference)), 1)
    return InterpolatingPolynomial(x, y, jnp.prod(jnp.sign(difference), 1), logs)


@implements("M11.06")
def least_absolute_polynomial(
    x: Float[ArrayLike, "n"], y: Float[ArrayLike, "n"], degree: int
) -> InterpolatingPolynomial:
    r"""The polynomial of least $rac1n\sum_i|y_i-P(x_i)|$ of this `degree` D, one of them if there are several.

    Some minimiser passes through D + 1 of the points, as a vertex of a linear program; all choices are tried, for
    which there may be at most 2^17 of them.
    """
    dims = {}
    x, y = real("x", x, "n", dims), real("y", y, "n", dims)
    n, degree = x.shape[0], whole("degree", degree, 0, x.shape[0] - 1)
    if (count := math.comb(n, degree + 1)) > 2**17:
        raise ValueError(f"degree must leave at most 2^17 choices of points, got {count} for {n} points.")
    chosen = np.array(list(itertools.combinations(range(n), degree + 1)))

    def error(rows):
        return jnp.mean(jnp.abs(y - interpolating_polynomial(x[rows], y[rows])(x)))

    best = jnp.asarray(chosen)[jnp.argmin(jax.vmap(error)(chosen))]
    return interpolating_polynomial(x[best], y[best])


def chebyshev_nodes(n: int) -> Float[Array, "_"]:
    r"""$\cos\frac{(2i+1)\pi}{2n}$, $i<n$: the zeros of the Chebyshev polynomial of degree n."""
    return jnp.cos((2 * jnp.arange(whole("n", n)) + 1) * jnp.pi / (2 * n))


def _values(u, recurrence):
    """The polynomials of the basis at the entries of `u`, along a new last axis."""
    return jnp.moveaxis(_recurrence(lambda p: u * p, jnp.zeros_like(u), jnp.ones_like(u), recurrence), 0, -1)


def _recurrence(times, zero, one, recurrence):
    """All polynomials of a basis, along a new first axis, from 0, 1 and the product with the variable."""

    def following(state, step):
        before, at = state
        a, b, g = step
        new = (times(at) - a * at - b * before) / g
        return (at, new), new

    _, rest = jax.lax.scan(following, (zero, one), recurrence.T)
    return jnp.concatenate([one[None], rest])


def _orthonormal(u, degree):
    """The orthonormal polynomials at the points (n, D + 1), and their recurrence (3, D), after Stieltjes.

    Each new one is made orthogonal to all before it, twice, not only to the last two as would suffice without rounding.
    """
    n = u.shape[0]
    start = jnp.zeros((n, degree + 1), u.dtype).at[:, 0].set(1)

    def add(state, d):
        basis, b = state
        at = basis[:, d]
        a = jnp.mean(u * at**2)
        new = (u - a) * at
        for _ in range(2):
            new = new - basis @ (basis.T @ new) / n
        g = jnp.sqrt(jnp.mean(new**2))
        return (basis.at[:, d + 1].set(new / g), g), jnp.stack([a, b, g])

    (basis, _), steps = jax.lax.scan(add, (start, jnp.zeros((), u.dtype)), jnp.arange(degree))
    return basis, steps.T


def _legendre(degree):
    # of those with mean square 1 on [-1, 1]: u p_d = g_d p_{d+1} + g_{d-1} p_{d-1}
    d = np.arange(1, degree + 1)
    g = d / np.sqrt(4.0 * d**2 - 1)
    return np.stack([np.zeros(degree), np.append(0, g)[:degree], g])


def _monomial(degree):
    return np.stack([np.zeros(degree), np.zeros(degree), np.ones(degree)])
