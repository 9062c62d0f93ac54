r"""The Hessian of an objective applied to a vector, without ever forming the Hessian.

$\nabla^2\Lambda(\theta)\,v$ is the derivative of $\nabla\Lambda$ in the direction $v$: forward mode over reverse mode.
It costs a small constant times a gradient, in time and memory, whatever the number of parameters.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from corollary._validate import real
from corollary.catalog import implements


@implements("T04.16")
def hessian_vector_product(objective: Callable, params: PyTree, vector: PyTree) -> PyTree:
    r"""$\nabla^2\Lambda(\theta)\,v$ for a scalar `objective(params)` of any pytree, and a `vector` like it.

    Leaves of `params` that are no floating-point numbers (integers, functions, the fixed parts of an Equinox module)
    are held fixed; the result has `None` in their place, and what `vector` has there is not looked at.

    >>> hessian_vector_product(lambda w: jnp.sum(w**3), jnp.array([1.0, 2.0]), jnp.ones(2)).tolist()
    [6.0, 12.0]
    """
    gradient, varied = _gradient(objective, params)
    direction = _like(varied, vector)
    return jax.jvp(gradient, (varied,), (direction,))[1]


@implements("T04.16")
def hessian_operator(objective: Callable, params: PyTree) -> Callable:
    r"""The map $v\mapsto\nabla^2\Lambda(\theta)\,v$ at a fixed `params`, linearised once.

    For many products at one point (Lanczos, conjugate gradients): each repeats neither the objective nor its gradient.
    """
    gradient, varied = _gradient(objective, params)
    _, linear = jax.linearize(gradient, varied)
    return lambda vector: linear(_like(varied, vector))


def _gradient(objective, params):
    """The gradient as a function of the floating-point leaves, and those leaves."""
    if not callable(objective):
        raise TypeError(f"objective must be a function of params, got {type(objective).__name__}.")
    varied, fixed = eqx.partition(params, _varies)
    if not jax.tree.leaves(varied):
        raise ValueError("params must have at least one floating-point leaf.")
    varied = jax.tree_util.tree_map_with_path(lambda path, leaf: real(_name("params", path), leaf), varied)

    def value(varied):
        return objective(eqx.combine(varied, fixed))

    out = jax.eval_shape(value, varied)
    if not hasattr(out, "shape") or out.shape != () or not jnp.issubdtype(out.dtype, jnp.floating):
        raise ValueError(f"objective must return a real scalar, got {out}.")
    return jax.grad(value), varied


def _varies(leaf) -> bool:
    return isinstance(leaf, float) or (hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact))


def _like(varied, vector):
    """The leaves of `vector` where `varied` has some, in its shapes and types."""
    places = jax.tree.structure(varied)
    try:
        # None stands for a fixed leaf and matches whatever the vector has there
        matched = jax.tree.map(lambda d, v: d if d is None else v, varied, vector, is_leaf=lambda d: d is None)
    except (ValueError, TypeError):
        got = jax.tree.structure(vector)
        raise ValueError(f"vector must have the structure of params, {places}, got {got}.") from None

    def convert(path, leaf, v):
        name = _name("vector", path)
        v = real(name, v)
        if v.shape != leaf.shape:
            raise ValueError(f"{name} must have shape {leaf.shape} like params, got {v.shape}.")
        return v.astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(convert, varied, matched)


def _name(root: str, path) -> str:
    return root + jax.tree_util.keystr(path)
