r"""Reverse mode on a graph: every node adds up its messages and passes them on, once, from the output downwards.

The sum $S$ that has arrived at a node when its turn comes is $\partial f/\partial u$. Work is one message for each
edge. Beside it the naive algorithm that derives every node by every earlier one, and the remark that the messages are
themselves a program: its graph is a constant times larger, and can be differentiated again.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from corollary._show import shown
from corollary.autodiff.dual import Dual, Tally
from corollary.autodiff.graph import OPERATIONS, Graph, Node, Symbol, evaluate
from corollary.catalog import implements


class Backward(NamedTuple):
    """The derivative of the output by every node, and the work: messages sent and additions made."""

    derivatives: tuple
    messages: int
    additions: int

    def at(self, indices: Sequence[int]) -> list:
        """The derivatives by these nodes, as by `graph.leaves`."""
        return [self.derivatives[i] for i in indices]


@implements("T04.06", "T04.08", "M06.01")
def backprop(graph: Graph, values: Sequence[Any], order: Sequence[int] | None = None) -> Backward:
    """Backpropagation as message passing, from the `values` of all nodes (see `evaluate`).

    `order` is the order in which nodes take their turn; anything but users before the used is wrong, and the default
    is the reverse of the evaluation.
    """
    count = len(graph.nodes)
    if len(values) != count:
        raise ValueError(f"values must hold {count} values, one for each node, got {len(values)}.")
    order = range(count - 1, -1, -1) if order is None else list(order)
    if sorted(order) != list(range(count)):
        raise ValueError(f"order must name each of the {count} nodes once.")
    return _pass_messages(graph, values, order, one=1.0, zero=0.0, add=_add)


def _pass_messages(graph, values, order, one, zero, add) -> Backward:
    inbox = [[] for _ in graph.nodes]
    inbox[graph.output].append(one)
    messages = 0
    for i in order:
        node = graph.nodes[i]
        if not node.inputs or not inbox[i]:
            continue  # nothing is below, or the output does not depend on it
        total = add(inbox[i])
        inbox[i] = [total]
        letters = OPERATIONS[node.op].messages(total, values[i], *(values[j] for j in node.inputs))
        for j, letter in zip(node.inputs, letters, strict=True):
            inbox[j].append(letter)
            messages += 1
    derivatives = tuple(add(letters) if letters else zero for letters in inbox)
    # k messages that meet take k - 1 additions; the output starts with one that nobody sent
    additions = messages + 1 - sum(derivative is not zero for derivative in derivatives)
    return Backward(derivatives, messages, additions)


def _add(letters):
    return functools.reduce(operator.add, letters)


class AllPairs(NamedTuple):
    """`jacobian[i, j]` is the derivative of node i by node j; `products` counts the multiplications made for it."""

    jacobian: jax.Array | np.ndarray
    products: int

    __repr__ = shown


@implements("T04.05")
def all_pairs(graph: Graph, values: Sequence[Any]) -> AllPairs:
    """The naive algorithm: derive every node by every earlier node, forwards.

    A node's derivative by an earlier one is the sum over its inputs of local derivative times the input's derivative:
    one product for each edge and each earlier node, so a count that grows like nodes times edges. The values must be
    scalars.
    """
    count = len(graph.nodes)
    if len(values) != count:
        raise ValueError(f"values must hold {count} values, one for each node, got {len(values)}.")
    if any(np.ndim(value) for value in values):
        raise ValueError("values must be scalars; use vmap for several points.")
    xp = jnp if any(isinstance(value, jax.Array) for value in values) else np
    rows, products = [], 0
    for i, node in enumerate(graph.nodes):
        row = np.zeros(count)
        row[i] = 1.0
        if node.inputs:
            local = OPERATIONS[node.op].messages(1.0, values[i], *(values[j] for j in node.inputs))
            for j, derivative in zip(node.inputs, local, strict=True):
                row = row + derivative * rows[j]
                products += i  # only the i earlier nodes have an entry
        rows.append(row)
    return AllPairs(xp.stack(rows), products)


class GradientGraph(NamedTuple):
    """The nodes of a graph and of its messages as one program; `gradient` are the nodes with the derivatives by the
    leaves."""

    nodes: tuple[Node, ...]
    gradient: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.nodes) + sum(len(node.inputs) for node in self.nodes)

    def paired(self, vector: Float[ArrayLike, "..."]) -> Graph:
        r"""The graph of $g(z)=\langle\nabla f(z),v\rangle$, `vector` being the numbers $v$."""
        vector = list(vector)
        if len(vector) != len(self.gradient):
            raise ValueError(f"vector must hold {len(self.gradient)} numbers, one for each leaf, got {len(vector)}.")
        first = len(self.nodes)
        constants = tuple(Node("constant", (), float(v)) for v in vector)
        weights = tuple(range(first, first + len(vector)))
        return Graph((*self.nodes, *constants, Node("dot", weights + self.gradient)), first + len(vector))


@implements("T04.15")
def gradient_graph(graph: Graph) -> GradientGraph:
    """Backpropagation written down as a program: the same message rules, run on symbols instead of numbers.

    Nodes and edges together are at most 6 times those of the graph, plus 2 (the constants that start the messages):
    a tanh with its one edge, the dearest case, adds 10 to its own 2.
    """
    nodes = list(graph.nodes)
    symbols = [Symbol(nodes, i) for i in range(len(nodes))]
    nodes.extend([Node("constant", (), 1.0), Node("constant", (), 0.0)])
    one, zero = Symbol(nodes, len(nodes) - 2), Symbol(nodes, len(nodes) - 1)

    def add(letters):
        if len(letters) == 1:
            return letters[0]
        nodes.append(Node("sum", tuple(letter.index for letter in letters)))
        return Symbol(nodes, len(nodes) - 1)

    back = _pass_messages(graph, symbols, range(len(symbols) - 1, -1, -1), one, zero, add)
    return GradientGraph(tuple(nodes), tuple(symbol.index for symbol in back.at(graph.leaves)))


@implements("T04.16")
def graph_hessian_vector(
    graph: Graph, leaves: Float[ArrayLike, "..."], vector: Float[ArrayLike, "..."]
) -> tuple[list, Tally]:
    r"""$\nabla^2f(z)\,v$ forward over reverse: backpropagation, run on dual numbers with the tangent $v$.

    Returns the product and the tally of operations, which is linear in the size of the graph.
    """
    leaves, vector = list(leaves), list(vector)
    if len(vector) != len(leaves):
        raise ValueError(f"vector must hold {len(leaves)} numbers like leaves, got {len(vector)}.")
    tally = Tally()
    duals = [Dual(z, v, tally) for z, v in zip(leaves, vector, strict=True)]
    gradient = backprop(graph, evaluate(graph, duals)).at(graph.leaves)
    return [each.tangent if isinstance(each, Dual) else 0.0 for each in gradient], tally
