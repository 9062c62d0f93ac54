r"""Permutations of tokens, and how far a map of token matrices is from respecting them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from corollary._validate import concrete, labels, real
from corollary.catalog import implements


@implements("M13.37")
def permutation_matrix(order):
    r"""$L(\pi)$ with rows $e_{\pi_1},\dots,e_{\pi_n}$: row $i$ of $L(\pi)X$ is row $\pi_i$ of $X$."""
    order = _order(order, np.size(order))
    return jnp.eye(order.shape[0])[order]


@implements("M13.37")
def equivariance_defect(f: Callable, x, order):
    r"""$\max|\mathcal Z(L(\pi)X)-L(\pi)\mathcal Z(X)|$: 0 when the outputs move with the tokens `x` (n, d)."""
    return _defect(f, x, order, lambda out, order: out[order])


@implements("M13.37")
def invariance_defect(f: Callable, x, order):
    r"""$\max|\mathcal Z(L(\pi)X)-\mathcal Z(X)|$: 0 when the order of the tokens `x` (n, d) does not matter."""
    return _defect(f, x, order, lambda out, order: out)


def _defect(f, x, order, expected):
    if not callable(f):
        raise TypeError(f"f must be a function of a token matrix, got {f!r}.")
    x = real("x", x, "n d")
    order = _order(order, x.shape[0])
    # leaf by leaf: a model may return several arrays
    pairs = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a - expected(b, order))), f(x[order]), f(x))
    return jnp.max(jnp.stack(jax.tree.leaves(pairs)))


def _order(order, n: int):
    order = labels("order", order, n, str(n) if n else "n")
    if concrete(order) and len(set(np.asarray(order).tolist())) < n:
        raise ValueError(f"order must hold each of 0 to {n - 1} once, got {np.asarray(order).tolist()}.")
    return order
