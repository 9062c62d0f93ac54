r"""Deep Sets: a network of every element, summed, and a network of the sum; and how wide the sum must be.

A set is a matrix of $M$ rows, its elements in any order; the same network takes sets of every size.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._types import Scalar
from corollary._validate import labels, real, whole
from corollary.catalog import implements


@implements("E07.04")
class DeepSets(eqx.Module):
    r"""$f(x_1,\dots,x_M)=\rho\big(\sum_m\phi(x_m)\big)$: does not depend on the order, and takes any $M$."""

    phi: Callable
    rho: Callable

    def representation(self, x: Float[ArrayLike, "m d"]) -> Float[Array, "_"]:
        r"""$\sum_m\phi(x_m)$; of a disjoint union the sum of both."""
        return _summed(self.phi, _elements(x))

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.rho(self.representation(x))


@implements("E07.05")
class DeepSetsEquivariant(eqx.Module):
    r"""$f(x_1,\dots,x_M)_i=\rho\big(x_i,\sum_m\phi(x_m)\big)$: one output for every element, in its place.

    $\rho$ is called on the concatenation of both vectors.
    """

    phi: Callable
    rho: Callable

    def __call__(self, x: Float[ArrayLike, "m d"]) -> Float[Array, "..."]:
        x = _elements(x)
        total = _summed(self.phi, x)
        return jax.vmap(lambda element: self.rho(jnp.concatenate([element, total])))(x)


@implements("E07.06")
def power_sums(x: Float[ArrayLike, "m"], order: int) -> Float[Array, "m"]:
    r"""$\big(\sum_mx_m,\sum_mx_m^2,\dots,\sum_mx_m^K\big)$ of numbers: Deep Sets with $\phi(x)=(x,\dots,x^K)$."""
    x, order = real("x", x, "m"), whole("order", order)
    return jnp.sum(x[:, None] ** jnp.arange(1, order + 1), axis=0)


@implements("E07.06")
def from_power_sums(sums: Float[ArrayLike, "m"]) -> Float[Array, "m"]:
    r"""The $M$ real numbers, in increasing order, with these $M$ power sums.

    Newton's identities $ke_k=\sum_{i=1}^k(-1)^{i-1}e_{k-i}p_i$ give the polynomial whose roots they are. The roots of a
    polynomial are continuous in its coefficients, so that every continuous symmetric function of $M$ numbers is a
    continuous function of $M$ sums.
    """
    sums = real("sums", sums, "m")
    m = sums.shape[0]
    signed = sums * (-1.0) ** jnp.arange(m)

    def newton(e, k):
        earlier = jnp.where(jnp.arange(m) < k, e[(k - 1 - jnp.arange(m)) % (m + 1)], 0.0)
        return e.at[k].set(earlier @ signed / k), None

    start = jnp.zeros(m + 1, sums.dtype).at[0].set(1.0)
    elementary, _ = jax.lax.scan(newton, start, jnp.arange(1, m + 1))
    roots = jnp.roots(elementary * (-1.0) ** jnp.arange(m + 1), strip_zeros=False)
    return jnp.sort(jnp.real(roots))


@implements("E07.06")
def code(elements: Int[ArrayLike, "..."], size: int, *, most: int) -> Float[Array, "..."]:
    r"""$\phi(x)=(M+1)^{-c(x)}$ for the $c(x)$-th of `size` possible elements ($c=1$ for element 0), entrywise.

    The sum over a multiset of at most $M$ = `most` elements is a number whose digits in base $M+1$ say how often each
    occurs: one dimension is enough where the elements can be counted off. On numbers such a $\phi$ is discontinuous
    everywhere.
    """
    size, most = whole("size", size), whole("most", most)
    elements = labels("elements", elements, size, "...")
    # tables of NumPy: a power on an accelerator need not be exact to the last digit
    return jnp.asarray(_powers(size, most))[elements]


@implements("E07.06")
def decode(total: Scalar, size: int, *, most: int) -> Int[Array, "_"]:
    """How often each of `size` elements occurs in the multiset whose `code`s have this sum."""
    size, most = whole("size", size), whole("most", most)
    total = real("total", total, "")
    places = 1 / _powers(size, most)
    # the sum is a whole number of the smallest code, up to rounding
    number = jnp.round(total * places[-1])
    return jnp.mod(jnp.floor(number / np.round(places[-1] / places)), most + 1.0).astype(int)


def _powers(size, most):
    """The codes of all elements; refused where the rounding of a sum of `most` of them hides the smallest."""
    bits = np.finfo(jnp.result_type(float)).nmant
    if (most + 1.0) ** (size + 1) > 2.0 ** (bits - 2):
        raise ValueError(f"{size} elements up to {most} times each do not fit in the {bits} binary digits of a number.")
    return np.array([(most + 1.0) ** -(i + 1) for i in range(size)], jnp.result_type(float))


def _elements(x):
    return real("x", x, "m d", finite=False)


def _summed(phi, x):
    return jnp.sum(jax.vmap(phi)(x), axis=0)
