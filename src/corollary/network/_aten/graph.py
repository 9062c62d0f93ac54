"""A graph of operators as plain data, and how it is run: a pure function of tensors by name.

All floating-point numbers of a run have one type, that of the parameters: whatever is rounded to fewer bits on the way
in PyTorch is not rounded here. Every result is brought to the type that PyTorch gives it, and must have its shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Ref(NamedTuple):
    """The value that an earlier node has computed."""

    name: str


class Type(NamedTuple):
    """A type of numbers: "float", whichever a run has, or the name of an integer type or bool."""

    name: str


class Tensor(NamedTuple):
    """What is known of a result before it is computed."""

    shape: tuple[int, ...]
    type: Type


class Node(NamedTuple):
    """One call of an operator."""

    name: str
    operator: str
    function: Callable
    arguments: tuple[tuple[str, Any], ...]
    result: Any


class Graph(NamedTuple):
    """Nodes in the order of computation, from inputs to outputs."""

    inputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Any, ...]


def run(graph: Graph, values: dict[str, jax.Array], dtype) -> tuple:
    """The outputs of a graph for the values of its inputs, in floating-point numbers of type `dtype`."""
    values = {name: a.astype(dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a for name, a in values.items()}
    for node in graph.nodes:
        arguments = {name: _resolved(value, values, dtype) for name, value in node.arguments}
        values[node.name] = _declared(node.operator, node.function(**arguments), node.result, dtype)
    return tuple(_resolved(value, values, dtype) for value in graph.outputs)


def pruned(graph: Graph) -> Graph:
    """The graph without what no output needs."""
    needed = set(_names(graph.outputs))
    nodes = []
    for node in reversed(graph.nodes):
        if node.name in needed:
            nodes.append(node)
            needed.update(name for _, value in node.arguments for name in _names(value))
    return Graph(tuple(name for name in graph.inputs if name in needed), tuple(reversed(nodes)), graph.outputs)


def _names(value):
    if isinstance(value, Ref):
        yield value.name
    elif isinstance(value, tuple) and not isinstance(value, Graph | Type):
        for item in value:
            yield from _names(item)


def _resolved(value, values, dtype):
    if isinstance(value, Ref):
        return values[value.name]
    if isinstance(value, Type):
        return _dtype(value, dtype)
    if isinstance(value, Graph):
        return lambda *given: run(value, dict(zip(value.inputs, given, strict=True)), dtype)
    if isinstance(value, tuple):
        return tuple(_resolved(item, values, dtype) for item in value)
    return value


def _dtype(kind: Type, dtype):
    return jnp.dtype(dtype) if kind.name == "float" else jax.dtypes.canonicalize_dtype(kind.name)


def _declared(operator, value, result, dtype):
    """`value` as it is declared: its type made so, its shape checked."""
    if isinstance(result, Tensor):
        value = jnp.asarray(value)
        if value.shape != result.shape:
            raise ValueError(f"the operator {operator} gives the shape {result.shape} in PyTorch, {value.shape} here.")
        return value.astype(_dtype(result.type, dtype))
    if isinstance(result, tuple):
        return tuple(_declared(operator, v, r, dtype) for v, r in zip(value, result, strict=True))
    return value
