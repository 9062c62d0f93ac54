"""ONNX operators that jaxonnxruntime lacks, or runs for some arguments only, written by those that it runs.

Each function takes a node and gives the nodes that compute the same. `tensor` stores a new constant in the graph and
returns its name; `dims` knows the shapes of the stored tensors, `version` is that of the operator set.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Context(NamedTuple):
    tensor: Callable
    dims: dict
    version: int
    float_type: type


def rewrite(model):
    """Replace the operators of `RULES` in the graph of `model`, until none is left."""
    from onnx import numpy_helper

    kinds = [numpy_helper.to_array(t).dtype for t in model.graph.initializer if t.data_type in (1, 10, 11)]

    def tensor(value, dtype):
        name = f"rewritten_{len(model.graph.initializer)}"
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    dims = {t.name: tuple(t.dims) for t in model.graph.initializer}
    context = Context(tensor, dims, version, kinds[0].type if kinds else np.float32)
    while any(node.op_type in RULES for node in model.graph.node):
        nodes = [new for node in model.graph.node for new in RULES.get(node.op_type, _same)(node, context)]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
    return model


def _same(node, context):
    return [node]


def _chain(node, steps):
    """Nodes from `(operator, inputs)`: `None` among the inputs is the result of the step before."""
    from onnx import helper

    made, before = [], None
    for i, (op, inputs) in enumerate(steps):
        out = node.output[0] if i == len(steps) - 1 else f"{node.output[0]}_step_{i}"
        made.append(helper.make_node(op, [before if name is None else name for name in inputs], [out]))
        before = out
    return made


def _attribute(node, name, default):
    from onnx import helper

    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def _sum(node, context):
    """Two by two: the sum of jaxonnxruntime wants equal shapes."""
    first, *rest = node.input
    return _chain(node, [("Add", [first if i == 0 else None, term]) for i, term in enumerate(rest)]) or _chain(
        node, [("Identity", [first])]
    )


def _clip(node, context):
    """The smaller of `high` and the larger of `x` and `low`, each where it is given."""
    x, *bounds = node.input
    low, high = (bounds[i] if len(bounds) > i else "" for i in range(2))
    if context.version < 11:
        low, high = (
            "" if value is None else context.tensor(value, context.float_type)
            for value in (_attribute(node, "min", None), _attribute(node, "max", None))
        )
    steps = [(op, bound) for op, bound in (("Max", low), ("Min", high)) if bound]
    if not steps:
        return _chain(node, [("Identity", [x])])
    return _chain(node, [(op, [x if i == 0 else None, bound]) for i, (op, bound) in enumerate(steps)])


def _hard_sigmoid(node, context):
    slope, shift = _attribute(node, "alpha", 0.2), _attribute(node, "beta", 0.5)
    slope, shift, zero, one = (context.tensor(v, context.float_type) for v in (slope, shift, 0.0, 1.0))
    return _chain(
        node, [("Mul", [node.input[0], slope]), ("Add", [None, shift]), ("Max", [None, zero]), ("Min", [None, one])]
    )


def _turned(op):
    return lambda node, context: _chain(node, [(op, [node.input[1], node.input[0]])])


def _layer_normalization(node, context):
    """Over as many of the last axes as the scale has."""
    from onnx import helper

    x, scale, *bias = node.input
    name, axes = node.output[0], list(range(-len(context.dims[scale]), 0))
    epsilon = context.tensor(_attribute(node, "epsilon", 1e-5), context.float_type)
    if context.version >= 18:
        given = [context.tensor(axes, np.int64)]
        mean, variance = (helper.make_node("ReduceMean", [a, *given], [b], keepdims=1) for a, b in _means(x, name))
    else:
        mean, variance = (helper.make_node("ReduceMean", [a], [b], keepdims=1, axes=axes) for a, b in _means(x, name))
    centred, deviation = f"{name}_centred", f"{name}_deviation"
    return [
        mean,
        helper.make_node("Sub", [x, f"{name}_mean"], [centred]),
        helper.make_node("Mul", [centred, centred], [f"{name}_square"]),
        variance,
        helper.make_node("Add", [f"{name}_variance", epsilon], [f"{name}_shifted"]),
        helper.make_node("Sqrt", [f"{name}_shifted"], [deviation]),
        helper.make_node("Div", [centred, deviation], [f"{name}_normal"]),
        *_chain(node, [("Mul", [f"{name}_normal", scale]), *(("Add", [None, b]) for b in bias if b)]),
    ]


def _means(x, name):
    return ((x, f"{name}_mean"), (f"{name}_square", f"{name}_variance"))


RULES = {
    "Sum": _sum,
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    "Greater": _turned("Less"),
    "GreaterOrEqual": _turned("LessOrEqual"),
    "LayerNormalization": _layer_normalization,
}
