"""How far messages travel, and what two layers are good for."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.sparse.csgraph import shortest_path

from corollary.claims._drawn import drawn
from corollary.data import binary_tree, cycle_graph, erdos_renyi, path_graph, stochastic_block_model
from corollary.evidence import Count, Size, at_least, claim, control, equal
from corollary.nets import train
from corollary.nets.graphs import GCNClassifier, gcn_propagate
from corollary.network import BatchLoss

NODES = 8


@claim(rows=("E07.16", "E07.15"))
def receptive_field(key):
    r"""After k layers a vertex has heard of exactly those at distance k or less.

    For layers $\tanh(\bar AXW)$ with random weights $\partial\xi_i/\partial x_j$ after $k$ layers is zero if the
    distance of $i$ and $j$ exceeds $k$ and, with probability one, not zero otherwise. A network in which every vertex
    is to hear of every other one takes at least as many layers as the diameter: $M-1$ on a path, half of that on a
    cycle. The classifier of two layers looks two steps far. One more edge changes the distances and what is heard.
    """
    fixed = np.stack([path_graph(NODES), cycle_graph(NODES), binary_tree(3)[:NODES, :NODES], cycle_graph(NODES)])
    fixed[3, 0, 4] = fixed[3, 4, 0] = 1.0

    @jax.jit
    def measure(key):
        graph_key, x_key, w_key = jax.random.split(key, 3)
        ring = jnp.asarray(path_graph(NODES))
        random = jnp.maximum(erdos_renyi(NODES, 0.2, key=graph_key), ring)
        a = jnp.concatenate([jnp.asarray(fixed), random[None]])
        x = jax.random.normal(x_key, (NODES, 2))
        # not small: after seven layers the derivatives are still far from underflow
        w = jax.random.normal(w_key, (NODES - 1, 2, 2))

        def layers(x, graph):
            def advance(x, w):
                x = jnp.tanh(gcn_propagate(x, graph) @ w)
                return x, x

            return jax.lax.scan(advance, x, w)[1]

        slopes = jax.vmap(lambda graph: jax.jacfwd(layers)(x, graph))(a)  # (graphs, layers, i, 2, j, 2)
        return a, jnp.any(slopes != 0, axis=(3, 5))

    a, heard = map(np.asarray, measure(key))
    distance = np.stack([shortest_path(g, unweighted=True) for g in a])
    depths = np.arange(1, NODES)[None, :, None, None]
    yield equal("pairs with a derivative: those at distance k or less", heard, distance[:, None] <= depths)
    full = heard.all((2, 3))
    enough = 1 + full.argmax(1)
    yield equal("layers until all have heard of all: the diameter", enough, distance.max((1, 2)), along="graph")
    yield equal("diameter of the path and of the cycle", enough[:2], [NODES - 1, NODES // 2])
    yield control(
        "one more edge across the cycle",
        equal("pairs with a derivative", heard[3], distance[1] <= depths[0]),
    )


@claim(rows=("E07.15", "E07.14"))
def few_labels(key, *, nodes: Size = 120, runs: Size = 6, steps: Count = 60):
    r"""Two graph convolutions learn communities from five labels each, where a network without the graph guesses.

    $Y=\mathrm{softmax}(\bar A(\bar AXW_0)_+W_1)$ is trained on the labels of five vertices of each of three blocks, the
    features being the identity: nothing but the name of the vertex. Vertices are joined with probability 0.2 inside a
    block and 0.02 across. With the graph the others' blocks are found; without it ($\bar A=I$, a multilayer perceptron)
    a vertex that has no label has weights that were never trained, and the accuracy is that of guessing, a third.
    """
    truth = np.arange(nodes) * 3 // nodes
    labelled = np.concatenate([np.flatnonzero(truth == c)[:5] for c in range(3)])
    rest = np.setdiff1d(np.arange(nodes), labelled)
    chances = 0.02 + 0.18 * jnp.eye(3)
    optimiser = optax.adam(0.05)

    @BatchLoss
    def loss(model, graph):
        logits = model.logits(jnp.eye(nodes), graph)
        return -jnp.mean(jax.nn.log_softmax(logits)[labelled, truth[labelled]])

    @jax.jit
    def measure(key):
        def one(key, keep):
            graph_key, model_key = jax.random.split(key)
            graph = keep * stochastic_block_model(truth, chances, key=graph_key).adjacency
            model = drawn(lambda k: GCNClassifier(nodes, 8, 3, key=k), model_key)
            model = train(model, loss, graph, optimiser, steps=steps).network
            found = jnp.argmax(model(jnp.eye(nodes), graph), axis=1)
            return jnp.mean((found == truth)[rest])

        keys = jax.random.split(key, runs)
        return jax.vmap(lambda keep: jax.vmap(lambda k: one(k, keep))(keys))(jnp.array([1.0, 0.0]))

    with_graph, without = map(np.asarray, measure(key))
    yield at_least("accuracy on the vertices without label, mean over runs", with_graph.mean(), 0.9)
    # answers that are independent of the truth, with as many vertices in each block: mean 1/3, variance 2/9 a vertex
    spread = np.sqrt(2 / 9 / len(rest) / runs)
    yield equal("accuracy without the graph, mean over runs", without.mean(), 1 / 3, rtol=0, atol=6 * spread)
    yield control("no edges", at_least("accuracy", without.mean(), 0.9))
