r"""The features of polynomial kernels: all monomials of one degree, suitably weighted."""

import math
from itertools import combinations_with_replacement

import jax.numpy as jnp
import numpy as np

from corollary._validate import real, whole
from corollary.catalog import implements


@implements("M04.08")
def quadratic_features(x):
    r"""$\psi(a,b)=(a^2,\sqrt2\,ab,b^2)$ of a point in the plane: $\psi(x)\cdot\psi(x')=(x\cdot x')^2$."""
    a, b = real("x", x, "2")
    return jnp.stack([a * a, 2**0.5 * a * b, b * b])


@implements("M04.08")
def monomial_features(x, degree: int):
    r"""All monomials of this degree of one point, each times the root of its multinomial coefficient.

    $\psi(x)\cdot\psi(x')=(x\cdot x')^p$ by the multinomial theorem. There are $\binom{d+p-1}p$ of them.
    """
    x, degree = real("x", x, "d"), whole("degree", degree)
    picks, weights = _monomials(x.shape[0], degree)
    return jnp.asarray(weights, x.dtype) * jnp.prod(x[jnp.asarray(picks)], axis=1)


@implements("M04.08")
def monomial_count(dim: int, degree: int) -> int:
    r"""$\binom{d+p-1}p$, the number of monomials of degree $p$ in $d$ variables."""
    dim, degree = whole("dim", dim), whole("degree", degree)
    return math.comb(dim + degree - 1, degree)


def _monomials(dim, degree):
    """The coordinates of each monomial, with repetition, and the root of how often it occurs in the power."""
    picks = np.array(list(combinations_with_replacement(range(dim), degree)))
    powers = [np.bincount(row, minlength=dim) for row in picks]
    counts = [math.factorial(degree) / math.prod(math.factorial(int(k)) for k in row) for row in powers]
    return picks, np.sqrt(counts)
