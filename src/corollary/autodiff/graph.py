r"""A program as a directed acyclic graph: every node an operation on earlier nodes, one of them the output.

Each operation states two things and no more: its value, and the messages $S\,\partial u/\partial z_j$ that it sends to
its inputs when the message $S$ arrives at it. Both are written with operators, so they run on numbers of any kind:
floats, complex numbers, JAX arrays (also while tracing), dual numbers, and `Symbol`s, which record what is done to them
as a graph again. Parameters are leaves like the inputs. Written for reading: the loops go over nodes.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Float

from corollary._validate import whole
from corollary.autodiff import elementary
from corollary.catalog import implements


class Operation(NamedTuple):
    """`value(*z)` and `messages(S, u, *z)`, one message for each input."""

    value: Callable
    messages: Callable


def _dot(*z):
    half = len(z) // 2
    return functools.reduce(operator.add, [w * a for w, a in zip(z[:half], z[half:], strict=True)])


OPERATIONS = {
    "sum": Operation(lambda *z: functools.reduce(operator.add, z), lambda s, u, *z: [s] * len(z)),
    "mul": Operation(lambda a, b: a * b, lambda s, u, a, b: [s * b, s * a]),
    # inputs (w_1, ..., w_k, z_1, ..., z_k): the weighted sum of a neuron, its weights being nodes too
    "dot": Operation(_dot, lambda s, u, *z: [s * other for other in z[len(z) // 2 :] + z[: len(z) // 2]]),
    "tanh": Operation(elementary.tanh, lambda s, u, a: [s * (1 - u * u)]),
    "exp": Operation(elementary.exp, lambda s, u, a: [s * u]),
    "neg": Operation(lambda a: -a, lambda s, u, a: [-s]),
    "complement": Operation(lambda a: 1 - a, lambda s, u, a: [-s]),  # 1 - a, which the derivative of tanh needs
}


class Node(NamedTuple):
    """One node: a leaf, a constant (with its number), or an operation on the nodes with the indices `inputs`."""

    op: str
    inputs: tuple[int, ...] = ()
    number: float | None = None


@implements("T04.01")
@dataclass(frozen=True)
class Graph:
    """Nodes in topological order (each uses earlier ones only) and the index of the output."""

    nodes: tuple[Node, ...]
    output: int

    def __post_init__(self):
        for i, node in enumerate(self.nodes):
            if node.op not in (*OPERATIONS, "leaf", "constant"):
                known = ", ".join(["leaf", "constant", *OPERATIONS])
                raise ValueError(f"Node {i} must be one of {known}, got {node.op!r}.")
            if any(not 0 <= j < i for j in node.inputs):
                raise ValueError(f"Node {i} must use earlier nodes only, got the inputs {node.inputs}.")
            if bool(node.inputs) != (node.op in OPERATIONS):
                raise ValueError(f"Node {i} is a {node.op} and cannot have {len(node.inputs)} inputs.")
        whole("output", self.output, 0, len(self.nodes) - 1)

    @property
    def leaves(self) -> tuple[int, ...]:
        return tuple(i for i, node in enumerate(self.nodes) if node.op == "leaf")

    @property
    def edges(self) -> int:
        return sum(len(node.inputs) for node in self.nodes)

    @property
    def size(self) -> int:
        """Nodes and edges together: the unit in which the cost of an algorithm on the graph is linear or not."""
        return len(self.nodes) + self.edges


@implements("T04.01")
def evaluate(graph: Graph, leaves: Sequence[Any]) -> list:
    """The values of all nodes, in order, from those of the leaves (numbers or arrays of any kind)."""
    return _run(graph, leaves, lambda i, value: value)


@implements("T04.02")
def clamped_derivatives(graph: Graph, leaves: Float[ArrayLike, "..."]) -> np.ndarray:
    r"""$\partial f/\partial u$ of every node by its definition: cut its incoming edges, vary it, watch the output.

    The variation is a complex step: $f(u+ih)$ has imaginary part $h\,\partial f/\partial u$ up to $h^2$, without the
    cancellation of a difference, so $h$ can be tiny. All operations here are analytic. One experiment for each node,
    all experiments side by side in one array.
    """
    h = 1e-30
    count = len(graph.nodes)

    def clamp(i, value):
        value = np.broadcast_to(np.asarray(value, complex), (count,)).copy()
        value[i] = value[i].real + 1j * h
        return value

    return _run(graph, leaves, clamp)[graph.output].imag / h


def _run(graph, leaves, then) -> list:
    leaves = list(leaves)
    if len(leaves) != len(graph.leaves):
        raise ValueError(f"leaves must hold {len(graph.leaves)} values, one for each leaf, got {len(leaves)}.")
    given, values = iter(leaves), []
    for i, node in enumerate(graph.nodes):
        if node.op == "leaf":
            value = next(given)
        elif node.op == "constant":
            value = node.number
        else:
            value = OPERATIONS[node.op].value(*(values[j] for j in node.inputs))
        values.append(then(i, value))
    return values


class Symbol:
    """A node under construction: what is done to it is appended to the list of nodes it belongs to."""

    def __init__(self, nodes: list[Node], index: int):
        self.nodes, self.index = nodes, index

    def __add__(self, other):
        return self._append("sum", self, other)

    def __mul__(self, other):
        return self._append("mul", self, other)

    def __neg__(self):
        return self._append("neg", self)

    def __sub__(self, other):
        return self + (-other)

    def __rsub__(self, other):
        return self._append("complement", self) if not isinstance(other, Symbol) and other == 1 else -self + other

    def tanh(self) -> Symbol:
        return self._append("tanh", self)

    def exp(self) -> Symbol:
        return self._append("exp", self)

    __radd__, __rmul__, __array_ufunc__ = __add__, __mul__, None

    def _append(self, op, *inputs) -> "Symbol":
        indices = []
        for each in inputs:
            if not isinstance(each, Symbol):
                self.nodes.append(Node("constant", (), float(each)))
            indices.append(each.index if isinstance(each, Symbol) else len(self.nodes) - 1)
        self.nodes.append(Node(op, tuple(indices)))
        return Symbol(self.nodes, len(self.nodes) - 1)


def trace(f: Callable, count: int) -> Graph:
    """The graph of `f`, a function of a list of `count` numbers with one number as result."""
    if not callable(f):
        raise TypeError(f"f must be a function of a list of numbers, got {type(f).__name__}.")
    nodes = [Node("leaf") for _ in range(whole("count", count))]
    out = f([Symbol(nodes, i) for i in range(count)])
    if not isinstance(out, Symbol):
        raise TypeError(f"f must return one number made of its arguments, got {type(out).__name__}.")
    return Graph(tuple(nodes), out.index)
