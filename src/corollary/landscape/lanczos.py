r"""Extreme eigenpairs of a symmetric matrix known only by its products: Lanczos with full reorthogonalisation.

The Krylov basis is kept orthogonal to rounding (each new vector is projected twice), so that no eigenvalue appears
twice. When the basis is full, it is restarted from the Ritz vectors that are wanted (a thick restart) and grows again:
the memory is that of the basis, `2k + 24` vectors and a few more, however many products it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import ArrayLike, Float, PRNGKeyArray

from corollary._charts import bars, lines, scale
from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import one_of, real, whole

WHICH = ("largest", "smallest", "both", "magnitude")


class Eigenpairs(NamedTuple):
    r"""Ritz values, unit vectors in rows, and residual norms $\|Hu-\theta u\|$.

    Within `residuals[i]` of `values[i]` lies an eigenvalue of the matrix, whatever happened. `converged` says whether
    all residuals fell below the tolerance, `products` how many products were made.
    """

    values: jax.Array
    vectors: jax.Array
    residuals: jax.Array
    converged: jax.Array
    products: jax.Array

    __repr__ = shown

    def plot(self) -> Any:
        """An Altair chart of the values with their error bounds, largest first."""
        values, errors = np.asarray(self.values, float), np.asarray(self.residuals, float)
        if values.ndim != 1:
            raise ValueError(f"plot draws the eigenpairs of one matrix, got values of shape {values.shape}.")
        up = scale(values.tolist())
        # a logarithmic axis ends above zero, and so do the bars on it
        lows = np.maximum(values - errors, up["domain"][0]) if up.get("type") == "log" else values - errors
        rows = [
            {"number of the eigenvalue": i + 1, "eigenvalue": float(v), "low": float(low), "high": float(high)}
            for i, (v, low, high) in enumerate(zip(values, lows, values + errors, strict=True))
        ]
        dots = lines(rows, "number of the eigenvalue", "eigenvalue", y_scale=up, points=True)
        return bars(rows, dots, "low", "high") + dots


class _State(NamedTuple):
    vectors: jax.Array  # (m + 1, p): orthonormal rows, the last one waits for its product
    rotation: jax.Array  # (m, keep): the Ritz vectors to restart from, in the basis
    kept: jax.Array  # (keep,): their values
    projected: jax.Array  # (m, m): the matrix in the basis
    last: jax.Array  # norm of what the last product left outside the basis
    start: jax.Array  # how many rows a restart keeps
    products: jax.Array
    stop: jax.Array
    converged: jax.Array


def eigenpairs(
    product: Callable,
    size: int,
    k: int = 1,
    *,
    which: str = "largest",
    key: PRNGKeyArray,
    products: int = 1000,
    tolerance: Scalar = 1e-6,
    basis: int | None = None,
    start: Float[ArrayLike, "p"] | None = None,
    dtype: DTypeLike | None = None,
) -> Eigenpairs:
    r"""The `k` eigenpairs of a symmetric matrix of the given `size` at the end of the spectrum that `which` names.

    `product` maps a flat vector to its image. `"both"` gives half of the pairs (rounded up) from the top and the rest
    from the bottom; `"magnitude"` those of largest modulus. Values come in descending order. `basis` is the number of
    vectors held, `2k + 24` unless told: more of them need fewer products. `start` is a vector near what is
    sought, if one is known. Stops when every
    residual is below `tolerance` times the largest modulus of a Ritz value, or after about `products` products. The
    error of a value is at most its residual and, away from its neighbours, of the order of its square: a residual
    tolerance of $10^{-6}$ is the accuracy of float32, and gives values to $10^{-10}$ and better in float64.

    >>> print(eigenpairs(lambda v: jnp.array([3.0, 1.0, 2.0]) * v, 3, key=key).values)
    [3.]
    """
    one_of("which", which, WHICH)
    size, k = whole("size", size), whole("k", k, 1, size)
    products = whole("products", products)
    dtype = jnp.result_type(float) if dtype is None else dtype
    m = min(size, 2 * k + 24 if basis is None else whole("basis", basis, k + 1))
    keep = min(k + 8, m - 1)
    eps = jnp.finfo(dtype).eps
    start_key, spare_key = jax.random.split(key)

    def unit(v):
        norm = jnp.linalg.norm(v)
        return v / jnp.where(norm > 0, norm, 1), norm

    def outside(vectors, v):
        """What is left of `v` outside the span of the rows, and its coefficients inside."""
        inside = vectors @ v
        v = v - inside @ vectors
        again = vectors @ v
        return v - again @ vectors, inside + again

    def extend(j, carry):
        vectors, projected, _ = carry
        image = product(vectors[j])
        rest, inside = outside(vectors, image)
        column = inside[:m]
        projected = projected.at[:, j].set(column).at[j, :].set(column)
        ahead, norm = unit(rest)
        # an invariant subspace: nothing is left but rounding, so go on from a random vector outside it
        spent = norm <= 16 * eps * jnp.linalg.norm(column)
        fresh = jax.lax.cond(
            spent,
            lambda: unit(outside(vectors, jax.random.normal(jax.random.fold_in(spare_key, j), (size,), dtype))[0])[0],
            lambda: ahead,
        )
        return vectors.at[j + 1].set(fresh), projected, jnp.where(spent, 0, norm)

    def wanted(values):
        """The indices of all Ritz values (ascending), the wanted ones first."""
        order = jnp.arange(m)
        if which == "largest":
            return order[::-1]
        if which == "smallest":
            return order
        if which == "magnitude":
            return jnp.argsort(-jnp.abs(values))
        return jnp.stack([order[::-1], order], 1).reshape(-1)[:m]

    def rotated(vectors, rotation, start):
        """The kept Ritz vectors, then the vector that waited; in place, a block of coordinates at a time."""

        def block(vectors, first, width):
            part = jax.lax.dynamic_slice(vectors, (0, first), (m + 1, width))
            fresh = jnp.zeros_like(part).at[:keep].set(rotation.T @ part[:m]).at[start].set(part[m])
            return jax.lax.dynamic_update_slice(vectors, fresh, (0, first))

        width = min(size, 1 << 16)
        vectors = jax.lax.fori_loop(0, size // width, lambda i, v: block(v, i * width, width), vectors)
        return block(vectors, size - size % width, size % width) if size % width else vectors

    def sweep(state: _State) -> _State:
        vectors = rotated(state.vectors, state.rotation, state.start)
        projected = jnp.zeros((m, m), dtype).at[jnp.arange(keep), jnp.arange(keep)].set(state.kept)
        vectors, projected, last = jax.lax.fori_loop(state.start, m, extend, (vectors, projected, state.last))
        values, rotation = jnp.linalg.eigh(projected)
        first = wanted(values)
        residuals = last * jnp.abs(rotation[-1, first[:k]])
        done = jnp.all(residuals <= tolerance * jnp.max(jnp.abs(values)))
        made = state.products + m - state.start
        stop = done | (made >= products) | (m == size)
        first = first[:keep]
        return _State(vectors, rotation[:, first], values[first], projected, last, jnp.full((), keep), made, stop, done)

    # the first sweep finds its start where every later one does: waiting in the last row
    chance = jax.random.normal(start_key, (size,), dtype)
    # a start that is an eigenvector already would span nothing: a little chance reaches the others
    origin = unit(chance if start is None else unit(real("start", start, "p"))[0] + 1e-3 * unit(chance)[0])[0]
    state = _State(
        jnp.zeros((m + 1, size), dtype).at[m].set(origin),
        jnp.zeros((m, keep), dtype),
        jnp.zeros(keep, dtype),
        jnp.zeros((m, m), dtype),
        jnp.zeros((), dtype),
        jnp.zeros((), int),
        jnp.zeros((), int),
        jnp.zeros((), bool),
        jnp.zeros((), bool),
    )
    state = jax.lax.while_loop(lambda s: ~s.stop, sweep, state)
    values, rotation = jnp.linalg.eigh(state.projected)
    chosen = wanted(values)[:k]
    chosen = chosen[jnp.argsort(-values[chosen])]
    residuals = state.last * jnp.abs(rotation[-1, chosen])
    # a zero for the row that waits: a slice of the basis would be a copy of it
    vectors = jnp.zeros((k, m + 1), dtype).at[:, :m].set(rotation[:, chosen].T) @ state.vectors
    return Eigenpairs(values[chosen], vectors, residuals, state.converged, state.products)
