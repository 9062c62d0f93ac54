r"""Functions on which no method can be quick: a polynomial that is a 3-SAT formula, and a needle in a haystack."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import concrete, positive, real, whole, within
from corollary.catalog import implements
from corollary.optimization.problem import Problem

#: The steepest slope of the profile $(1-t^2)^2$, at $t=1/\sqrt3$.
_STEEPEST = 8 / (3 * 3**0.5)


@implements("T02.04")
def satisfies(clauses: Int[ArrayLike, "m 3"], assignment: Float[ArrayLike, "n"]) -> Array:
    r"""How many of the clauses an assignment of 0 and 1 satisfies.

    `clauses` (m, 3) names variables from 1, negative where negated, as in DIMACS files.
    """
    clauses, variables = _clauses(clauses)
    assignment = within("assignment", real("assignment", assignment, "n"), 0.0, 1.0)
    _enough(assignment, clauses)
    literals = jnp.where(clauses > 0, assignment[variables], 1 - assignment[variables])
    return jnp.sum(jnp.any(literals == 1, axis=1))


@implements("T02.04")
def satisfiability(clauses: Int[ArrayLike, "m 3"], start: Float[ArrayLike, "n"]) -> Problem:
    r"""$p(w)=\sum_iw_i^2(1-w_i)^2+\sum_C\prod_{\ell\in C}(1-\ell(w))^2$ with $\ell(w)=w_i$, or $1-w_i$ where negated.

    Of total degree 6 and never negative; it has a zero iff the formula of three literals a clause is satisfiable, and
    the zero is a satisfying assignment. To find out whether a polynomial of degree 6 has a zero is thus NP-hard.
    """
    clauses, _ = _clauses(clauses)
    start = real("start", start, "n")
    _enough(start, clauses)

    def value(w, clauses):
        variables = jnp.abs(clauses) - 1
        missing = jnp.where(clauses > 0, 1 - w[variables], w[variables])
        return jnp.sum((w * (1 - w)) ** 2) + jnp.sum(jnp.prod(missing**2, axis=1))

    return Problem(value, (clauses,), start)


@implements("T02.23")
def haystack(cell: Float[ArrayLike, "n"], *, slope: Scalar = 1.0, depth: Scalar = 1.0) -> Problem:
    r"""On $[0,1]^n$: $g\,x_1-h\prod_ib(4|x_i-c_i|)$ with $b(t)=(1-t^2)_+^2$, $c$ the centre of one of the $2^n$ cells
    of side $\frac12$.

    `cell` (n,) of 0 and 1 says which. Outside it values and gradients are those of the slope and tell nothing of
    where it is; all stationary points are inside, if $h\ge\frac{3\sqrt3}{32}g$, which is required. `start` is the
    middle of the opposite cell.
    """
    cell = within("cell", real("cell", cell, "n"), 0.0, 1.0)
    slope, depth = positive("slope", real("slope", slope, "")), positive("depth", real("depth", depth, ""))
    within("depth over slope", depth / slope, 1 / (4 * _STEEPEST))
    centre = 0.25 + 0.5 * cell

    def value(x, centre, slope, depth):
        profile = jnp.maximum(1 - (4 * (x - centre)) ** 2, 0) ** 2
        return slope * x[0] - depth * jnp.prod(profile)

    return Problem(value, (centre, slope, depth), 1 - centre)


def random_clauses(variables: int, count: int, *, key: PRNGKeyArray) -> Array:
    """`count` clauses of three different variables out of 1 to `variables`, each negated with probability 1/2."""
    variables, count = whole("variables", variables, 3), whole("count", count)
    v_key, s_key = jax.random.split(key)
    chosen = jax.vmap(lambda k: jax.random.permutation(k, variables)[:3])(jax.random.split(v_key, count)) + 1
    return jnp.where(jax.random.bernoulli(s_key, shape=(count, 3)), chosen, -chosen)


def _clauses(clauses):
    clauses = jnp.asarray(clauses)
    if clauses.ndim != 2 or clauses.shape[1] != 3 or not jnp.issubdtype(clauses.dtype, jnp.integer):
        raise ValueError(
            f"clauses must be whole numbers of shape (m, 3), got {clauses.dtype} of shape {clauses.shape}."
        )
    if concrete(clauses) and (np.asarray(clauses) == 0).any():
        raise ValueError("clauses must name variables from 1, negative where negated, got 0.")
    return clauses, jnp.abs(clauses) - 1


def _enough(values, clauses):
    if concrete(clauses) and (most := int(np.abs(np.asarray(clauses)).max())) > values.size:
        raise ValueError(f"clauses must name variables from 1 to {values.size}, got {most}.")
