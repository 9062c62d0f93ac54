"""ONNX files read: damage, missing parts and sizes are seen here, and said in one sentence."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corollary._text import first_line
from corollary.onnx._external import read_external
from corollary.onnx._table import Graph, Node, OnnxError, Reference

VERSIONS = (6, 28)  # of ONNX's own operator set
QUANTISED = (
    *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"),
    "DynamicQuantizeLSTM",
)


class Model(NamedTuple):
    """A model that was read: its graph, its functions by name, versions of operator sets, and what is to be said."""

    graph: Graph
    functions: dict[tuple[str, str, str], object]
    versions: dict[str, int]
    notes: tuple[str, ...]


def load(source, room=None):
    """The ModelProto in a file, in bytes, or given as it is; one sentence if it is missing or damaged.

    `room(size)` is asked before tensors in files beside it, of so many bytes, are read.
    """
    try:
        import onnx
    except ImportError:
        raise OnnxError("ONNX files need the packages onnx and onnxruntime: pip install 'corollary[onnx]'.") from None
    if isinstance(source, onnx.ModelProto):
        return source
    if isinstance(source, bytes | bytearray):
        return _parsed("what was given", lambda: onnx.load_model_from_string(bytes(source)), onnx)
    path = Path(source)
    if not os.path.isfile(path):
        raise OnnxError(f"{path} is not a file.")
    model = _parsed(str(path), lambda: onnx.load(path, load_external_data=False), onnx)
    read_external(model, path, room)
    return model


def _parsed(what, read, onnx):
    try:
        model = read()
    except Exception as error:  # protobuf has several
        raise OnnxError(f"{what} is not a readable ONNX file ({first_line(error)}).") from None
    if not model.graph.node and not model.graph.output:
        raise OnnxError(f"{what} is not a readable ONNX file (it has no operator and no output).")
    return model


def read(source) -> Model:
    """The model of a file, bytes or ModelProto, in our own structures."""
    proto = load(source)
    versions = _versions(proto.opset_import)
    version = versions.setdefault("", VERSIONS[1])
    if not VERSIONS[0] <= version <= VERSIONS[1]:
        raise OnnxError(
            f"the ONNX graph is of version {version} of the operator set, which must be {VERSIONS[0]} to "
            f"{VERSIONS[1]}: onnx.version_converter brings it there."
        )
    try:
        graph = read_graph(proto.graph, versions)
    except OnnxError:
        raise
    except Exception as error:  # of onnx, on tensors that are damaged
        raise OnnxError(f"the model is not a readable ONNX file ({first_line(error)}).") from None
    functions = {(_domain(f.domain), f.name, f.overload): f for f in proto.functions}
    return Model(graph, functions, versions, tuple(_notes(proto)))


def _notes(proto):
    halves = {t.data_type for t in proto.graph.initializer} | {
        i.type.tensor_type.elem_type for i in (*proto.graph.input, *proto.graph.output)
    }
    if halves & {10, 16}:
        yield "float16 and bfloat16 are computed as float32."
    if any(n.op_type in QUANTISED or n.op_type.startswith("QLinear") for n in proto.graph.node):
        yield "the graph is quantised: it is computed in floating point, and gradients pass through the roundings."


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _versions(imports) -> dict[str, int]:
    """The version of each operator set; ONNX's own, which has two names, under the empty one."""
    return {_domain(o.domain): o.version for o in imports}


def read_graph(proto, versions) -> Graph:
    """A GraphProto in our own structures; nodes that are not used for its outputs are left out."""
    from onnx import numpy_helper

    tensors = {t.name: array(t) for t in proto.initializer}
    for sparse in proto.sparse_initializer:
        tensors[sparse.values.name] = dense(sparse, numpy_helper)
    nodes = tuple(read_node(node, versions) for node in proto.node)
    inputs = tuple(i.name for i in proto.input)
    return Graph(proto.name, nodes, inputs, tuple(o.name for o in proto.output), tensors)


def array(tensor) -> np.ndarray:
    """The NumPy array of a TensorProto, if its bytes fill its shape; halves in single precision."""
    from onnx import TensorProto, numpy_helper

    if tensor.data_location == TensorProto.EXTERNAL and not tensor.raw_data:
        raise OnnxError(
            f"the tensor {tensor.name!r} lies in a file of its own: give the path of the model, not its bytes."
        )
    values = numpy_helper.to_array(tensor).reshape(tuple(tensor.dims))
    return values.astype(np.float32) if tensor.data_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16) else values


def dense(sparse, numpy_helper) -> np.ndarray:
    """The array of a SparseTensorProto, whose indices are flat or one row per value."""
    from corollary.onnx._table import affordable

    values, indices = array(sparse.values), numpy_helper.to_array(sparse.indices)
    full = np.zeros(affordable(sparse.dims, "a sparse tensor"), values.dtype)
    if indices.ndim == 1:
        full.reshape(-1)[indices] = values
    else:
        full[tuple(indices.T)] = values
    return full


def read_node(proto, versions) -> Node:
    """A NodeProto with its attributes as Python values, those left out at ONNX's default."""
    domain = _domain(proto.domain)
    version = versions.get(domain, 1)
    attributes = defaults(domain, proto.op_type, version) | {a.name: attribute(a, versions) for a in proto.attribute}
    return Node(proto.op_type, domain, version, proto.name, tuple(proto.input), tuple(proto.output), attributes)


def schema_of(domain: str, op: str, version: int):
    """ONNX's definition of an operator in a version; None if it is not one of ONNX's."""
    from onnx import defs

    try:
        return defs.get_schema(op, version, domain)
    except defs.SchemaError:
        return None


@cache
def defaults(domain: str, op: str, version: int) -> dict:
    """The attributes that are left out, as ONNX's definition has them; the dictionary is not to be changed."""
    schema = schema_of(domain, op, version)
    given = schema.attributes.items() if schema else ()
    return {name: attribute(a.default_value, {}) for name, a in given if a.default_value.type}


def attribute(proto, versions):
    """The value of an attribute: numbers, text, arrays, graphs, or the name of a function's attribute."""
    from onnx import AttributeProto, helper

    if proto.ref_attr_name:
        return Reference(proto.ref_attr_name)
    if proto.type == AttributeProto.TENSOR:
        return array(proto.t)
    if proto.type == AttributeProto.SPARSE_TENSOR:
        from onnx import numpy_helper

        return dense(proto.sparse_tensor, numpy_helper)
    if proto.type == AttributeProto.GRAPH:
        return read_graph(proto.g, versions)
    value = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if proto.type == AttributeProto.STRINGS:
        return [v.decode(errors="replace") for v in value]
    return list(value) if proto.type in (AttributeProto.INTS, AttributeProto.FLOATS) else value
