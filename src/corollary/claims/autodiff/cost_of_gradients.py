"""What a gradient costs: counted on graphs, and in the matrix products of networks."""

from itertools import accumulate, pairwise

import jax
import jax.numpy as jnp
import numpy as np

from corollary.autodiff import (
    Graph,
    Node,
    Tally,
    all_pairs,
    backprop,
    block_backprop,
    dense_block,
    evaluate,
    forward_gradient,
    gradient_graph,
    graph_hessian_vector,
    mlp_graph,
    multiplications,
    random_graph,
)
from corollary.claims.autodiff._pictures import curves
from corollary.evidence import Size, at_most, claim, control, equal, rate


def _point(key, graph):
    bits = np.asarray(jax.random.bits(key, (8,), "uint32"))
    return np.random.default_rng(bits).uniform(-1.0, 1.0, len(graph.leaves))  # of any length without compiling


@claim(rows=("T04.05", "T04.07"), full={"deepest": 200})
def linear_against_quadratic(key, *, width: Size = 3, deepest: Size = 64):
    r"""Backpropagation costs one message an edge; deriving every node by every earlier one costs nodes times edges.

    For a graph with $V$ nodes and $E$ edges, backpropagation sends exactly $E$ messages and makes fewer additions than
    that. The naive algorithm makes at most $VE$ products, and on networks of fixed width, where $V$ and $E$ grow with
    the depth, their number grows like $V^2$.
    """
    depths = np.unique(np.round(np.geomspace(4, max(deepest, 8), 8)).astype(int))
    graphs = [mlp_graph([width] * (depth + 1)) for depth in depths]
    values = [evaluate(graph, _point(key, graph)) for graph in graphs]
    backs = [backprop(graph, v) for graph, v in zip(graphs, values, strict=True)]
    naive = [all_pairs(graph, v).products for graph, v in zip(graphs, values, strict=True)]
    nodes, edges = np.array([len(g.nodes) for g in graphs]), np.array([g.edges for g in graphs])
    counts = {"naive: products": naive, "backpropagation: messages": [b.messages for b in backs]}
    yield curves("work against the size of the graph", nodes, counts, titles=("nodes", "operations"), log="xy")
    yield equal("messages sent", [b.messages for b in backs], edges, rtol=0, atol=0, x=nodes, along="nodes")
    yield at_most("additions", [b.additions for b in backs], edges, x=nodes, along="nodes")
    yield at_most("products of the naive algorithm", naive, nodes * edges, x=nodes, along="nodes")
    # V and E are affine in the depth, which bends the log-log line a little
    yield rate("messages of backpropagation", nodes, [b.messages for b in backs], 1.0, tolerance=0.1, along="nodes")
    yield rate("products of the naive algorithm", nodes, naive, 2.0, tolerance=0.1, along="nodes")
    dense = [_complete(int(n)) for n in 2 ** np.arange(2, 7)]
    complete = [all_pairs(graph, evaluate(graph, _point(key, graph))).products for graph in dense]
    yield control(
        "every node is fed by all earlier ones: the edges grow like the square of the nodes",
        rate("products of the naive algorithm", [len(g.nodes) for g in dense], complete, 2.0, tolerance=0.1),
    )


def _complete(count: int) -> Graph:
    """Each node the tanh of the sum of all earlier ones."""
    nodes = [Node("leaf")]
    for _ in range(count):
        nodes += [Node("sum", tuple(range(len(nodes)))), Node("tanh", (len(nodes),))]
    return Graph(tuple(nodes), len(nodes) - 1)


@claim(rows=("T04.15",), full={"largest": 10_000})
def gradient_is_a_program(key, *, largest: Size = 2000):
    r"""The gradient of a program is a program of at most six times the size.

    From an acyclic graph with $V$ nodes and $E$ edges one gets a graph that computes $f$ and all the derivatives
    $\partial f/\partial z_i$ by its leaves, with $V'+E'\le6(V+E)+2$ for the operations sum, product, weighted sum,
    tanh, exp, negation and $1-a$ (each of whose derivatives takes a bounded number of these operations). Towers of tanh
    come closest.
    """
    sizes = np.unique(np.round(np.geomspace(10, max(largest, 100), 9)).astype(int))
    graphs = [random_graph(4, int(n), key=jax.random.fold_in(key, n)) for n in sizes]
    bigger = [gradient_graph(graph) for graph in graphs]
    ratios = [(big.size - 2) / graph.size for big, graph in zip(bigger, graphs, strict=True)]
    yield at_most("size of the gradient over size of the function", ratios, 6.0, x=sizes, along="operations")
    errors = []
    for graph, big in zip(graphs[:5], bigger[:5], strict=True):
        z = _point(key, graph)
        values = evaluate(Graph(big.nodes, big.gradient[0]), z)
        gradient = np.array(backprop(graph, evaluate(graph, z)).at(graph.leaves))
        errors.append(np.abs(np.array([values[i] for i in big.gradient]) - gradient).max() / np.abs(gradient).max())
    yield equal("distance to backpropagation, over the largest partial", errors, 0.0, atol=1e-13)
    towers = [_tower(int(n)) for n in sizes]
    heights = [gradient_graph(tower).size / tower.size for tower in towers]
    yield at_most("the same for towers of tanh", heights, 6.0, x=sizes, along="operations")
    squares = [all_pairs(graph, evaluate(graph, _point(key, graph))).products / graph.size for graph in graphs[:6]]
    yield control(
        "all nodes are derived by all others, not one output by the leaves",
        at_most("products over size of the function", squares, 6.0, x=sizes[:6], along="operations"),
    )


def _tower(height: int) -> Graph:
    """tanh of tanh of ... of one leaf."""
    nodes = (Node("leaf"), *(Node("tanh", (i,)) for i in range(height)))
    return Graph(nodes, height)


@claim(rows=("T04.16", "T04.08", "M24.04"), full={"deepest": 128})
def cheap_gradients(key, *, width: Size = 4, deepest: Size = 32):
    r"""Gradient and Hessian-vector product cost a constant times the function; forward gradients one pass a variable.

    Counted in arithmetic operations of dual numbers on tanh networks of growing depth, all weights being variables. One
    directional derivative costs at most 3 operations on tangents for each operation on values. The Hessian-vector
    product (backpropagation run on dual numbers) is linear in the size of the graph. A gradient by forward mode repeats
    the function for each of the $n$ variables, and grows like $n$ times the size: as its square.
    """
    depths = np.unique(np.round(np.geomspace(2, max(deepest, 8), 6)).astype(int))
    graphs = [mlp_graph([width] * (depth + 1)) for depth in depths]
    points = [_point(key, graph) for graph in graphs]
    sizes = np.array([graph.size for graph in graphs])
    products = [graph_hessian_vector(g, z, np.ones(len(z)))[1] for g, z in zip(graphs, points, strict=True)]
    total = np.array([_total(tally) for tally in products])
    # backprop on the dual numbers: at most 2 operations on values for an edge (its message, an addition), 3 for tanh
    yield rate("operations of the Hessian-vector product", sizes, total, 1.0, tolerance=0.05, along="nodes and edges")
    tangents = [tally.tangents / tally.values for tally in products]
    yield at_most("operations on tangents for each on values", tangents, 3.0, x=sizes, along="nodes and edges")
    small = slice(None, 4)
    forward = [
        forward_gradient(lambda x, g=g: evaluate(g, x)[g.output], z)[1]
        for g, z in zip(graphs[small], points[small], strict=True)
    ]
    counts = [_total(tally) for tally in forward]
    yield rate("operations of a forward gradient", sizes[small], counts, 2.0, tolerance=0.1, along="nodes and edges")
    # every column of the Hessian is one such product, of the same cost
    whole = [len(z) * _total(tally) for z, tally in zip(points[small], products[small], strict=True)]
    yield control(
        "all columns of the Hessian, not one product with it",
        rate("operations", sizes[small], whole, 1.0, tolerance=0.05, along="nodes and edges"),
    )


def _total(tally: Tally) -> int:
    return tally.values + tally.tangents


@claim(rows=("E03.02", "E03.01"), full={"deepest": 128})
def dynamic_programming(key, *, deepest: Size = 24):
    r"""Backpropagation through L layers costs twice the forward pass, less the step into the input; it is linear in L.

    For dense layers of widths $m_0,\dots,m_L$, in multiplications of matrix products: forward
    $\sum_\ell m_\ell m_{\ell-1}$; the backward pass as much for the parameters and as much again for the $\delta^\ell$,
    except that $\delta^0$ is not needed: $2\sum_\ell m_\ell m_{\ell-1}-m_1m_0$. So the whole gradient costs at most 3
    forward passes. Computing each $\delta^\ell$ anew from the output costs $\frac12L(L-1)m^2$ for layers of equal width
    $m$. Counted in the programs that JAX records, for its own gradient and for the recursion written out.
    """
    widths = np.asarray(jax.random.randint(key, (deepest + 1,), 2, 7))
    depths = np.unique(np.round(np.geomspace(3, max(deepest, 8), 5)).astype(int))
    shapes = [jax.ShapeDtypeStruct((int(n), int(m)), float) for m, n in pairwise(widths)]
    products = np.array([shape.shape[0] * shape.shape[1] for shape in shapes])
    x = jax.ShapeDtypeStruct((int(widths[0]),), float)
    block = dense_block("tanh")

    def loss(weights, x):
        for w in weights:
            x, _ = block.forward((w, 0.0), x)
        return x.sum()

    def recursion(weights, x):
        return block_backprop([block] * len(weights), [(w, 0.0) for w in weights], x, jnp.ones_like).params

    def anew(weights, x):
        """Every sensitivity by its own way down from the output, for linear layers."""
        deltas = []
        for i in range(len(weights)):
            delta = jnp.ones(weights[-1].shape[0])
            for w in weights[:i:-1]:
                delta = w.T @ delta
            deltas.append(delta)
        return deltas

    def count(f):
        return np.array([multiplications(f, shapes[:depth], x) for depth in depths])

    forward = np.array(list(accumulate(products)))[depths - 1]
    yield equal("forward", count(loss), forward, rtol=0, atol=0, x=depths, along="layers")
    gradient = count(jax.grad(loss))
    yield equal("forward and backward", gradient, 3 * forward - products[0], rtol=0, atol=0, x=depths, along="layers")
    # the recursion written out goes on to the input
    yield equal("recursion written out", count(recursion), 3 * forward, rtol=0, atol=0, x=depths, along="layers")
    yield at_most("gradient over function", gradient / forward, 3.0, x=depths, along="layers")
    square, start = jax.ShapeDtypeStruct((4, 4), float), jax.ShapeDtypeStruct((4,), float)
    slow = [multiplications(anew, [square] * int(depth), start) for depth in depths]
    once_each = 16 * depths * (depths - 1) // 2
    yield equal("every sensitivity anew, width 4", slow, once_each, rtol=0, atol=0, x=depths, along="layers")
    yield control(
        "sensitivities are not kept: each is computed anew from the output",
        at_most("sensitivities anew over function", slow / (16.0 * depths), 3.0, x=depths, along="layers"),
    )
