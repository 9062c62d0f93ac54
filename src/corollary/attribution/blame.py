r"""Which training points a test point owes its loss to, and which hold up themselves: one decomposition.

The Gauss and Newton matrix is decomposed once, whole or on the span of its largest eigenvectors; with the damping as a
share of its largest eigenvalue, no unit of the loss or of the parameters has to be known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import LossLike, NetworkLike, Scalar
from corollary._validate import positive, real, whole
from corollary.attribution._solvers import Solver, inner
from corollary.attribution.influence import InfluencePremises, _given, _like, _rows, _slope
from corollary.landscape import eigenpairs
from corollary.network.batches import count, each, pair


class Blame(NamedTuple):
    r"""Predicted changes of losses when a training point is removed, in the unit of `influence`.

    - `scores` (n, m): of every test point's loss.
    - `own` (n,): of the point's own loss, 0 or more, as `self_influence` has it.
    - `damping`: what was added to the curvature.
    - `gain`: what one Newton step with all points would take off the training loss, 0 at a minimum.
    - `residual` (m,): the share of each test point's gradient that lies outside the span, 0 for the whole matrix.
    - `premises`: as `influence` has them.
    """

    scores: jax.Array
    own: jax.Array
    damping: jax.Array
    gain: jax.Array
    residual: jax.Array
    premises: InfluencePremises

    __repr__ = shown


def blame(
    network: NetworkLike,
    loss: LossLike,
    train: PyTree,
    test: PyTree,
    *,
    rank: int | None = None,
    share: Scalar = 1e-3,
    penalty: Scalar = 0.0,
    products: int = 200,
    key: PRNGKeyArray | None = None,
    batch_size: int = 256,
    trainable: Any = None,
) -> Blame:
    r"""`influence` of every training point on every test point and on itself, with the Gauss and Newton matrix.

    The damping is `share` times the largest eigenvalue; `penalty` as in `influence`. With a `rank` only so many
    eigenvectors of largest eigenvalue are sought, with about `products` products; without, the matrix is formed, for up
    to a few thousand parameters.

    >>> blame(network, "squared", data, data).scores.shape
    (4, 4)
    """
    kind = "dense" if rank is None else "lanczos"
    solver = Solver(kind, products=products) if rank is None else Solver(kind, whole("rank", rank), products, 1e-3)
    given = _given(network, loss, train, solver, 0.0, penalty, "gauss_newton", key, batch_size, trainable, "blame")
    test = _like(pair("test", test), given)
    return _blame(given, test, positive("share", real("share", share, "")))


@eqx.filter_jit
def _blame(given, test, share) -> Blame:
    system = given.system
    values, vectors = _spectrum(given)
    slope, n = _slope(given), count(system.data)
    damping = share.astype(values.dtype) * values[0]
    weights = 1 / (values + damping + system.shift)

    def inside(batch):
        rows = _rows(given, batch)
        found = inner(rows, vectors)
        size, seen = (jnp.sum(a**2, -1) for a in (rows, found))
        return found, jnp.sqrt(jnp.maximum(size - seen, 0) / jnp.where(size > 0, size, 1))

    ours, _ = each(inside, system.data, system.batch_size)
    theirs, outside = each(inside, test, system.batch_size)
    drift = -(theirs * weights) @ (vectors @ slope)
    premises = InfluencePremises(jnp.linalg.norm(slope), values[-1], values[0], drift)
    own = jnp.sum(ours**2 * weights, 1) / n
    gain = 0.5 * jnp.sum((vectors @ slope) ** 2 * weights)
    return Blame(inner(ours * weights, theirs) / n, own, damping, gain, outside, premises)


def _spectrum(given):
    """Eigenvalues from the largest down, and eigenvectors in rows."""
    operator, solver = given.system.operator, given.solver
    if solver.kind == "dense":
        matrix = operator.dense()
        values, vectors = jnp.linalg.eigh((matrix + matrix.T) / 2)
        return values[::-1], vectors.T[::-1]
    k = min(solver.rank, operator.size)
    pairs = eigenpairs(
        operator.linearised(),
        operator.size,
        k,
        which="largest",
        key=given.system.key,
        products=solver.products,
        tolerance=solver.tolerance,
        basis=max(2 * k, min(2 * k + 24, solver.products)),
        dtype=operator.dtype,
    )
    return pairs.values, pairs.vectors
