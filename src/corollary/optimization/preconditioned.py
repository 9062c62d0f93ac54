r"""Gradient descent in other coordinates: $\theta_{k+1}=\theta_k-\eta\,Q\,\nabla f(\theta_k)$, $Q$ symmetric positive
definite, close to the inverse of the Hessian.

The same as plain descent in $z=Q^{-1/2}\theta$, and so governed by the spectrum of $Q^{1/2}HQ^{1/2}$. T (2.4.1) says
that $Q$ approximates the Hessian; it must be the inverse.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import real
from corollary.catalog import implements
from corollary.optimization._arguments import step_of


@implements("B05.14", "T02.21")
def preconditioned(matrix: Float[ArrayLike, "..."], step: Scalar | Callable = 1.0) -> optax.GradientTransformation:
    r"""The update $-\eta\,Q\,g$ for the vector of all parameters; `matrix` is $Q$ (d, d), or its diagonal (d,): one
    step size for each coordinate.
    """
    matrix = real("matrix", matrix)
    if matrix.ndim not in (1, 2) or matrix.shape[0] != matrix.shape[-1]:
        raise ValueError(f"matrix must have shape (d, d) or (d,), got {matrix.shape}.")

    def multiply(updates, params=None):
        flat, shape_back = ravel_pytree(updates)
        return shape_back((matrix * flat if matrix.ndim == 1 else matrix @ flat).astype(flat.dtype))

    return optax.chain(optax.stateless(multiply), optax.scale_by_learning_rate(step_of(step)))


@implements("T02.21")
def jacobi(hessian: Float[ArrayLike, "d d"]) -> Array:
    r"""$Q=\mathrm{Diag}(H)^{-1}$, as a vector: as many learning rates as coordinates, $1/H_{ii}$."""
    return 1 / jnp.diagonal(real("hessian", hessian, "d d"))


@implements("B05.14", "T02.21")
def preconditioned_spectrum(hessian: Float[ArrayLike, "d d"], matrix: Float[ArrayLike, "..."]) -> Array:
    r"""The eigenvalues of $Q^{1/2}HQ^{1/2}$, ascending: those of $QH$, all 1 if $Q=H^{-1}$."""
    dims = {}
    hessian, matrix = real("hessian", hessian, "d d", dims), real("matrix", matrix)
    if matrix.shape not in (hessian.shape, hessian.shape[:1]):
        raise ValueError(f"matrix must have shape (d, d) or (d,) with d = {dims['d']}, got {matrix.shape}.")
    root = jnp.diag(jnp.sqrt(matrix)) if matrix.ndim == 1 else jnp.linalg.cholesky(matrix)
    # C' H C with Q = C C' has the spectrum of Q H, whichever root of Q is taken
    return jnp.linalg.eigvalsh(root.T @ hessian @ root)
