r"""Linear recurrences $z_t=a_t\odot z_{t-1}+b_t$, one step after the other and all at once.

Two steps in a row are again such a step: first $(a,b)$, then $(a',b')$, takes $z$ to $a'az+(a'b+b')$. That is an
associative product of pairs, so that all prefixes of it, which are the states, take about $\log_2T$ parallel rounds
instead of $T$ sequential ones. The depth is logarithmic; the work is not less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Complex, Float, Inexact

from corollary._show import shown
from corollary.catalog import implements


@implements("E05.16")
def compose(earlier: Sequence[Array], later: Sequence[Array]) -> tuple[Inexact[Array, "..."], Inexact[Array, "..."]]:
    r"""$(a,b)\bullet(a',b')=(aa',\,a'b+b')$: the step that does `earlier` and then `later`."""
    (a, b), (a_later, b_later) = earlier, later
    return a * a_later, a_later * b + b_later


@implements("E05.16")
def linear_scan(
    a: Inexact[ArrayLike, "..."], b: Inexact[ArrayLike, "..."], initial: Float[ArrayLike, "..."] | None = None
) -> Inexact[Array, "..."]:
    r"""The states of $z_t=a_t\odot z_{t-1}+b_t$, (T, ...) real or complex, by the parallel scan of JAX.

    `a` is (T, ...) like `b`, or lacks the time where it does not change. $z_0$ is `initial`, or zero. Linear work and
    logarithmic depth.
    """
    return _scan(*_coefficients(a, b, initial))


@implements("E05.16")
def linear_loop(
    a: Complex[ArrayLike, "..."], b: Complex[ArrayLike, "..."], initial: Float[ArrayLike, "..."] | None = None
) -> Complex[Array, "..."]:
    """`linear_scan` by its definition, `T` steps one after the other."""
    a, b = _coefficients(a, b, initial)

    def step(z, pair):
        z = pair[0] * z + pair[1]
        return z, z

    return jax.lax.scan(step, jnp.zeros(b.shape[1:], b.dtype), (a, b))[1]


def linear_states(
    a: Complex[ArrayLike, "..."], b: Complex[ArrayLike, "..."], initial: Float[ArrayLike, "..."] | None = None
) -> Complex[Array, "..."]:
    """`linear_loop` on a CPU, whose few cores gain nothing from the scan, and `linear_scan` elsewhere."""
    return (linear_loop if jax.default_backend() == "cpu" else linear_scan)(a, b, initial)


@jax.jit  # one program even where the caller does not compile: the scan is made of many small pieces
def _scan(a, b):
    return jax.lax.associative_scan(compose, (a, b))[1]


class Prefix(NamedTuple):
    """The states (T, ...), and in how many parallel rounds they were computed."""

    states: jax.Array
    rounds: int

    __repr__ = shown


@implements("E05.16")
def doubling_scan(
    a: Complex[ArrayLike, "..."], b: Complex[ArrayLike, "..."], initial: Float[ArrayLike, "..."] | None = None
) -> Prefix:
    r"""`linear_scan` as Hillis and Steele do it: $\lceil\log_2T\rceil$ rounds, $T\log_2T$ products.

    After round $k$ every place holds the product of the $2^k$ steps that end there; a round multiplies it by what is
    held $2^k$ places earlier.
    """
    pair = _coefficients(a, b, initial)
    length = pair[1].shape[0]
    rounds = (length - 1).bit_length()

    def double(k, pair):
        shift = 2**k
        there = (jnp.arange(length) >= shift).reshape((-1,) + (1,) * (pair[1].ndim - 1))
        both = compose(jax.tree.map(lambda c: jnp.roll(c, shift, axis=0), pair), pair)
        return jax.tree.map(lambda new, old: jnp.where(there, new, old), both, pair)

    return Prefix(jax.lax.fori_loop(0, rounds, double, pair)[1], rounds)


def unroll_linear(
    cell: Callable, xs: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."] | None = None
) -> Inexact[Array, "..."]:
    """What `unroll(cell, xs, state)` returns, by the parallel scan, for a cell that is linear in its state.

    Such a cell says so with `cell.coefficients(xs)`, the pair $(a_t),(b_t)$ of $z_t=a_t\\odot z_{t-1}+b_t$.
    """
    if not hasattr(cell, "coefficients"):
        raise TypeError(f"cell must be linear in its state, with cell.coefficients(xs), got {type(cell).__name__}.")
    return linear_scan(*cell.coefficients(xs), state)


def _coefficients(a, b, initial):
    """Both of the full shape (T, ...) and of one dtype, with the initial state in the first step."""
    a, b = jnp.asarray(a), jnp.asarray(b)
    if b.ndim == 0 or b.shape[0] == 0:
        raise ValueError(f"b must have at least one step along the first axis, got shape {b.shape}.")
    if a.shape not in (b.shape, b.shape[1:]):
        raise ValueError(f"a must have the shape of b, {b.shape}, or that of one step, got {a.shape}.")
    dtype = jnp.result_type(a, b, float) if initial is None else jnp.result_type(a, b, initial, float)
    a, b = jnp.broadcast_to(a, b.shape).astype(dtype), b.astype(dtype)
    if initial is not None:
        initial = jnp.asarray(initial)
        if initial.shape != b.shape[1:]:
            raise ValueError(f"initial must have the shape of one step of b, {b.shape[1:]}, got {initial.shape}.")
        b = b.at[0].add(a[0] * initial)
    return a, b
