r"""Associative memories beyond pairs: energies of higher order, and the continuous network that is attention.

Dense memories keep states of $\pm1$ and replace the square in $-\sum_t(x_t^\top X)^2$ by a steeper $F$, a power or the
exponential. The modern continuous network has real states and the energy
$E(\xi)=-\beta^{-1}\log\sum_te^{\beta x_t^\top\xi}+\frac12\|\xi\|^2$.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, logsumexp, ndtri
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.memory.hopfield import signs


class DenseSettled(NamedTuple):
    """A state at rest, the sweeps it took, and whether it came to rest at all."""

    state: jax.Array
    sweeps: jax.Array
    at_rest: jax.Array

    __repr__ = shown


@implements("E01.35")
def dense_energy(
    patterns: Float[ArrayLike, "..."], x: Float[ArrayLike, "..."], degree: int | None = None
) -> Float[Array, ""]:
    r"""$-\sum_tF(x_t^\top X)$ with $F(z)=z^p$ of this `degree`, or $F(z)=e^z$ where it is None."""
    patterns, x, degree = _memory(patterns, x, degree)
    overlaps = patterns @ x
    return -jnp.sum(jnp.exp(overlaps) if degree is None else overlaps**degree)


@implements("E01.35")
def dense_field(
    patterns: Float[ArrayLike, "..."], x: Float[ArrayLike, "..."], degree: int | None = None
) -> Float[Array, "..."]:
    r"""The energy of $X_i=-1$ less that of $X_i=+1$, for every unit, over a positive factor: a unit follows its sign.

    $\sum_t[F(a_{t,i}+x_{t,i})-F(a_{t,i}-x_{t,i})]$ with $a_{t,i}$ the overlap without unit $i$. Measured in
    units of the largest term, so that neither a high power nor the exponential overflows.
    """
    patterns, x, degree = _memory(patterns, x, degree)
    return jnp.sum(_differences(patterns, x, degree), axis=0)


@implements("E01.35")
def dense_recall(
    patterns: Float[ArrayLike, "..."],
    start: Float[ArrayLike, "..."],
    degree: int | None = None,
    *,
    max_sweeps: int = 100,
    key: PRNGKeyArray | None = None,
) -> DenseSettled:
    """Update the units in turn, each to the side of lower energy (+1 at a tie), until a sweep changes nothing.

    With a `key` every sweep visits them in a fresh random order. Needs no weights, only the patterns.
    """
    patterns, start, degree = _memory(patterns, start, degree, "start")
    max_sweeps, n = whole("max_sweeps", max_sweeps), start.shape[0]

    def sweep(run):
        x, sweeps, _ = run
        order = jnp.arange(n) if key is None else jax.random.permutation(jax.random.fold_in(key, sweeps), n)

        def advance(carry, unit):
            x, overlaps = carry
            column = patterns[:, unit]
            field = jnp.sum(_difference(overlaps - column * x[unit], column, degree, n))
            value = jnp.where(field >= 0, 1, -1).astype(x.dtype)
            return (jnp.where(jnp.arange(n) == unit, value, x), overlaps + column * (value - x[unit])), value != x[unit]

        (x, _), flipped = jax.lax.scan(advance, (x, patterns @ x), order)
        return DenseSettled(x, sweeps + 1, ~flipped.any())

    first = DenseSettled(start, jnp.array(0), jnp.array(False))
    return jax.lax.while_loop(lambda run: ~run.at_rest & (run.sweeps < max_sweeps), sweep, first)


@implements("E01.35")
def stable_loads(patterns: Float[ArrayLike, "s n"], degree: int | None = None) -> Bool[Array, "s"]:
    r"""Whether the first pattern is at rest when the first $s$ patterns are stored, for every $s$: shape (number,).

    What each further pattern adds to the field of each unit is one more term of a sum, so that one running sum over the
    patterns answers for all loads. Units that are zero in all patterns are not there, so that networks of different
    size fit one array.
    """
    patterns = real("patterns", patterns, "s n")
    if degree is not None:
        degree = whole("degree", degree, 2)
    x, n = patterns[0], patterns.shape[1]

    def add(field, row):
        field = field + _difference(row @ x - row * x, row, degree, n)
        return field, jnp.all((jnp.where(field >= 0, 1, -1) == x) | (x == 0))

    return jax.lax.scan(add, jnp.zeros_like(x), patterns)[1]


@implements("E01.35")
def dense_capacity(n: Float[ArrayLike, "..."], degree: int) -> Float[Array, "..."]:
    r"""$\frac{n^{p-1}}{2(2p-3)!!\ln n}$: the patterns that a memory of this degree holds, to leading order."""
    n, degree = positive("n", real("n", n)), whole("degree", degree, 2)
    return n ** (degree - 1) / (2 * math.prod(range(1, 2 * degree - 2, 2)) * jnp.log(n))


@implements("E01.35")
def dense_half_load(n: int, degree: int) -> Float[Array, ""]:
    r"""The number of random patterns at which half of them are stable, by the noise at this size.

    A unit's own pattern gives it the margin $n^p-(n-2)^p$, each other one an independent term of mean zero and of the
    variance of $(a+1)^p-(a-1)^p$, $a$ a sum of $n-1$ signs. With normal noise and a Poisson number of unstable units,
    half of the patterns have none where $n\,Q(\text{margin}/\text{deviation})=\ln2$.
    """
    n, degree = whole("n", n, 3), whole("degree", degree, 2)
    ups = jnp.arange(n, dtype=jnp.result_type(float))
    a = 2 * ups - (n - 1)
    weight = jnp.exp(gammaln(n) - gammaln(ups + 1) - gammaln(n - ups) - (n - 1) * np.log(2))
    # in units of n^p
    variance = jnp.sum(weight * (((a + 1) / n) ** degree - ((a - 1) / n) ** degree) ** 2)
    margin = 1 - (1 - 2 / n) ** degree
    return 1 + (margin / ndtri(np.log(2) / n)) ** 2 / variance


@implements("E01.36")
def modern_energy(patterns: Float[ArrayLike, "s d"], xi: Float[ArrayLike, "d"], beta: Scalar) -> Float[Array, ""]:
    r"""$E(\xi)=-\beta^{-1}\log\sum_te^{\beta x_t^\top\xi}+\frac12\xi^\top\xi$; any vectors as patterns, in the rows."""
    patterns, xi, beta = _continuous(patterns, xi, beta)
    return -logsumexp(beta * (patterns @ xi)) / beta + 0.5 * xi @ xi


@implements("E01.36")
def modern_step(patterns: Float[ArrayLike, "s d"], xi: Float[ArrayLike, "d"], beta: Scalar) -> Float[Array, "_"]:
    r"""$\xi\leftarrow\sum_t\operatorname{softmax}(\beta x_t^\top\xi)_t\,x_t$: attention with the state as query."""
    patterns, xi, beta = _continuous(patterns, xi, beta)
    return jax.nn.softmax(beta * (patterns @ xi)) @ patterns


@implements("E01.36")
def modern_path(
    patterns: Float[ArrayLike, "s d"], start: Float[ArrayLike, "d"], beta: Scalar, steps: int
) -> Float[Array, "_ _"]:
    """All states of the continuous network, start included: (steps + 1, d)."""
    patterns, start, beta = _continuous(patterns, start, beta, "start")

    def advance(xi, _):
        xi = jax.nn.softmax(beta * (patterns @ xi)) @ patterns
        return xi, xi

    _, rest = jax.lax.scan(advance, start, length=whole("steps", steps, 0))
    return jnp.concatenate([start[None], rest])


def _difference(without, column, degree, n):
    """F(a + x) - F(a - x), over n^p or e^n: `without` is the overlap a without the unit, `column` its values x."""
    up, down = without + column, without - column
    if degree is None:
        return jnp.exp(up - n) - jnp.exp(down - n)
    return (up / n) ** degree - (down / n) ** degree


def _differences(patterns, x, degree):
    """The same for all patterns and all units of the state: (s, n)."""
    without = (patterns @ x)[:, None] - patterns * x
    return _difference(without, patterns, degree, x.shape[0])


def _memory(patterns, x, degree, name: str = "x"):
    dims = {}
    patterns, x = signs("patterns", patterns, "s n", dims), signs(name, x, "n", dims)
    dtype = jnp.result_type(patterns, x)
    return patterns.astype(dtype), x.astype(dtype), None if degree is None else whole("degree", degree, 2)


def _continuous(patterns, xi, beta, name: str = "xi"):
    dims = {}
    patterns, xi = real("patterns", patterns, "s d", dims), real(name, xi, "d", dims)
    beta = positive("beta", real("beta", beta, ""))
    dtype = np.result_type(patterns.dtype, xi.dtype)
    return patterns.astype(dtype), xi.astype(dtype), beta.astype(dtype)
