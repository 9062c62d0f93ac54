r"""Attention with hardly any parameters: the steps on the way to queries, keys and values, and its limits."""

from __future__ import annotations

from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import real, within
from corollary.catalog import implements
from corollary.nets.attention.dot_product import dot_product_attention


@implements("B10.33")
def plain_attention(x: Float[ArrayLike, "T d"]) -> Float[Array, "_ _"]:
    r"""$\mathrm{softmax}(XX^\top)X$: each token becomes the mean of all, weighted by how much they are like it."""
    x = real("x", x, "T d")
    return dot_product_attention(x, x, x, scale=1.0)


@implements("B10.34")
def shared_attention(x: Float[ArrayLike, "T d"], u: Float[ArrayLike, "d e"]) -> Float[Array, "_ _"]:
    r"""$\mathrm{softmax}(XUU^\top X^\top)XU$ with one matrix `u` (d, e): its logits are symmetric and semi-definite."""
    dims = {}
    x, u = real("x", x, "T d", dims), real("u", u, "d e", dims)
    return plain_attention(x @ u)


@implements("B10.38")
def linear_attention(
    q: Float[ArrayLike, "T d"], k: Float[ArrayLike, "S d"], v: Float[ArrayLike, "S e"]
) -> Float[Array, "_ _"]:
    r"""$(QK^\top)V$, without softmax and scale, computed as $Q(K^\top V)$: $Td^2$ products instead of $T^2d$."""
    dims = {}
    q, k, v = real("q", q, "T d", dims), real("k", k, "S d", dims), real("v", v, "S e", dims)
    return q @ (k.T @ v)


@implements("E06.04")
def soft_lookup(
    q: Float[ArrayLike, "d"], keys: Float[ArrayLike, "S d"], values: Float[ArrayLike, "S e"], beta: Scalar
) -> Float[Array, "_"]:
    r"""$\sum_t\mathrm{softmax}_t(\beta\,q^\top k_t)v_t$: for $\beta=0$ the mean of the values (S, e), for
    $\beta\to\infty$ the value of the key (S, d) that fits the query (d,) best."""
    dims = {}
    q, keys, values = real("q", q, "d", dims), real("keys", keys, "S d", dims), real("values", values, "S e", dims)
    beta = within("beta", real("beta", beta, ""), 0.0)
    return dot_product_attention(beta * q[None], keys, values, scale=1.0)[0]
