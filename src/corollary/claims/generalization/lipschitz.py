"""Norms of layers, and what their product says about the whole network."""

from itertools import pairwise
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary import Network
from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal
from corollary.generalization import lipschitz, operator_norms, stable_ranks


@claim(rows=("T05.30",))
def stable_rank(key, *, m: Annotated[int, Range(3, 60)] = 12, n: Annotated[int, Range(3, 60)] = 9):
    r"""The stable rank is between 1 and the rank, and does not jump where the rank does.

    $\|A\|_F^2/\|A\|_2^2$ with $\|A\|_2=\sigma_1$ and $\|A\|_F^2=\sum_i\sigma_i^2$: it is unchanged if $A$ is scaled,
    at most the rank, with equality for orthogonal rows, and a matrix of rank 1 with noise of the size $10^{-6}$ has
    full rank and a stable rank of 1. With noise of the size 1 its stable rank is larger.
    """
    a_key, b_key = jax.random.split(key)
    a = jax.random.normal(a_key, (m, n))
    left, right = jax.random.normal(b_key, (m, 1)), jax.random.normal(a_key, (1, n))
    noisy = left @ right + 1e-6 * a
    basis = jnp.linalg.qr(jax.random.normal(b_key, (m + n, min(m, n))))[0].T

    def rank_of(matrix):
        return stable_ranks(Network(lambda w, x: w @ x, matrix), (matrix.shape[1],))[0].upper

    s = np.linalg.svd(np.asarray(a), compute_uv=False)
    yield equal("stable rank, from singular values", rank_of(a), np.sum(s**2) / s[0] ** 2)
    yield equal("stable rank of the matrix times 1000", rank_of(1000 * a), rank_of(a))
    ranks = [np.linalg.matrix_rank(np.asarray(b)) for b in (a, noisy, basis)]
    yield at_most("stable rank, against the rank", [rank_of(b) for b in (a, noisy, basis)], ranks)
    yield equal("stable rank of orthogonal rows", rank_of(basis), min(m, n))
    # the noise adds 1e-12 of mn entries to the square of the length
    yield equal("stable rank of rank 1 with noise", rank_of(noisy), 1.0, rtol=1e-9)
    yield equal("rank of rank 1 with noise", ranks[1], min(m, n))
    loud = rank_of(left @ right + a)
    yield control("noise of the size 1e-6: here of the size 1", equal("stable rank", loud, 1.0, rtol=1e-9))


@claim(rows=("T05.31",))
def product_of_norms(
    key, *, d: Size = 5, width: Annotated[int, Range(2, 60)] = 16, depth: Annotated[int, Range(2, 8)] = 4
):
    r"""A ReLU network changes no faster than the product of the spectral norms of its matrices.

    $\mathrm{Lip}(f)\le\prod_i\|A_i\|_2$, because the ReLU is 1-Lipschitz. The Jacobians at random points stay below
    it; it is reached by layers $u_iv_i^\top$ with positive $v_{i+1}=u_i$, through which one direction passes. Three
    times the ReLU is not 1-Lipschitz.
    """
    sizes = [d, *[width] * (depth - 1), 3]
    keys = jax.random.split(key, depth + 1)
    random = [jax.random.normal(k, (b, a)) / np.sqrt(a) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=False)]
    directions = [jnp.abs(jax.random.normal(keys[-1], (size,))) for size in sizes]
    directions = [v / jnp.linalg.norm(v) for v in directions]
    aligned = [(i + 1) * jnp.outer(b, a) for i, (a, b) in enumerate(pairwise(directions))]
    x = jax.random.normal(keys[-1], (20, d))

    def network(matrices, slope=1.0):
        def apply(matrices, x):
            for a in matrices[:-1]:
                x = slope * jax.nn.relu(a @ x)
            return matrices[-1] @ x

        return Network(apply, matrices)

    def product(matrices):
        return np.prod([float(norm.upper) for norm in operator_norms(network(matrices), (d,))])

    yield equal(
        "product of the norms", product(random), np.prod([np.linalg.norm(np.asarray(a), 2) for a in random]), rtol=1e-9
    )
    data = (x, jnp.zeros(20))
    wild, tight = lipschitz(network(random), data, key=key), lipschitz(network(aligned), data, key=key)
    yield at_most("slope at random points", wild.lower, product(random))
    yield equal("slope of aligned layers of rank 1", tight.lower, float(np.prod(np.arange(1.0, depth + 1))), rtol=1e-6)
    jacobians = jax.vmap(jax.jacobian(network(random)))(x)
    steepest = jnp.linalg.norm(jacobians, 2, axis=(1, 2)).max()
    yield at_least("slope at random points, against their Jacobians", wild.lower, 0.95 * steepest)
    fast = lipschitz(network(aligned, 3.0), data, key=key)
    yield control(
        "the activation is 1-Lipschitz: here three times the ReLU", at_most("slope", fast.lower, product(aligned))
    )
