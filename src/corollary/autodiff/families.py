"""Graphs to try algorithms on: fully connected networks, and random ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from corollary._validate import whole
from corollary.autodiff.graph import Graph, Node


def mlp_graph(widths: Sequence[int]) -> Graph:
    """A fully connected tanh network as a graph, with the sum of the last layer as output.

    The leaves are the inputs, then the weights, layer by layer and neuron by neuron.
    """
    widths = [whole("widths", width) for width in widths]
    if len(widths) < 2:
        raise ValueError(
            f"widths must hold the number of inputs and the width of at least one layer, got {len(widths)} number(s)."
        )
    weights = sum(m * n for m, n in pairwise(widths))
    nodes = [Node("leaf")] * (widths[0] + weights)
    below, free = tuple(range(widths[0])), iter(range(widths[0], len(nodes)))
    for width in widths[1:]:
        layer = []
        for _ in range(width):
            nodes.append(Node("dot", tuple(next(free) for _ in below) + below))
            nodes.append(Node("tanh", (len(nodes) - 1,)))
            layer.append(len(nodes) - 1)
        below = tuple(layer)
    nodes.append(Node("sum", below))
    return Graph(tuple(nodes), len(nodes) - 1)


def random_graph(leaves: int, operations: int, fan_out: int = 5, *, key: PRNGKeyArray) -> Graph:
    """A random graph of sums, products, weighted sums, tanh and exp, in which no node feeds more than `fan_out`.

    Every node leads to the output, a sum of all loose ends. For leaves in [-1, 1] no operation but that last sum
    exceeds 8: where one might, it becomes a tanh.
    """
    n, m = whole("leaves", leaves), whole("operations", operations)
    fan_out = whole("fan_out", fan_out, 4)
    # the graph is built outside JAX, which would compile anew for every number of operations
    draws = np.random.default_rng(np.asarray(jax.random.bits(key, (8,), "uint32"))).random((m, 5))
    arity = {"sum": 2, "mul": 2, "dot": 4, "tanh": 1, "exp": 1}
    bounds_of = {
        "sum": lambda a, b: a + b,
        "mul": lambda a, b: a * b,
        "dot": lambda a, b, c, d: a * c + b * d,
        "exp": np.exp,
    }
    nodes, used, bound = [Node("leaf")] * n, [0] * n, [1.0] * n
    for u in draws:
        # one operation may use a node four times; one that is used up gives way to the next younger, and the
        # youngest is free
        picks = [next(j for j in range(int(v * len(nodes)), len(nodes)) if used[j] < fan_out - 3) for v in u[1:]]
        op = list(arity)[int(u[0] * len(arity))]
        most = bounds_of[op](*[bound[j] for j in picks[: arity[op]]]) if op != "tanh" else 1.0
        if most > 8:
            op, most = "tanh", 1.0
        inputs = tuple(picks[: arity[op]])
        for j in inputs:
            used[j] += 1
        nodes.append(Node(op, inputs))
        used.append(0)
        bound.append(most)
    nodes.append(Node("sum", tuple(j for j, count in enumerate(used) if count == 0)))
    return Graph(tuple(nodes), len(nodes) - 1)
