"""The interpreter: a graph as a pure function of its tensors and inputs, evaluated node by node while it is traced."""

from __future__ import annotations

from collections import ChainMap, Counter
from dataclasses import replace
from typing import NamedTuple

from corollary._text import first_line
from corollary.onnx import _functions, _operators, _parts, _sizes  # noqa: F401 - the operators enter themselves into the table
from corollary.onnx._model import Model
from corollary.onnx._table import Graph, Node, OnnxError, Reference, find


class Context(NamedTuple):
    """What holds everywhere in a graph: the model's functions, the attributes of the one that is running, handlers."""

    functions: dict
    attributes: dict
    instead: dict


def function_of(
    model: Model, outputs: tuple[str, ...] | None = None, instead: dict | None = None, traceable: bool = False
):
    """`graph(tensors, inputs)`, the list of the outputs: any values of the graph by name, its own by default.

    `tensors` replaces initialisers of the same name, for instance by arrays that are differentiated; `instead` has
    handlers of operators of ONNX by name that replace those of the table. A large graph is run in parts where it is
    traced, or is known to be `traceable`: operators may look at numbers that are known.
    """
    graph = model.graph
    outputs = graph.outputs if outputs is None else outputs
    nodes = needed(graph.nodes, outputs)
    refuse_missing(nodes, model.functions)
    context = Context(model.functions, {}, instead or {})
    parts, programs = _parts.parts_of(nodes, outputs), {}

    def run(tensors, inputs):
        values = ChainMap({}, inputs, tensors, graph.tensors)
        if not (parts and (traceable or _parts.traced(inputs)) and _parts.run_parts(parts, values, inner, programs)):
            evaluate(nodes, values, context)
        return [_value(values, name, graph) for name in outputs]

    def inner(nodes, values):
        evaluate(nodes, values, context)

    return run


def _value(values, name, graph):
    if name not in values:
        raise OnnxError(f"the ONNX graph has no value of the name {name!r}.")
    return values[name]


def evaluate(nodes, values, context) -> None:
    """Run the nodes in order, each on the values of its inputs, and enter its outputs."""
    for node in nodes:
        try:
            inputs = [values[name] if name else None for name in node.inputs]
        except KeyError as missing:
            raise OnnxError(
                f"the ONNX graph uses {missing} before it is computed, or without an input for it."
            ) from None
        for name, value in zip(node.outputs, call(node, inputs, values, context), strict=False):
            if name:
                values[name] = value


def call(node: Node, inputs, values, context) -> tuple:
    """The outputs of one node."""
    attributes = resolved(node.attributes, context.attributes)

    def subgraph(graph: Graph, *arguments):
        """The outputs of a graph inside an attribute, which sees the names around it."""
        inner = values.new_child({**graph.tensors, **dict(zip(graph.inputs, arguments, strict=True))})
        evaluate(graph.nodes, inner, context)
        return [_value(inner, name, graph) for name in graph.outputs]

    node = replace(node, attributes=attributes, subgraph=subgraph)
    function = context.functions.get((node.domain, node.op, ""))
    handler = None if function else find(node.domain, node.op, node.version)
    handler = handler if node.domain or node.op not in context.instead else context.instead[node.op]
    try:
        if handler is not None:
            _sizes.require_room(node, handler, inputs)
            result = handler(node, *inputs)
            outputs = result if isinstance(result, tuple) else (result,)
            _sizes.held(node, inputs, outputs)
            return outputs
        body = _functions.local(function) if function else _functions.of_schema(node, inputs)
        attributes = {**body.attributes, **node.attributes}
        inner = ChainMap(dict(zip(body.inputs, [*inputs, *[None] * len(body.inputs)], strict=False)))
        evaluate(body.nodes, inner, context._replace(attributes=attributes))
        return tuple(inner.get(name) for name in body.outputs)  # a body may leave out what is not asked for
    except OnnxError:
        raise
    except Exception as error:  # of JAX or NumPy, on shapes and types that do not fit
        raise OnnxError(f"the ONNX operator {node.op} does not run here: {first_line(error)}.") from error


def evaluated(node: Node, inputs) -> tuple:
    """The outputs of one node by itself."""
    return call(node, inputs, ChainMap(), Context({}, {}, {}))


def resolved(attributes: dict, of_function: dict) -> dict:
    """The attributes with those taken from the function around them put in; left out where that was not given."""
    if not any(isinstance(value, Reference) for value in attributes.values()):
        return attributes
    pairs = {k: of_function.get(v.name) if isinstance(v, Reference) else v for k, v in attributes.items()}
    return {name: value for name, value in pairs.items() if value is not None}


def names_inside(node: Node) -> set[str]:
    """The names that a node may read: its inputs, and whatever the graphs among its attributes read."""
    graphs = [value for value in node.attributes.values() if isinstance(value, Graph)]
    inside = {name for graph in graphs for each in graph.nodes for name in names_inside(each)}
    return {*node.inputs, *inside, *(name for graph in graphs for name in graph.outputs)}


def needed(nodes, outputs) -> tuple[Node, ...]:
    """The nodes that the outputs depend on."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted & set(node.outputs) - {""}:
            kept.append(node)
            wanted |= names_inside(node)
    return tuple(reversed(kept))


def refuse_missing(nodes, functions) -> None:
    """One sentence that names all operators that cannot be run, with the number of their uses."""
    try:
        missing = Counter(missing_of(nodes, functions))
    except RecursionError:
        raise OnnxError("the functions of the ONNX graph call themselves, or are nested too deeply.") from None
    if missing:
        names = ", ".join(f"{name} ({n} times)" if n > 1 else name for name, n in sorted(missing.items()))
        raise OnnxError(f"the ONNX graph has operators that are not supported: {names}.")


def every(nodes, functions):
    """The nodes, those of graphs inside them, and in place of a model's own functions the nodes of these."""
    for node in nodes:
        for value in node.attributes.values():
            if isinstance(value, Graph):
                yield from every(value.nodes, functions)
        local = functions.get((node.domain, node.op, ""))
        if local is None:
            yield node
        else:
            yield from every(_functions.local(local).nodes, functions)


def missing_of(nodes, functions):
    for node in every(nodes, functions):
        if find(node.domain, node.op, node.version) is None:
            body = _functions.known_body(node)
            if body is None:
                yield node.op if not node.domain else f"{node.domain}.{node.op}"
            elif body:
                yield from missing_of(body, functions)
