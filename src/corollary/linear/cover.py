r"""Cover's count of the linear classifications of $s$ points of $\mathbb R^n$ in general position.

$\mathcal C(s,n)=2\sum_{i<n}\binom{s-1}i$ counts the labellings that a hyperplane through the origin can make; with a
bias, take $n+1$ for $n$. The numbers soon exceed any machine word: they are Python integers here, their share of all
$2^s$ labellings is a float for arrays of sizes, and their logarithm reaches as far as one likes.
"""

from __future__ import annotations

from math import comb

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, gammaln
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import concrete, real, whole, within
from corollary.catalog import implements


@implements("E01.19")
def cover_count(s: int, n: int) -> int:
    r"""$\mathcal C(s,n)=2\sum_{i=0}^{n-1}\binom{s-1}i$, exactly; $2^s$ where $s\le n$."""
    s, n = whole("s", s), whole("n", n, 0)
    return 2 * sum(comb(s - 1, i) for i in range(min(n, s)))


@implements("E01.20")
def cover_table(s: int, n: int) -> list[list[int]]:
    r"""$\mathcal C(j,k)$ for $1\le j\le s$ (rows), $0\le k\le n$ (columns), by the recursion and nothing else.

    $\mathcal C(1,k)=2$ for $k\ge1$, $\mathcal C(j,0)=0$, $\mathcal C(j+1,k)=\mathcal C(j,k)+\mathcal C(j,k-1)$.
    """
    s, n = whole("s", s), whole("n", n, 0)
    row = [0] + [2] * n
    table = [row]
    for _ in range(s - 1):
        row = [0] + [row[k] + row[k - 1] for k in range(1, n + 1)]
        table.append(row)
    return table


@implements("E01.21")
def cover_fraction(s: Float[ArrayLike, "..."], n: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\mathcal C(s,n)/2^s$, the chance that random labels of $s$ points can be separated, for arrays of whole sizes.

    It is the chance of fewer than $n$ heads in $s-1$ throws of a coin: 1 for $s\le n$, exactly ½ at $s=2n$. Beyond that
    the incomplete beta function continues it between whole sizes.
    """
    s, n = within("s", real("s", s), 1.0), within("n", real("n", n), 1.0)
    few = s <= n
    return jnp.where(few, 1.0, betainc(jnp.where(few, 1.0, s - n), n, 0.5))


@implements("E01.19")
def log2_cover_count(s: Float[ArrayLike, "..."], n: int) -> Float[Array, "..."]:
    r"""$\log_2\mathcal C(s,n)$ for arrays of sizes `s` and one dimension `n`, however large the count."""
    s, n = within("s", real("s", s), 1.0), whole("n", n)
    i = jnp.arange(n, dtype=s.dtype)
    top = s[..., None] - 1
    possible = i <= top
    rest = jnp.where(possible, top - i, 0)
    terms = jnp.where(possible, gammaln(top + 1) - gammaln(i + 1) - gammaln(rest + 1), -jnp.inf)
    return 1 + jax.nn.logsumexp(terms, axis=-1) / jnp.log(2.0)


@implements("E01.21")
def cover_capacity(n: int) -> int:
    r"""$2n$: the number of points of which exactly half of all labellings are linear, without bias."""
    return 2 * whole("n", n)


@implements("E01.21")
def cover_crossing(sizes: Float[ArrayLike, "k"], fractions: Float[ArrayLike, "k"]) -> Float[Array, ""]:
    """The size at which fractions that fall from above ½ to below it pass through ½, by linear interpolation.

    Raises if they do not cross; where that cannot be looked at (under `jit`), the crossing is NaN.
    """
    dims = {}
    sizes, fractions = real("sizes", sizes, "k", dims), real("fractions", fractions, "k", dims)
    if concrete(sizes) and (np.diff(np.asarray(sizes)) <= 0).any():
        raise ValueError("sizes must be increasing.")
    # the first size from which on everything is below ½
    below = jnp.flip(jnp.cumprod(jnp.flip(fractions < 0.5)))
    at = jnp.argmax(below)
    crosses = (at > 0) & (below[at] > 0)
    if concrete(crosses) and not np.asarray(crosses):
        raise ValueError("fractions must fall from one half or more to less than one half.")
    lower, upper = fractions[at - 1], fractions[at]
    place = (lower - 0.5) / jnp.where(lower > upper, lower - upper, 1)
    return jnp.where(crosses, sizes[at - 1] + place * (sizes[at] - sizes[at - 1]), jnp.nan)
