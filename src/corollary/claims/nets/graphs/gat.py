"""Graph attention beside the fixed weights of graph convolution."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims._drawn import drawn
from corollary.data import cycle_graph, erdos_renyi, star_graph
from corollary.evidence import Size, at_least, claim, control, equal
from corollary.nets import tanh
from corollary.nets.graphs import GATLayer, gcn_coupling


@claim(rows=("E07.19",))
def learnt_coupling(key, *, nodes: Size = 12, features: Size = 3):
    r"""The coupling of graph attention is stochastic on neighbourhoods, and a plain mean where features are equal.

    $q_{ij}=\mathrm{softmax}_j\,\rho(u^\top[Vx_i,Vx_j])$ over $j\in N(i)\cup\{i\}$: rows of $Q$ are positive on the
    neighbourhood, zero elsewhere, and sum to one. Equal features give $q_{ij}=1/(1+|N(i)|)$: the mean. On a regular
    graph that is the coupling $\bar A$ of a GCN, whose weights $1/\sqrt{d_id_j}$ are not equal otherwise (the text
    calls them fixed equal weights). $\rho$ is increasing, so that in a row the order of the weights is that of
    $u_2^\top Vx_j$, the same for every vertex $i$: what attention of this form prefers does not depend on who asks.
    """

    @jax.jit
    def measure(key):
        graph_key, x_key, model_key = jax.random.split(key, 3)
        random = erdos_renyi(nodes, 0.3, key=graph_key)
        graphs = jnp.stack([random, jnp.asarray(cycle_graph(nodes)), jnp.asarray(star_graph(nodes - 1))])
        x = jax.random.normal(x_key, (nodes, features))
        layer = drawn(lambda k: GATLayer(features, 4, tanh, key=k), model_key)

        def look(a):
            q, flat = layer.coupling(x, a)[0], layer.coupling(jnp.ones_like(x), a)[0]
            return a, q, flat, gcn_coupling(a), layer(x, a)

        scores = x @ layer.projection[0].T @ layer.other[0]
        return jax.lax.map(look, graphs), scores, x, layer.projection[0]

    (a, q, flat, fixed, out), scores, x, v = jax.tree.map(np.asarray, measure(key))
    near = (a > 0) | np.eye(nodes, dtype=bool)
    yield equal("sums of the rows", q.sum(2), 1.0)
    yield equal("where the weights are not zero: neighbours and the vertex itself", q > 0, near)
    yield equal("layer: weights times projected features", out, np.tanh(q @ x @ v.T))
    means = near / near.sum(2, keepdims=True)
    yield equal("equal features: the mean over the neighbourhood", flat, means)
    yield equal("equal features on a cycle: the coupling of a GCN", flat[1], fixed[1])
    # in every row the weights increase with the score of the neighbour
    order = np.argsort(scores)
    sorted_q = q[:, :, order]
    steps = [np.diff(row[row > 0]) for g in sorted_q for row in g]
    yield at_least("steps of the weights in the order of the scores", np.concatenate(steps), 0.0, atol=1e-15)
    yield control("a star is not regular", equal("the coupling of a GCN", flat[2], fixed[2]))
