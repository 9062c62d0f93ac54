"""Derivatives on computation graphs: what a node's derivative is, and that messages compute it."""

import jax
import numpy as np

from corollary.autodiff import (
    OPERATIONS,
    Graph,
    Node,
    all_pairs,
    backprop,
    clamped_derivatives,
    evaluate,
    forward_derivative,
    random_graph,
)
from corollary.evidence import Size, claim, control, equal

# A derivative is a sum over paths of products of up to `operations` local derivatives, each rounded once: an error of a
# few hundred rounding units of the largest derivative in the graph.
ROUNDING = 1e-12


def _instances(key, graphs, leaves, operations):
    """Random graphs, each with a random point."""
    graph_keys, point_key = jax.random.split(key, (2, graphs)), jax.random.fold_in(key, 1)
    points = np.asarray(jax.random.uniform(point_key, (graphs, leaves), minval=-1.0))
    return [(random_graph(leaves, operations, key=k), z) for k, z in zip(graph_keys[0], points, strict=True)]


def _collected(instances, pairs):
    """`pairs(graph, values, clamped)` over all instances, scaled by the largest derivative of each graph."""
    measured, predicted = [], []
    for graph, z in instances:
        clamped = clamped_derivatives(graph, z)
        left, right = pairs(graph, evaluate(graph, z), clamped)
        scale = np.abs(clamped).max()
        measured.append(np.asarray(left, float) / scale)
        predicted.append(np.asarray(right, float) / scale)
    return np.concatenate(measured), np.concatenate(predicted)


@claim(rows=("T04.06", "T04.07", "T04.02", "T04.08", "M24.07"), full={"graphs": 1000, "operations": 200})
def messages_are_derivatives(key, *, graphs: Size = 200, leaves: Size = 4, operations: Size = 40):
    r"""Backpropagation by messages finds the derivative of the output by every node, with one message an edge.

    In an acyclic graph let every node, users first, add up the messages that have arrived to $S$ (the output starts
    with $S=1$) and send $S\,\partial u/\partial z$ to each input $z$. Then $S=\partial f/\partial u$ at every node: the
    rate at which $f$ changes when the incoming edges of $u$ are cut and $u$ is varied. Measured against that
    definition, carried out with a complex step.
    """
    instances = _instances(key, graphs, leaves, operations)
    values = [(graph, evaluate(graph, z)) for graph, z in instances]
    measured, predicted = _collected(instances, lambda g, v, clamped: (backprop(g, v).derivatives, clamped))
    yield equal("derivative by every node, over the largest", measured, predicted, rtol=0, atol=ROUNDING)
    sent = [backprop(graph, v).messages for graph, v in values]
    yield equal("messages sent", sent, [graph.edges for graph, _ in values], rtol=0, atol=0)
    row, _ = _collected(instances, lambda g, v, clamped: (all_pairs(g, v).jacobian[g.output], clamped))
    yield equal("the naive algorithm, row of the output", row, predicted, rtol=0, atol=ROUNDING)
    early, _ = _collected(
        instances, lambda g, v, clamped: (backprop(g, v, order=range(len(g.nodes))).derivatives, clamped)
    )
    yield control(
        "nodes that take their turn before their users pass on sums that are not complete",
        equal("derivative by every node, over the largest", early, predicted, rtol=0, atol=ROUNDING),
    )


@claim(rows=("T04.03",))
def node_derivatives_suffice(key, *, graphs: Size = 100, leaves: Size = 6, operations: Size = 40):
    r"""For a weighted sum, the derivative by a weight is the derivative by the node times the input of that weight.

    If $u=\sum_kw_kz_k$ and $w_k$ is used nowhere else, $\partial f/\partial w_k=(\partial f/\partial u)\,z_k$. Both
    derivatives are measured by a complex step, the one at the leaf $w_k$, the other at the clamped node $u$.
    """
    instances = [_with_neuron(graph, z) for graph, z in _instances(key, graphs, leaves, operations)]

    def weights(graph, values, clamped):
        u = graph.nodes[-3]
        half = len(u.inputs) // 2
        neuron = len(graph.nodes) - 3
        return [clamped[i] for i in u.inputs[:half]], [clamped[neuron] * values[i] for i in u.inputs[half:]]

    measured, predicted = _collected(instances, weights)
    yield equal("derivative by the weights, over the largest", measured, predicted, rtol=0, atol=ROUNDING)

    def reused(graph, values, clamped):
        _, right = weights(graph, values, clamped)
        # the first weight also reaches the output on its own
        twice = Graph((*graph.nodes[:-1], graph.nodes[-1]._replace(inputs=(*graph.nodes[-1].inputs, 0))), graph.output)
        leaves = [values[i] for i in graph.leaves]
        return clamped_derivatives(twice, leaves)[:1], right[:1]

    measured, predicted = _collected(instances, reused)
    yield control(
        "a weight that is used elsewhere too has more than this one path",
        equal("derivative by the weight, over the largest", measured, predicted, rtol=0, atol=ROUNDING),
    )


def _with_neuron(graph, z):
    """The graph with a neuron put on top: tanh of the sum of the old output and two nodes, weighted by three leaves."""
    shift = lambda node: node._replace(inputs=tuple(i + 3 for i in node.inputs))  # noqa: E731
    nodes = [Node("leaf")] * 3 + [shift(node) for node in graph.nodes]
    top = len(nodes)
    below = (3, graph.output + 2, graph.output + 3)
    nodes += [Node("dot", (0, 1, 2, *below)), Node("tanh", (top,)), Node("sum", (top + 1, top))]
    weights = np.array([0.3, -0.2, 0.1])
    return Graph(tuple(nodes), top + 2), np.concatenate([weights, z])


@claim(rows=("T04.04",))
def chain_rule(key, *, graphs: Size = 200, leaves: Size = 4, operations: Size = 40):
    r"""The derivative by a node is the sum over all edges that leave it of user's derivative times local derivative.

    $$\frac{\partial f}{\partial z}=\sum_j\frac{\partial f}{\partial u_j}\,\frac{\partial u_j}{\partial z}$$
    over the nodes $u_j$ that $z$ feeds, once for each edge. Both sides are measured: the derivatives by a complex
    step at clamped nodes, the local ones as formulas.
    """
    instances = _instances(key, graphs, leaves, operations)

    def sums(graph, values, clamped, skip=0):
        total = np.zeros(len(graph.nodes))
        edges = 0
        for i, node in enumerate(graph.nodes):
            if node.inputs:
                local = OPERATIONS[node.op].messages(1.0, values[i], *(values[j] for j in node.inputs))
                for j, slope in zip(node.inputs, local, strict=True):
                    edges += 1
                    total[j] += clamped[i] * slope if edges != skip else 0.0
        return clamped[: graph.output], total[: graph.output]

    measured, predicted = _collected(instances, sums)
    yield equal("derivative by every node, over the largest", measured, predicted, rtol=0, atol=ROUNDING)
    measured, predicted = _collected(instances, lambda g, v, clamped: sums(g, v, clamped, skip=g.edges // 2))
    yield control(
        "one edge of the graph is unknown to the sum",
        equal("derivative by every node, over the largest", measured, predicted, rtol=0, atol=ROUNDING),
    )


@claim(rows=("M24.04", "M06.01"))
def forward_equals_reverse(key, *, graphs: Size = 100, leaves: Size = 4, operations: Size = 40):
    r"""Dual numbers and messages give the same directional derivative.

    With $v$ any direction, the tangent that dual numbers $z+v\varepsilon$ carry to the output is
    $\langle\nabla f(z),v\rangle$.
    """
    instances = _instances(key, graphs, leaves, operations)
    directions = np.asarray(jax.random.normal(jax.random.fold_in(key, 2), (graphs, leaves)))
    elsewhere = np.asarray(jax.random.uniform(jax.random.fold_in(key, 3), (graphs, leaves), minval=-1.0))
    tangents, products, other = [], [], []
    for (graph, z), v, away in zip(instances, directions, elsewhere, strict=True):
        gradient = np.array(backprop(graph, evaluate(graph, z)).at(graph.leaves))
        function = lambda x, graph=graph: evaluate(graph, x)[graph.output]  # noqa: E731
        scale = np.abs(gradient).max()
        tangents.append(forward_derivative(function, z, v)[1] / scale)
        other.append(forward_derivative(function, away, v)[1] / scale)
        products.append(gradient @ v / scale)
    yield equal("directional derivative, over the largest partial", tangents, products, rtol=0, atol=10 * ROUNDING)
    yield control(
        "the tangent is carried from another point than the messages",
        equal("directional derivative", other, products, rtol=0, atol=10 * ROUNDING),
    )
