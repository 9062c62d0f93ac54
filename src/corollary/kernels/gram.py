"""Gram matrices, and the proof that one is positive semidefinite or is not."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary._validate import concrete, real, whole
from corollary.catalog import implements


class Definiteness(NamedTuple):
    r"""Whether a symmetric matrix is positive semidefinite, with the proof either way.

    `smallest` is the least eigenvalue and `witness` a unit vector that has it: $v^\top Gv<0$ disproves. `factor` has
    $G=FF^\top$ up to `tolerance` where the matrix is semidefinite: features, of which it is the Gram matrix.
    """

    semidefinite: jax.Array
    smallest: jax.Array
    witness: jax.Array
    factor: jax.Array
    tolerance: jax.Array


@implements("M04.09")
def gram(kernel, x, y=None):
    r"""$G_{ij}=K(x_i,y_j)$ for the points in the rows; one set with itself unless `y` is given.

    `kernel` is any function of two points. One compiled map over all pairs.
    """
    if not callable(kernel):
        raise TypeError(f"kernel must be a function of two points, got {type(kernel).__name__}.")
    dims = {}
    x = _points("x", x, dims)
    y = x if y is None else _points("y", y, dims)
    out = jax.eval_shape(kernel, x[0], y[0])
    if getattr(out, "shape", None) != ():
        raise ValueError(f"kernel must return one number for two points, got {out}.")
    return jax.vmap(lambda a: jax.vmap(lambda b: kernel(a, b))(y))(x)


@implements("M04.10")
def definiteness(g) -> Definiteness:
    r"""The eigenvalue test of a symmetric matrix.

    An eigenvalue is computed to within $n\epsilon\|G\|$: what lies above minus that counts as zero.
    """
    g = real("g", g, "n n")
    if concrete(g):
        v = np.asarray(g, float)
        size, gap = float(np.abs(v).max()), float(np.abs(v - v.T).max())
        if gap > 1e3 * float(jnp.finfo(g.dtype).eps) * size:
            raise ValueError(f"g must be symmetric, got entries that differ by {gap:.3g} from their mirror images.")
    values, vectors = jnp.linalg.eigh((g + g.T) / 2)
    tolerance = g.shape[0] * jnp.finfo(g.dtype).eps * jnp.abs(values).max()
    factor = vectors * jnp.sqrt(jnp.maximum(values, 0))
    return Definiteness(values[0] >= -tolerance, values[0], vectors[:, 0], factor, tolerance)


@implements("M04.09")
def is_kernel(kernel, sampler, key, *, sets: int = 50, n: int = 20):
    """Whether `kernel` is symmetric and semidefinite on `sets` random sets of `n` points.

    `sampler(key, n)` draws n points. A false answer is certain, a true one means that no counterexample was met.
    """
    sets, n = whole("sets", sets), whole("n", n)
    if not callable(sampler):
        raise TypeError(f"sampler must be a function of a key and a number, got {type(sampler).__name__}.")

    def one(key):
        g = gram(kernel, sampler(key, n))
        symmetric = jnp.abs(g - g.T).max() <= 1e3 * jnp.finfo(g.dtype).eps * jnp.abs(g).max()
        return symmetric & definiteness((g + g.T) / 2).semidefinite

    return jnp.all(jax.vmap(one)(jax.random.split(key, sets)))


def _points(name, value, dims):
    """Points in the rows; a plain vector is points of one coordinate."""
    value = real(name, value)
    if value.ndim not in (1, 2):
        raise ValueError(f"{name} must have shape (n,) or (n, d), got {value.shape}.")
    return real(name, value[:, None] if value.ndim == 1 else value, "n d" if name == "x" else "m d", dims)
