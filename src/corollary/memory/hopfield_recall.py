r"""Hopfield networks with Hebbian weights at real size: the dynamics in terms of the patterns.

$W=\frac1n(\xi^\top\xi-\mathrm{diag})$ is never formed. A state is known to the network by its overlaps $\xi X$, the
field of a unit costs one inner product with them, and $s$ patterns of $n$ units take $sn$ numbers instead of $n^2$.
With patterns of $\pm1$ in float32 all of it is exact integer arithmetic as long as the overlaps of a state add
up to less than $2^{24}$ in size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._validate import labels, real, whole
from corollary.catalog import implements
from corollary.linear import sgn_plus
from corollary.memory.hopfield import signs

# products of integers must not be rounded to the short mantissas that accelerators use by default
EXACT = jax.lax.Precision.HIGHEST


class Recall(NamedTuple):
    """Where the runs ended: one state per start, the sweeps until the last came to rest, and whether all did."""

    states: jax.Array
    sweeps: jax.Array
    at_rest: jax.Array

    __repr__ = shown


def random_signs(shape: int | Sequence[int], dtype: DTypeLike = float, *, key: PRNGKeyArray) -> Float[Array, "..."]:
    """Independent uniform signs; 32 of them are cut from every random word, which makes them 32 times cheaper."""
    shape = tuple(whole("shape", size) for size in ((shape,) if isinstance(shape, int) else shape))
    *rows, last = shape or (1,)
    words = jax.random.bits(key, (*rows, -(-last // 32)), jnp.uint32)
    bits = (words[..., None] >> jnp.arange(32, dtype=jnp.uint32)) & 1
    return (2 * bits.reshape(*rows, -1)[..., :last].astype(jnp.int8) - 1).astype(dtype).reshape(shape)


@implements("E01.29")
def crosstalk(patterns: Float[ArrayLike, "..."], *, zero_diagonal: bool = True) -> Float[Array, "..."]:
    r"""What the other patterns add to the field of each unit of each pattern: shape (s, n).

    With the printed weights $\sum_jw_{ij}x_{t,j}=x_{t,i}+C_{t,i}$,
    $C_{t,i}=\frac1n\sum_j\sum_{r\ne t}x_{r,i}x_{r,j}x_{t,j}$; with zero diagonal the field is
    $\frac{n-1}nx_{t,i}+C^0_{t,i}$, $C^0_{t,i}=C_{t,i}-\frac{s-1}nx_{t,i}$.
    """
    patterns = signs("patterns", patterns, "s n")
    s, n = patterns.shape
    others = jnp.matmul(patterns, patterns.T, precision=EXACT) - n * jnp.eye(s, dtype=patterns.dtype)
    total = jnp.matmul(others, patterns, precision=EXACT)
    return (total - (s - 1) * patterns if zero_diagonal else total) / n


@implements("E01.28")
def stability(
    patterns: Float[ArrayLike, "s n"], states: Float[ArrayLike, "m _"] | None = None, *, zero_diagonal: bool = True
) -> Float[Array, "_ _"]:
    r"""$n\,X_iH_i$ for each state in the rows (the patterns themselves unless given): a unit is unstable below zero.

    Integers, so that a tie is seen as a tie: there the dynamics wants $+1$.
    """
    patterns, states = _patterns(patterns, patterns if states is None else states)
    overlaps = jnp.matmul(states, patterns.T, precision=EXACT)
    field = jnp.matmul(overlaps, patterns, precision=EXACT)
    own = jnp.sum(patterns * patterns, axis=0)
    return states * field - own if zero_diagonal else states * field


@implements("E01.24", "E01.32")
def recall(
    patterns: Float[ArrayLike, "s n"],
    starts: Float[ArrayLike, "..."],
    *,
    order: Int[ArrayLike, "_"] | None = None,
    max_sweeps: int = 200,
    block: int = 64,
    zero_diagonal: bool = True,
) -> Recall:
    r"""Run the sequential dynamics from every start (rows) until none of them changes in a whole sweep.

    The units take their turns in the given `order`, the same in every sweep (that of their numbers unless given), and
    the result is exactly that of updating one after the other. It is reached in parallel, block by block: within a
    block the new values solve $X'_i=\operatorname{sgn}_+(H_i+\sum_{j<i}w_{ij}(X'_j-X_j))$, a triangular system, whose
    only solution is found by iterating it from any guess, in at most as many rounds as there are units and in practice
    in three or four. All else is matrix products. A row of zeros among the patterns stores nothing, so that pattern
    sets of different size fit one array.

    >>> recall([[1, -1, 1, 1]], [[1, -1, 1, -1]]).states.tolist()
    [[1.0, -1.0, 1.0, 1.0]]
    """
    patterns, starts = _patterns(patterns, starts)
    n, max_sweeps = patterns.shape[1], whole("max_sweeps", max_sweeps)
    block = min(whole("block", block), n)
    if order is not None:
        order = labels("order", order, n, "n", {"n": n})
        patterns, starts = patterns[:, order], starts[:, order]
    spare = -n % block  # units without any coupling, at rest in +1
    xi = _blocks(jnp.pad(patterns, ((0, 0), (0, spare))), block)
    x = _blocks(jnp.pad(starts, ((0, 0), (0, spare)), constant_values=1), block)
    couplings = jnp.einsum("bsi,bsj->bij", xi, xi, precision=EXACT)
    own = jnp.einsum("bii->bi", couplings) * zero_diagonal
    earlier = jnp.triu(couplings, 1)  # entry (j, i) for j < i: what unit j, updated before, means to unit i

    def update(overlaps, now):
        xi, x, earlier, own = now
        field = jnp.matmul(overlaps, xi, precision=EXACT) - own * x

        def refine(guess):
            new = guess[0]
            better = sgn_plus(field + jnp.matmul(new - x, earlier, precision=EXACT))
            return better, (better != new).any()

        new, _ = jax.lax.while_loop(lambda guess: guess[1], refine, (sgn_plus(field), jnp.array(True)))
        return overlaps + jnp.matmul(new - x, xi.T, precision=EXACT), new

    def sweep(run):
        x, overlaps, sweeps, _ = run
        overlaps, new = jax.lax.scan(update, overlaps, (xi, x, earlier, own))
        return new, overlaps, sweeps + 1, (new == x).all()

    overlaps = jnp.matmul(starts, patterns.T, precision=EXACT)
    first = (x, overlaps, jnp.array(0), jnp.array(False))
    x, _, sweeps, at_rest = jax.lax.while_loop(lambda run: ~run[3] & (run[2] < max_sweeps), sweep, first)
    states = x.transpose(1, 0, 2).reshape(starts.shape[0], -1)[:, :n]
    if order is not None:
        states = jnp.zeros_like(states).at[:, order].set(states)
    return Recall(states, sweeps, at_rest)


@implements("E01.32")
def retrieval_overlaps(
    n: int,
    sizes: Sequence[int],
    *,
    key: PRNGKeyArray,
    sets: int,
    starts: int = 32,
    max_sweeps: int = 200,
    zero_diagonal: bool = True,
    at_once: int = 1,
) -> Float[Array, "_ _ _"]:
    r"""Overlaps $\frac1nx_t^\top X_\infty$ of runs that start at a stored pattern: shape (len(sizes), sets, starts).

    For each size, `sets` independent networks store that many random patterns, and the dynamics runs from the first
    `starts` of them. Random numbers, networks and runs are one compiled program with one array for all sizes.
    `at_once` networks run side by side: one on a CPU, whose cores the products of one network fill, dozens on
    an accelerator.
    """
    n, sets, starts = whole("n", n), whole("sets", sets), whole("starts", starts)
    sizes = tuple(whole("sizes", int(size), starts) for size in sizes)
    most, at_once = max(sizes), whole("at_once", at_once)

    def one(task):
        key, size = task
        patterns = random_signs((most, n), jnp.float32, key=key)
        stored = patterns * (jnp.arange(most) < size)[:, None]
        run = recall(stored, patterns[:starts], max_sweeps=max_sweeps, zero_diagonal=zero_diagonal)
        return jnp.mean(run.states * patterns[:starts], axis=1)

    keys = jax.random.split(key, len(sizes) * sets)
    tasks = keys, jnp.repeat(jnp.array(sizes), sets)  # networks of one size next to each other take equally long
    overlaps = jax.lax.map(one, tasks, batch_size=min(at_once, len(sizes) * sets) if at_once > 1 else None)
    return overlaps.reshape(len(sizes), sets, starts)


def _patterns(patterns, states):
    dims = {}
    patterns, states = real("patterns", patterns, "s n", dims), signs("states", states, "k n", dims)
    dtype = jnp.result_type(patterns, states)
    return patterns.astype(dtype), states.astype(dtype)


def _blocks(rows, block: int):
    """(rows, n) as (n / block, rows, block)."""
    return rows.reshape(rows.shape[0], -1, block).transpose(1, 0, 2)
