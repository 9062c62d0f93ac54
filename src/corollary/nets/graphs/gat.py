r"""Graph attention: the weights of the neighbours are learnt from the features at both ends of an edge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.activations import identity, leaky_relu, relu
from corollary.nets.graphs.neighbours import Edges, as_graph, features
from corollary.nets.initialisations import glorot_uniform


@implements("E07.19")
class GATLayer(eqx.Module):
    r"""$\Xi=\sigma(QXV^\top)$ with $q_{ij}=\mathrm{softmax}_j\,\rho(u^\top[Vx_i,Vx_j,x_{ij}])$, $j\in N(i)\cup\{i\}$.

    $\rho$ is the leaky ReLU of slope 0.2. Edges may have features $x_{ij}$: an array (m, m, k) beside a matrix,
    (edges, k) in the order of `senders` beside `Edges`; the loop from $i$ to $i$ has none (zeros). With `heads` the
    outputs of so many of these, each with parameters of its own, lie beside each other.
    """

    projection: jax.Array
    own: jax.Array
    other: jax.Array
    edge: jax.Array | None
    activation: Callable = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        activation: Callable = relu,
        *,
        heads: int = 1,
        edge_features: int = 0,
        key: PRNGKeyArray,
    ):
        inputs, outputs, heads = whole("inputs", inputs), whole("outputs", outputs), whole("heads", heads)
        edge_features = whole("edge_features", edge_features, 0)
        if not callable(activation):
            raise TypeError(f"activation must be a function of a number, got {activation!r}.")
        if outputs % heads:
            raise ValueError(f"outputs must be a multiple of heads, got {outputs} and {heads}.")
        size, keys = outputs // heads, jax.random.split(key, 4)
        dtype = jnp.result_type(float)
        self.projection = glorot_uniform(keys[0], (outputs, inputs), dtype).reshape(heads, size, inputs)
        self.own = glorot_uniform(keys[1], (heads, size), dtype)
        self.other = glorot_uniform(keys[2], (heads, size), dtype)
        self.edge = glorot_uniform(keys[3], (heads, edge_features), dtype) if edge_features else None
        self.activation = activation

    def coupling(
        self,
        x: Float[ArrayLike, "..."],
        adjacency: Float[ArrayLike, "m m"],
        edge_features: Float[ArrayLike, "..."] | None = None,
    ) -> Float[Array, "..."]:
        r"""The matrices $Q$ (heads, m, m): rows sum to one and are zero away from the graph."""
        if isinstance(adjacency, Edges):
            raise TypeError("adjacency must be a matrix: with Edges call the layer itself, which needs no matrix.")
        _, own, other = self._scores(x)
        adjacency = as_graph(adjacency, own.shape[1])
        scores = own[:, :, None] + other[:, None, :]
        loops = jnp.eye(own.shape[1], dtype=bool)
        if (extra := self._edges(edge_features, adjacency.shape)) is not None:
            scores = scores + jnp.where(loops, 0.0, jnp.einsum("ijk,hk->hij", extra, self.edge))
        scores = jnp.where((adjacency > 0) | loops, leaky_relu(0.2)(scores), -jnp.inf)
        return jax.nn.softmax(scores, axis=2)

    def __call__(
        self,
        x: Float[ArrayLike, "..."],
        graph: Edges | Float[ArrayLike, "m m"],
        edge_features: Float[ArrayLike, "..."] | None = None,
    ) -> Float[Array, "..."]:
        if isinstance(graph, Edges):
            out = self._sparse(x, graph, edge_features)
        else:
            projected = self._scores(x)[0]
            out = jnp.einsum("hij,jhs->ihs", self.coupling(x, graph, edge_features), projected)
        return self.activation(out.reshape(out.shape[0], -1))

    def _sparse(self, x, graph, edge_features):
        projected, own, other = self._scores(x)
        as_graph(graph, own.shape[1])
        rho = leaky_relu(0.2)
        scores = own[:, graph.receivers] + other[:, graph.senders]
        if (extra := self._edges(edge_features, graph.senders.shape)) is not None:
            scores = scores + self.edge @ extra.T
        scores, loops = rho(scores).T, rho(own + other).T  # (edges, heads), (m, heads)

        def over(values):
            return jax.ops.segment_sum(values, graph.receivers, graph.nodes)

        top = jnp.maximum(jax.ops.segment_max(scores, graph.receivers, graph.nodes), loops)
        weights, self_weights = jnp.exp(scores - top[graph.receivers]), jnp.exp(loops - top)
        total = over(weights[:, :, None] * projected[graph.senders]) + self_weights[:, :, None] * projected
        return total / (over(weights) + self_weights)[:, :, None]

    def _scores(self, x):
        x = features(x)
        if x.shape[1] != self.projection.shape[2]:
            raise ValueError(f"x must have {self.projection.shape[2]} features per vertex, got shape {x.shape}.")
        projected = jnp.einsum("hsd,md->mhs", self.projection, x)
        return (
            projected,
            jnp.einsum("mhs,hs->hm", projected, self.own),
            jnp.einsum("mhs,hs->hm", projected, self.other),
        )

    def _edges(self, edge_features, shape):
        if (edge_features is None) != (self.edge is None):
            raise TypeError("edge_features must be given if and only if the layer was made with them.")
        if edge_features is None:
            return None
        return real("edge_features", edge_features, " ".join(map(str, (*shape, self.edge.shape[1]))), finite=False)


@implements("E07.19")
class GAT(eqx.Module):
    """Layers of attention in a row for `sizes` features, with `heads` in all but the last, which has no activation."""

    layers: tuple[GATLayer, ...]

    def __init__(self, sizes: Sequence[int], activation: Callable = relu, *, heads: int = 1, key: PRNGKeyArray):
        sizes = [whole("sizes", size) for size in sizes]
        if len(sizes) < 2:
            raise ValueError(f"sizes must hold the numbers of features before and after, got {sizes}.")
        depth = len(sizes) - 1
        keys = jax.random.split(key, depth)
        pairs = list(zip(sizes[:-1], sizes[1:], keys, strict=True))
        inner = [GATLayer(n, m, activation, heads=heads, key=k) for n, m, k in pairs[:-1]]
        n, m, k = pairs[-1]
        self.layers = (*inner, GATLayer(n, m, identity, key=k))

    def __call__(self, x: Float[ArrayLike, "..."], graph: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        for layer in self.layers:
            x = layer(x, graph)
        return x
