"""Operators that are defined by others: the functions of a model, and the bodies that ONNX's definitions have."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from corollary.onnx._model import _versions, attribute, read_node, schema_of
from corollary.onnx._table import Graph, Node, OnnxError


class Body(NamedTuple):
    """A function: its nodes, the names of its arguments and results, and defaults of its attributes."""

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict


def local(function) -> Body:
    """The body of a FunctionProto."""
    versions = _versions(function.opset_import)
    return Body(
        tuple(read_node(node, versions) for node in function.node),
        tuple(function.input),
        tuple(function.output),
        {a.name: attribute(a, versions) for a in function.attribute_proto},
    )


def of_schema(node: Node, inputs) -> Body:
    """The body by which ONNX defines an operator, for inputs of these types."""
    function = _proto(node, inputs)
    if function is None:
        raise OnnxError(f"the ONNX operator {node.op} is not supported.")
    if any(isinstance(value, Graph) for value in node.attributes.values()):
        raise node.refuse("with graphs as attributes")
    return local(function)


def known_body(node: Node):
    """The nodes of an operator's body; () if they depend on the types of its inputs, None if it has no body."""
    schema = schema_of(node.domain, node.op, node.version)
    if schema is None:
        return None
    function = _fixed(schema, node.version)
    if function is not None:
        return local(function).nodes
    return () if schema.has_context_dependent_function else None


def _fixed(schema, version):
    from onnx import FunctionProto

    versions = [v for v in schema.function_opset_versions if v <= version]
    if not versions:
        return None
    function = FunctionProto()
    function.ParseFromString(schema.get_function_with_opset_version(max(versions)))
    return function


def _proto(node, inputs):
    from onnx import FunctionProto

    schema = schema_of(node.domain, node.op, node.version)
    function = _fixed(schema, node.version) if schema else None
    if function is not None or schema is None or not schema.has_context_dependent_function:
        return function
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.version]
    if not versions:
        return None
    types = [_type(value).SerializeToString() for value in inputs]
    made = schema.get_context_dependent_function_with_opset_version(
        max(versions), _node_proto(node).SerializeToString(), types
    )
    function = FunctionProto()
    function.ParseFromString(made)
    return function


def _node_proto(node):
    from onnx import helper

    plain = {k: v for k, v in node.attributes.items() if isinstance(v, int | float | str | list | np.ndarray)}
    values = {k: helper.make_attribute(k, v) for k, v in plain.items() if not isinstance(v, np.ndarray)}
    proto = helper.make_node(node.op, node.inputs, node.outputs, domain=node.domain)
    proto.attribute.extend(values.values())
    return proto


def _type(value):
    from onnx import TypeProto, helper

    if value is None or isinstance(value, list):
        return TypeProto()
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype)), value.shape)
