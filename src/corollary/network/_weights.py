"""The parameters of an ONNX graph told from its constants, by what the graph does with them."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import replace

import numpy as np

from corollary.onnx._graph import evaluated
from corollary.onnx._table import Graph, Node, OnnxError

# the inputs of an operator that weights enter by; what is elementwise counts only for arrays, not for single numbers
WEIGHTS = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "DeformConv": (1, 3),
    "Gemm": (0, 1, 2),
    "MatMul": (0, 1),
    "Einsum": (0, 1, 2),
    "BatchNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LayerNormalization": (1, 2),
    "GroupNormalization": (1, 2),
    "RMSNormalization": (1,),
    "PRelu": (1,),
    "Gather": (0,),
    "LSTM": (1, 2, 3, 5, 6, 7),
    "GRU": (1, 2, 3, 5),
    "RNN": (1, 2, 3, 5),
    "LinearClassifier": (1, 2),
    "LinearRegressor": (1, 2),
}
ELEMENTWISE = ("Add", "Mul")
PRODUCTS = ("MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum")
# what only rearranges a tensor: a weight that passes through is still a weight
THROUGH = (
    *("Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Cast", "CastLike", "Expand", "Slice"),
    *("Concat", "Split", "DequantizeLinear"),
)
STATISTICS = {"BatchNormalization": (3, 4)}
SMALL = 64  # constants of at most so many numbers stay in the graph, where shapes may be computed from them


def stored(graph: Graph, taken: frozenset = frozenset()) -> Graph:
    """The graph with all that it holds among its own tensors: constants, those of graphs in nodes, quantised ones."""
    nodes, tensors = [], dict(graph.tensors)
    for node in graph.nodes:
        if node.op == "Constant" and _is_array(node["value"]):
            tensors[node.outputs[0]] = node["value"]
        elif node.op == "DequantizeLinear" and all(name in tensors for name in node.inputs if name):
            (tensors[node.outputs[0]],) = evaluated(node, [tensors.get(name) for name in node.inputs])
        elif node.op in ("LinearClassifier", "LinearRegressor"):
            node, held = _linear(node)
            tensors |= held
            nodes.append(node)
        elif any(isinstance(value, Graph) for value in node.attributes.values()):
            node, held = _lifted(node, taken | tensors.keys())
            tensors |= held
            nodes.append(node)
        else:
            nodes.append(node)
    return graph._replace(nodes=tuple(nodes), tensors=tensors)


def _is_array(value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _linear(node: Node) -> tuple[Node, dict]:
    """A linear model with its coefficients as inputs."""
    names = ("coefficients", "intercepts")
    held = {f"{node.outputs[-1]}.{name}": np.asarray(node[name], np.float32) for name in names if node[name]}
    return replace(node, inputs=(*node.inputs, *held)), held


def _lifted(node: Node, taken) -> tuple[Node, dict]:
    """A node with the tensors of the graphs inside it taken out, under new names where theirs are not free."""
    attributes, lifted = dict(node.attributes), {}
    for key, graph in node.attributes.items():
        if not isinstance(graph, Graph):
            continue
        graph = stored(graph, taken)
        names = {name: _free(name, key, taken | lifted.keys()) for name in graph.tensors}
        lifted |= {names[name]: tensor for name, tensor in graph.tensors.items()}
        attributes[key] = _renamed(graph._replace(tensors={}), names)
    return replace(node, attributes=attributes), lifted


def _free(name, key, taken) -> str:
    while name in taken:
        name = f"{key}.{name}"
    return name


def _renamed(graph: Graph, names: dict) -> Graph:
    """The graph with other names for values from outside it."""
    names = {old: new for old, new in names.items() if old != new}
    if not names:
        return graph

    def node(each: Node):
        attributes = {k: _renamed(v, names) if isinstance(v, Graph) else v for k, v in each.attributes.items()}
        return replace(each, inputs=tuple(names.get(n, n) for n in each.inputs), attributes=attributes)

    outputs = tuple(names.get(name, name) for name in graph.outputs)
    return graph._replace(nodes=tuple(map(node, graph.nodes)), outputs=outputs)


def split(graph: Graph, names=None, read=None) -> tuple[dict, dict]:
    """The parameters and the buffers among the tensors that are `read`; what is neither stays in the graph.

    `names` says which are parameters, where that is known.
    """
    tensors = {n: t for n, t in graph.tensors.items() if _is_array(t) and (read is None or n in read)}
    weights, statistics = used(graph.nodes, tensors)
    if names is not None:
        weights = set(names)
        for name in sorted(weights):
            if name not in graph.tensors or not _is_array(graph.tensors[name]):
                raise OnnxError(f"the parameter {name!r} is no floating-point initialiser of the ONNX graph.")
    params = {n: t for n, t in tensors.items() if n in weights}
    large = {n for n, t in tensors.items() if t.size > SMALL} | statistics
    return params, {n: t for n, t in tensors.items() if n in large and n not in weights}


def used(nodes, tensors) -> tuple[set[str], set[str]]:
    """The names of the tensors that reach an input that weights enter by, and of those that are statistics."""
    weights, statistics, products = set(), set(), set()

    def visit(nodes, source):
        for node in nodes:  # in the order of computation, as ONNX requires
            held = [source.get(name, set()) for name in node.inputs]
            if node.op in THROUGH:
                # a tensor that meets computed ones is no longer a stored one, but its parts may still be weights
                for name in node.outputs:
                    source[name] = set().union(*held)
            for i in WEIGHTS.get(node.op, ()):
                weights.update(held[i] if i < len(held) else ())
            for i in STATISTICS.get(node.op, ()):
                statistics.update(held[i] if i < len(held) else ())
            if node.op in PRODUCTS:
                products.update(node.outputs)
            if node.op == "Add" and products & set(node.inputs):  # the bias of one unit is a single number
                weights.update(n for names in held for n in names if tensors[n].ndim)
            if node.op in ELEMENTWISE:
                weights.update(n for names in held for n in names if tensors[n].size > 1)
            for graph in node.attributes.values():
                if isinstance(graph, Graph):
                    visit(graph.nodes, ChainMap({}, source))

    visit(nodes, {name: {name} for name in tensors})
    return weights, statistics - weights
