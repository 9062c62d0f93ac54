r"""The Hopfield network: $n$ units $X_i=\pm1$ that each go where the energy is lower.

$H(X)=-\frac12\sum_{i,j}w_{ij}X_iX_j+\sum_ib_iX_i$ with symmetric weights and zero diagonal. A unit at a tie
goes to $+1$. `recall` in `hopfield_recall` runs the same dynamics from the patterns, without $n\times n$ weights.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._validate import concrete, labels, real, whole
from corollary.catalog import implements
from corollary.linear import sgn_plus


class Settled(NamedTuple):
    """Where a run ended: the state, the sweeps it took, the units that flipped on the way, whether it came to rest."""

    state: jax.Array
    sweeps: jax.Array
    flips: jax.Array
    at_rest: jax.Array

    __repr__ = shown


def signs(name: str, value, shape: str, dims: dict | None = None):
    """`value` as an array of +1 and -1 in a floating-point dtype."""
    out = real(name, value, shape, dims)
    if concrete(out) and not (good := np.abs(np.asarray(out)) == 1).all():
        raise ValueError(f"{name} must hold +1 and -1 only, got {np.asarray(out)[~good][0]}.")
    return out


@implements("E01.23")
def hopfield_energy(
    weights: Float[ArrayLike, "n n"], biases: Float[ArrayLike, "..."], x: Float[ArrayLike, "..."]
) -> Float[Array, ""]:
    r"""$H(X)=-\frac12X^\top WX+b^\top X$ of one state."""
    weights, biases, x = _network(weights, biases, x)
    return -0.5 * x @ weights @ x + biases @ x


@implements("E01.25")
def effective_field(
    weights: Float[ArrayLike, "n n"], biases: Float[ArrayLike, "..."], x: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$H_i=\sum_jw_{ij}X_j-b_i$ of all units."""
    weights, biases, x = _network(weights, biases, x)
    return weights @ x - biases


@implements("E01.24")
def energy_update(
    weights: Float[ArrayLike, "n n"], biases: Float[ArrayLike, "..."], x: Float[ArrayLike, "..."], unit: int
) -> Float[Array, "..."]:
    r"""Unit $i$ takes the value of lower energy, $+1$ at a tie: by evaluating the energy of both."""
    weights, biases, x = _network(weights, biases, x)
    up, down = x.at[unit].set(1), x.at[unit].set(-1)
    lower = hopfield_energy(weights, biases, up) <= hopfield_energy(weights, biases, down)
    return jnp.where(lower, up, down)


@implements("E01.24", "E01.25")
def field_update(
    weights: Float[ArrayLike, "n n"], biases: Float[ArrayLike, "..."], x: Float[ArrayLike, "..."], unit: int
) -> Float[Array, "..."]:
    r"""$X_i\leftarrow\operatorname{sgn}_+(H_i)$: the same for symmetric $w$ with $w_{ii}=0$, for the cost of a row."""
    weights, biases, x = _network(weights, biases, x)
    return _update(weights, biases, x, unit)


@implements("E01.24")
def asynchronous_path(
    weights: Float[ArrayLike, "n n"],
    biases: Float[ArrayLike, "..."],
    start: Float[ArrayLike, "..."],
    order: Int[ArrayLike, "m"],
) -> Float[Array, "..."]:
    """All states of the dynamics that updates the units in this `order`, start included: (len(order) + 1, n)."""
    weights, biases, start = _network(weights, biases, start, "start")
    order = labels("order", order, start.shape[0], "m")

    def advance(x, unit):
        x = _update(weights, biases, x, unit)
        return x, x

    _, rest = jax.lax.scan(advance, start, order)
    return jnp.concatenate([start[None], rest])


@implements("E01.24", "E01.26")
def settle(
    weights: Float[ArrayLike, "n n"],
    biases: Float[ArrayLike, "..."],
    start: Float[ArrayLike, "..."],
    *,
    max_sweeps: int = 1000,
    key: PRNGKeyArray | None = None,
) -> Settled:
    """Update the units in turn until a whole sweep changes nothing, or `max_sweeps` are over.

    With a `key` every sweep visits them in a fresh random order, without in the order of their numbers.
    """
    weights, biases, start = _network(weights, biases, start, "start")
    max_sweeps, n = whole("max_sweeps", max_sweeps), start.shape[0]

    def sweep(run):
        x, sweeps, flips, _ = run
        order = jnp.arange(n) if key is None else jax.random.permutation(jax.random.fold_in(key, sweeps), n)

        def advance(x, unit):
            new = _update(weights, biases, x, unit)
            return new, new[unit] != x[unit]

        x, flipped = jax.lax.scan(advance, x, order)
        return Settled(x, sweeps + 1, flips + flipped.sum(), ~flipped.any())

    first = Settled(start, jnp.array(0), jnp.array(0), jnp.array(False))
    return jax.lax.while_loop(lambda run: ~run.at_rest & (run.sweeps < max_sweeps), sweep, first)


@implements("E01.24")
def synchronous_path(
    weights: Float[ArrayLike, "n n"], biases: Float[ArrayLike, "..."], start: Float[ArrayLike, "..."], steps: int
) -> Float[Array, "..."]:
    """All states when every unit moves at once, start included: another dynamics, that may oscillate forever."""
    weights, biases, start = _network(weights, biases, start, "start")

    def advance(x, _):
        x = sgn_plus(weights @ x - biases)
        return x, x

    _, rest = jax.lax.scan(advance, start, length=whole("steps", steps, 0))
    return jnp.concatenate([start[None], rest])


@implements("E01.28")
def unstable_units(
    weights: Float[ArrayLike, "n n"], biases: Float[ArrayLike, "..."], x: Float[ArrayLike, "..."]
) -> Bool[Array, "..."]:
    """Which units of the state would flip if it were their turn."""
    weights, biases, x = _network(weights, biases, x)
    return sgn_plus(weights @ x - biases) != x


@implements("E01.28")
def is_metastable(
    weights: Float[ArrayLike, "n n"], biases: Float[ArrayLike, "..."], x: Float[ArrayLike, "..."]
) -> Bool[Array, ""]:
    """Whether the dynamics stays in this state: the least that is asked of a memory."""
    return ~unstable_units(weights, biases, x).any()


@implements("E01.27")
def hebbian(patterns: Float[ArrayLike, "..."], *, zero_diagonal: bool = True) -> Float[Array, "..."]:
    r"""$W=\frac1n\sum_tx_tx_t^\top$ of the patterns in the rows.

    The sum alone has $w_{ii}=s/n$, where the model asks for $w_{ii}=0$; `zero_diagonal=False` leaves it as it is.

    >>> hebbian([[1, -1]]).tolist()
    [[0.0, -0.5], [-0.5, 0.0]]
    """
    patterns = signs("patterns", patterns, "s n")
    weights = patterns.T @ patterns / patterns.shape[1]
    return _off_diagonal(weights) if zero_diagonal else weights


@implements("E01.34")
def pseudo_inverse(patterns: Float[ArrayLike, "..."], *, zero_diagonal: bool = True) -> Float[Array, "..."]:
    r"""The projection $P$ onto the span of the patterns, less its diagonal: every pattern is a fixed point.

    $\sum_jw_{ij}x_{t,j}=(1-P_{ii})x_{t,i}$ has the right sign however correlated the patterns are, as long as no unit
    vector lies in their span ($P_{ii}<1$).
    """
    patterns = signs("patterns", patterns, "s n")
    # the rows of vt with a singular value above rounding span what the patterns span, repeated patterns included
    _, values, vt = jnp.linalg.svd(patterns, full_matrices=False)
    kept = values > values[0] * max(patterns.shape) * jnp.finfo(patterns.dtype).eps
    basis = vt * kept[:, None]
    weights = basis.T @ basis
    return _off_diagonal(weights) if zero_diagonal else weights


@implements("E01.34")
def certain_radius(weights: Float[ArrayLike, "n n"], x: Float[ArrayLike, "..."]) -> Int[Array, ""]:
    r"""How many wrong units are surely repaired, in any order of updates, around a state $x$ without biases.

    The largest $d$ with $2\sum|w_{ij}|<x_iH_i(x)$ over the $d$ largest $|w_{ij}|$ of each row $i$: then $d$ wrong units
    cannot turn the field of any unit, so that each update repairs and none destroys. $-1$ if $x$ itself is not strictly
    stable.
    """
    weights, _, x = _network(weights, 0.0, x)
    margin = x * (weights @ x)
    pull = 2 * jnp.cumsum(-jnp.sort(-jnp.abs(weights), axis=1), axis=1)
    repaired = jnp.sum(pull < margin[:, None], axis=1).min()
    return jnp.where((margin > 0).all(), repaired, -1)


def _network(weights, biases, x, name: str = "x"):
    dims = {}
    weights, x = real("weights", weights, "n n", dims), signs(name, x, "n", dims)
    biases = real("biases", biases)
    if biases.ndim > 0:  # one number is a common threshold
        biases = real("biases", biases, "n", dims)
    dtype = jnp.result_type(weights, biases, x)
    return weights.astype(dtype), jnp.broadcast_to(biases, x.shape).astype(dtype), x.astype(dtype)


def _update(weights, biases, x, unit):
    value = sgn_plus(weights[unit] @ x - biases[unit])
    # a choice among all units, not a scatter: batches of networks stay vectorised
    return jnp.where(jnp.arange(x.shape[0]) == unit, value, x)


def _off_diagonal(matrix):
    return matrix - jnp.diag(jnp.diag(matrix))
