"""Systems with a damped curvature matrix that is known by its products: five ways, and how far each solution is off.

All of them take right-hand sides in rows and give `Solution(basis, weights, residual)`: the solutions are the rows of
`weights @ basis`. Those that work in a subspace have a basis of few rows, and inner products with it are all that
anybody needs of a gradient; for the others the basis is the solutions themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from corollary._validate import one_of, positive, real, whole
from corollary.landscape import Curvature, Eigenpairs, eigenpairs

KINDS = ("dense", "cg", "lissa", "lanczos", "projected")
# a residual this many times the right-hand side will not come back: that of a series that converges never exceeds it
DIVERGED = 1e3


class Solver(NamedTuple):
    r"""How $(H+\lambda I)u=g$ is solved for a gradient $g$, where $H$ is known by its products.

    - `"dense"`: the matrix is formed and decomposed; up to a few thousand parameters.
    - `"cg"`: conjugate gradients, at most `products` products for each gradient, down to the `tolerance`.
    - `"lissa"`: the Neumann series of $(H+\lambda I)/s$, with at most `products` terms for each gradient. Where the
      batch size is below the number of training points, each product takes a fresh random batch. $s$ is `scale`; unless
      given, the largest eigenvalue that Lanczos finds, and twice that with random batches.
    - `"lanczos"`: on the span of the `rank` eigenvectors of largest modulus alone, from at most about `products`
      products in all; what lies outside is left out.
    - `"projected"`: the best solution in a random subspace of dimension `rank` (Galerkin), from `rank` products.
    """

    kind: str = "dense"
    rank: int = 64
    products: int = 1000
    tolerance: Any = 1e-6
    scale: Any = None


class Solution(NamedTuple):
    basis: jax.Array  # (k, p)
    weights: jax.Array  # (m, k)
    residual: jax.Array  # (m,): relative to the right-hand sides


class System(NamedTuple):
    """What a solver is made for: the curvature, what is added to its diagonal, the data and the size of a batch."""

    operator: Curvature
    shift: jax.Array
    data: Any
    batch_size: int
    key: jax.Array


class Prepared(NamedTuple):
    """A function of right-hand sides in rows, and the extreme eigenvalues of the curvature as far as they are seen."""

    solve: Callable
    least: jax.Array
    largest: jax.Array


def checked(solver) -> Solver:
    """The solver that a name stands for, its numbers looked at."""
    solver = solver if isinstance(solver, Solver) else Solver(solver)
    one_of("solver", solver.kind, KINDS)
    return Solver(
        solver.kind,
        whole("rank", solver.rank),
        whole("products", solver.products),
        positive("tolerance", real("tolerance", solver.tolerance, "")),
        None if solver.scale is None else positive("scale", real("scale", solver.scale, "")),
    )


def prepared(solver: Solver, system: System) -> Prepared:
    """The solver of one system, inside a compiled program."""
    make = {"dense": _dense, "cg": _cg, "lissa": _lissa, "lanczos": _lanczos, "projected": _projected}
    return make[solver.kind](solver, system)


def inner(rows, others):
    """All inner products of two sets of rows, also on devices whose products are rough unless told."""
    return jnp.matmul(rows, others.T, precision=lax.Precision.HIGHEST)


def _norms(rows):
    return jnp.linalg.norm(rows, axis=-1)


def _relative(error, rows):
    size = _norms(rows)
    return _norms(error) / jnp.where(size > 0, size, 1)


def _whole(solutions, residual) -> Solution:
    return Solution(solutions, jnp.eye(solutions.shape[0], dtype=solutions.dtype), residual)


def _dense(_, system: System) -> Prepared:
    matrix, shift = system.operator.dense(), system.shift
    values, vectors = jnp.linalg.eigh((matrix + matrix.T) / 2)

    def solve(rows):
        found = inner(inner(rows, vectors.T) / (values + shift), vectors)
        return _whole(found, _relative(inner(found, matrix) + shift * found - rows, rows))

    return Prepared(solve, values[0], values[-1])


def _ends(solver: Solver, system: System) -> Eigenpairs:
    """The extreme eigenvalues: the least and the largest Ritz value are never outside the spectrum."""
    operator = system.operator
    k = min(2, operator.size)
    some = max(4, min(solver.products, 200))
    return eigenpairs(
        operator.linearised(),
        operator.size,
        k,
        which="both",
        key=system.key,
        products=some,
        tolerance=1e-3,
        dtype=operator.dtype,
    )


def _cg(solver: Solver, system: System) -> Prepared:
    product, shift, ends = system.operator.linearised(), system.shift, _ends(solver, system)

    def one(row):
        apply = lambda u: product(u) + shift * u  # noqa: E731
        found = jax.scipy.sparse.linalg.cg(apply, row, tol=solver.tolerance, maxiter=solver.products)[0]
        return found, _relative(apply(found) - row, row)

    return Prepared(lambda rows: _whole(*lax.map(one, rows)), ends.values[-1], ends.values[0])


def _lissa(solver: Solver, system: System) -> Prepared:
    operator, shift, ends = system.operator, system.shift, _ends(solver, system)
    n = jax.tree.leaves(system.data)[0].shape[0]
    random = system.batch_size < n
    largest = ends.values[0] + ends.residuals[0] + shift
    scale = (2 if random else 1) * largest if solver.scale is None else solver.scale.astype(operator.dtype)
    full, unravel = operator.linearised(), ravel_pytree(operator.params)[1]

    def drawn(u, key):
        """The product on a batch that nobody has seen before."""
        chosen = jax.random.randint(key, (system.batch_size,), 0, n)
        batch = jax.tree.map(lambda a: a[chosen], system.data)
        linear = operator.product(operator.params, batch, operator.fixed)
        return operator.scale * ravel_pytree(linear(unravel(u)))[0]

    def one(numbered):
        number, row = numbered
        key, size = jax.random.fold_in(system.key, number), jnp.linalg.norm(row)

        def left(u, i):
            applied = drawn(u, jax.random.fold_in(key, i)) if random else full(u)
            return row - (applied + shift * u) / scale

        def go_on(state):
            _, rest, i = state
            size_now = jnp.linalg.norm(rest)
            close = (size_now <= solver.tolerance * size) & (not random)
            return (i < solver.products) & ~close & (size_now <= DIVERGED * size)

        def add(state):
            u, rest, i = state
            u = u + rest
            return u, left(u, i), i + 1

        u = lax.while_loop(go_on, add, (row, left(row, 0), jnp.ones((), int)))[0] / scale
        return u, _relative(full(u) + shift * u - row, row)

    def solve(rows):
        return _whole(*lax.map(one, (jnp.arange(rows.shape[0]), rows)))

    return Prepared(solve, ends.values[-1], ends.values[0])


def _lanczos(solver: Solver, system: System) -> Prepared:
    operator = system.operator
    k = min(solver.rank, operator.size)
    pairs = eigenpairs(
        operator.linearised(),
        operator.size,
        k,
        which="magnitude",
        key=system.key,
        products=solver.products,
        tolerance=solver.tolerance,
        basis=max(2 * k, min(2 * k + 24, solver.products)),
        dtype=operator.dtype,
    )

    def solve(rows):
        inside = inner(rows, pairs.vectors)
        weights = inside / (pairs.values + system.shift)
        # outside the span nothing is solved; inside, each pair is off by its own residual
        outside = _norms(rows - inner(inside, pairs.vectors.T)) + jnp.abs(weights) @ pairs.residuals
        size = _norms(rows)
        return Solution(pairs.vectors, weights, outside / jnp.where(size > 0, size, 1))

    return Prepared(solve, pairs.values[-1], pairs.values[0])


def _projected(solver: Solver, system: System) -> Prepared:
    operator, shift = system.operator, system.shift
    k = min(solver.rank, operator.size)
    basis = jax.random.normal(system.key, (k, operator.size), operator.dtype)
    # among directions that are far fewer than the parameters lengths and angles are nearly alike: then a Cholesky
    # factor of their products is accurate, and costs a fraction of a QR of all of them
    basis = basis if 2 * k <= operator.size else jnp.linalg.qr(basis.T)[0].T
    images = lax.map(operator.linearised(), basis)
    half = partial(lax.linalg.triangular_solve, jnp.linalg.cholesky(inner(basis, basis)), lower=True)
    core = half(half(inner(images, basis), left_side=True), transpose_a=True)
    values, vectors = jnp.linalg.eigh((core + core.T) / 2)
    # the eigenvectors of the curvature inside the subspace, as combinations of the directions, in columns
    inside = half(vectors, left_side=True, transpose_a=True)

    def solve(rows):
        weights = inner(inner(inner(rows, basis), inside.T) / (values + shift), inside)
        left = inner(weights, images.T) + shift * inner(weights, basis.T) - rows
        return Solution(basis, weights, _relative(left, rows))

    return Prepared(solve, values[0], values[-1])
