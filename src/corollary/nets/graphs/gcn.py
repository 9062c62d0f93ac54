r"""Graph convolutional networks: features are averaged with fixed weights over neighbours, then transformed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import whole
from corollary.catalog import implements
from corollary.nets.activations import identity, relu
from corollary.nets.graphs.neighbours import Edges, as_graph, degrees, features, neighbour_sum
from corollary.nets.initialisations import glorot_uniform


@implements("E07.12")
def gcn_coupling(adjacency: Float[ArrayLike, "m m"]) -> Float[Array, "_ _"]:
    r"""$\bar A=D^{-1/2}(A+I)D^{-1/2}$ with $d_m=1+\sum_na_{nm}$, as a matrix; the degrees count the vertex itself."""
    if isinstance(adjacency, Edges):
        raise TypeError("adjacency must be a matrix; with Edges use gcn_propagate, which needs no matrix.")
    adjacency = as_graph(adjacency)
    scale = jax.lax.rsqrt(1 + degrees(adjacency))
    return scale[:, None] * (adjacency + jnp.eye(adjacency.shape[0], dtype=adjacency.dtype)) * scale


@implements("E07.12")
def gcn_propagate(x: Float[ArrayLike, "m d"], graph: Float[ArrayLike, "m m"]) -> Float[Array, "_ d"]:
    r"""$\bar AX$ without the matrix $\bar A$: of `Edges` in time proportional to their number."""
    x = features(x)
    graph = as_graph(graph, x.shape[0])
    scale = jax.lax.rsqrt(1 + degrees(graph)).astype(x.dtype)[:, None]
    return scale * (neighbour_sum(graph, scale * x) + scale * x)


@implements("E07.14")
class GCNLayer(eqx.Module):
    r"""$\Xi=\sigma(\bar AXW)$ with $W\in\mathbb R^{d\times d'}$; a bias only if asked for."""

    weight: jax.Array
    bias: jax.Array | None
    activation: Callable = eqx.field(static=True)

    def __init__(
        self, inputs: int, outputs: int, activation: Callable = relu, *, bias: bool = False, key: PRNGKeyArray
    ):
        inputs, outputs = whole("inputs", inputs), whole("outputs", outputs)
        if not callable(activation):
            raise TypeError(f"activation must be a function of a number, got {activation!r}.")
        self.weight = glorot_uniform(key, (outputs, inputs), jnp.result_type(float)).T
        self.bias = jnp.zeros(outputs) if bias else None
        self.activation = activation

    def __call__(self, x: Float[ArrayLike, "m d"], graph: Float[ArrayLike, "m m"]) -> Float[Array, "_ _"]:
        x = features(x)
        if x.shape[1] != self.weight.shape[0]:
            raise ValueError(f"x must have {self.weight.shape[0]} features per vertex, got shape {x.shape}.")
        # average where there are fewer features: the result is the same
        if self.weight.shape[1] < self.weight.shape[0]:
            z = gcn_propagate(x @ self.weight, graph)
        else:
            z = gcn_propagate(x, graph) @ self.weight
        return self.activation(z if self.bias is None else z + self.bias)


@implements("E07.14")
class GCN(eqx.Module):
    """Layers in a row for `sizes` features, the last one without activation."""

    layers: tuple[GCNLayer, ...]

    def __init__(self, sizes: Sequence[int], activation: Callable = relu, *, bias: bool = False, key: PRNGKeyArray):
        sizes = [whole("sizes", size) for size in sizes]
        if len(sizes) < 2:
            raise ValueError(f"sizes must hold the numbers of features before and after, got {sizes}.")
        depth = len(sizes) - 1
        keys = jax.random.split(key, depth)
        self.layers = tuple(
            GCNLayer(n, m, activation if i < depth - 1 else identity, bias=bias, key=k)
            for i, (n, m, k) in enumerate(zip(sizes[:-1], sizes[1:], keys, strict=True))
        )

    def __call__(self, x: Float[ArrayLike, "..."], graph: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        for layer in self.layers:
            x = layer(x, graph)
        return x


@implements("E07.15")
class GCNClassifier(eqx.Module):
    r"""$Y=\mathrm{softmax}(\bar A(\bar AXW_0)_+W_1)$: the probabilities of the classes of every vertex, by rows."""

    network: GCN

    def __init__(self, inputs: int, hidden: int, classes: int, *, key: PRNGKeyArray):
        self.network = GCN((inputs, hidden, whole("classes", classes, 2)), relu, key=key)

    def logits(self, x: Float[ArrayLike, "..."], graph: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """Before the softmax: (m, classes)."""
        return self.network(x, graph)

    def __call__(self, x: Float[ArrayLike, "..."], graph: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return jax.nn.softmax(self.logits(x, graph), axis=1)
