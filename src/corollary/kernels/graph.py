r"""The tangent kernel of infinitely wide graph networks: sums over neighbours, and dense layers at every node.

A graph is its nodes' features (nodes, d) and its adjacency matrix. A batch pads smaller graphs with nodes that have no
features and no edges: without biases such nodes are zero in every layer, and do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import real, whole, within
from corollary.catalog import implements
from corollary.kernels import _covariance
from corollary.kernels.dual import activation as find_activation


@implements("T09.24")
def graph_ntk(
    features: Float[ArrayLike, "n v d"],
    adjacency: Float[ArrayLike, "n v v"],
    others: Float[ArrayLike, "m w d"] | None = None,
    other_adjacency: Float[ArrayLike, "m w w"] | None = None,
    *,
    blocks: int = 1,
    layers: int = 1,
    activation: str | Callable = "relu",
    weight_std: Scalar = 2**0.5,
) -> Float[Array, "n m"]:
    r"""Tangent kernel between the graphs of two batches, (n1, n2); one batch with itself unless `others` is given.

    `features` is (n, nodes, d), `adjacency` (n, nodes, nodes). The network has `blocks` of: every node adds its
    neighbours to itself, $h_u\leftarrow h_u+\sum_vA_{uv}h_v$, then `layers` dense layers $\frac{\sigma_w}{\sqrt n}Wh$
    with their activation; the sum over nodes goes through a last dense layer.
    """
    dims = {}
    features = real("features", features, "n v d", dims)
    adjacency = real("adjacency", adjacency, "n v v", dims)
    if (others is None) != (other_adjacency is None):
        raise ValueError("others and other_adjacency must be given together.")
    second = None
    if others is not None:
        dims = {"d": features.shape[-1]}
        second = real("others", others, "m w d", dims), real("other_adjacency", other_adjacency, "m w w", dims)
    blocks, layers = whole("blocks", blocks), whole("layers", layers)
    weight_std = within("weight_std", real("weight_std", weight_std, ""), 0.0).astype(features.dtype)
    phi = find_activation(activation)
    return _kernel((features, adjacency), second, blocks, layers, phi, weight_std)


@partial(jax.jit, static_argnums=(2, 3))
def _kernel(first, second, blocks, layers, phi, weight_std):
    # nodes are pixels of which every pair is kept; two batches may differ in how many there are
    (x, a), (y, b) = first, first if second is None else second
    a, b = (m + jnp.eye(m.shape[-1], dtype=m.dtype) for m in (a, b))
    channels = x.shape[-1]
    own = [jnp.einsum("nud,nvd->nuv", p, p, precision="highest") / channels for p in (x, y)]
    cross = jnp.einsum("nud,mvd->nmuv", x, y, precision="highest") / channels
    state = _covariance.Covariance(own[0], cross, own[1], jnp.zeros_like(cross), 1, True)

    def gather(left, q, right, pattern):
        return jnp.einsum(pattern, left, q, right, precision="highest")

    for _ in range(blocks):
        state = _covariance.Covariance(
            gather(a, state.first, a, "nus,nst,nvt->nuv"),
            gather(a, state.cross, b, "nus,nmst,mvt->nmuv"),
            gather(b, state.second, b, "nus,nst,nvt->nuv"),
            gather(a, state.tangent, b, "nus,nmst,mvt->nmuv"),
            1,
            True,
        )
        for _ in range(layers):
            state = _covariance.affine(state, weight_std, 0.0)
            state = _covariance.apart(lambda s: _covariance.activate(s, phi), state)
    summed = weight_std**2 * jnp.sum(state.cross, (-2, -1))
    return weight_std**2 * jnp.sum(state.tangent, (-2, -1)) + summed
