"""ONNX models as networks: which output is looked at, what of it the loss applies itself, what the inputs look like."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from corollary.onnx import _model
from corollary.onnx._table import OnnxError

PROBABILITIES = ("Softmax", "Sigmoid", "LogSoftmax")
# what may stand between probabilities and an output: a name, a type, a sum of 1, names of columns, a choice
AFTER = ("Identity", "Cast", "Normalizer", "ZipMap", "ArgMax")


class Input(NamedTuple):
    """What a model says of an input: its axes (None where they are free), the names of free ones, and its type."""

    name: str
    shape: tuple[int | None, ...] | None
    symbols: tuple[str, ...]
    dtype: np.dtype


def load(source, room=None):
    """The model in a file, or a copy of one in memory; one sentence if it is missing or damaged.

    `room(size)` is asked before tensors in files beside it, of so many bytes, are read.
    """
    proto = _model.load(source, room)
    if proto is not source:
        return proto
    model = type(proto)()
    model.CopyFrom(proto)
    return model


def inputs_of(model) -> list[Input]:
    """The inputs that have to be given: those that are not stored in the graph."""
    stored = {t.name for t in model.graph.initializer}
    return [_declared(i) for i in model.graph.input if i.name not in stored]


def _declared(value) -> Input:
    from onnx import helper

    kind = value.type.tensor_type
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    except KeyError:
        dtype = np.dtype(object)
    if not value.type.HasField("tensor_type") or (dtype.kind not in "fiub" and dtype.name != "bfloat16"):
        raise OnnxError(f"the input {value.name!r} of the ONNX graph must be of numbers.")
    dtype = np.dtype(np.float32) if dtype.name in ("float16", "bfloat16") else dtype
    if not kind.HasField("shape"):
        return Input(value.name, None, (), dtype)
    dims = kind.shape.dim
    shape = tuple(d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else None for d in dims)
    return Input(value.name, shape, tuple(d.dim_param for d in dims), dtype)


def only_output(model, output=None) -> str:
    """The name of the value to look at: the one output of numbers, or what is named, which may lie inside the graph."""
    names = [o.name for o in model.graph.output]
    if output is not None:
        if output not in names and not any(output in node.output for node in model.graph.node):
            raise OnnxError(f"output must be one of {', '.join(names)}, or a value of the graph, got {output!r}.")
        return output
    # labels beside scores, as scikit-learn's converter writes them, are whole numbers or words
    scores = [o.name for o in model.graph.output if not o.type.HasField("tensor_type") or _is_float(o)]
    chosen = names if len(names) == 1 else scores
    if len(chosen) != 1:
        raise OnnxError(f"the ONNX graph has the outputs {', '.join(names)}: name one with output=.")
    return chosen[0]


def _is_float(output) -> bool:
    from onnx import TensorProto

    kinds = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.UNDEFINED)
    return output.type.tensor_type.elem_type in kinds


def take_off_probabilities(model, output=None) -> str | None:
    """Put what comes before a last softmax or sigmoid, or a choice of the largest, in place of the output.

    Returns the names of the operators that were taken off, None if there were none. What a person trained with the
    cross-entropy is the function before: probabilities instead of logits would be normalised twice.
    """
    output = only_output(model, output)
    taken, value = [], output
    while (last := _producer(model, value)) is not None and last.op_type in AFTER:
        if last.op_type == "ArgMax":
            taken.append("ArgMax")
        value = last.input[0]
    if last is None:
        return None
    before = _before(model, last)
    if before is not None:
        value, kind = before
        taken.insert(0, kind)
    if not taken:
        return None
    _rename(model, output, value)
    return " and ".join(taken)


def gives_probabilities(model, output) -> bool:
    """Whether an output is computed by a softmax or sigmoid, which round to a part of 1, however small it is."""
    last = _producer(model, output)
    return last is not None and last.op_type in ("Softmax", "Sigmoid")


def _producer(model, value):
    return next((node for node in model.graph.node if value in node.output), None)


def _before(model, last) -> tuple[str, str] | None:
    """The name of the logits that an operator makes probabilities of, and how; None if it does not."""
    if last.op_type in PROBABILITIES:
        return last.input[0], last.op_type
    if last.op_type == "Concat" and len(last.input) == 2:  # the probabilities of two classes, 1 - p and p
        first, second = (_producer(model, name) for name in last.input)
        complement = first is not None and first.op_type == "Sub" and first.input[1] == last.input[1]
        return (second.input[0], "Sigmoid") if complement and second and second.op_type == "Sigmoid" else None
    return _scores(model, last) if last.op_type == "LinearClassifier" else None


def _scores(model, classifier) -> tuple[str, str] | None:
    """The scores of a linear classifier, one for two classes, without the transformation behind them."""
    from onnx import helper, numpy_helper

    how = next((a for a in classifier.attribute if a.name == "post_transform"), None)
    labels = next((len(a.ints or a.strings) for a in classifier.attribute if a.name.startswith("classlabels")), 0)
    kind = b"NONE" if how is None else how.s
    if kind not in (b"SOFTMAX", b"LOGISTIC") or (kind == b"LOGISTIC" and labels != 2):
        return None
    how.s = b"NONE"
    scores = classifier.output[1]
    if kind == b"SOFTMAX":
        return scores, "Softmax"
    second = f"{scores}_of_the_second_class"
    model.graph.initializer.append(numpy_helper.from_array(np.asarray([1], np.int64), f"{second}_index"))
    place = list(model.graph.node).index(classifier) + 1
    model.graph.node.insert(place, helper.make_node("Gather", [scores, f"{second}_index"], [second], axis=1))
    return second, "Sigmoid"


def _rename(model, output, value) -> None:
    """Let the output be another value of the graph."""
    from onnx import helper

    last = _producer(model, output)
    place = list(model.graph.node).index(last)
    others = [name for name in last.output if name != output]
    if not others:
        del model.graph.node[place]
    model.graph.node.append(helper.make_node("Identity", [value], [output]))
    for declared in model.graph.output:
        if declared.name == output:  # scores, whatever was declared
            declared.CopyFrom(helper.make_tensor_value_info(output, _float_type(model), None))


def _float_type(model) -> int:
    from onnx import TensorProto

    kinds = [t.data_type for t in model.graph.initializer if t.data_type in (TensorProto.FLOAT, TensorProto.DOUBLE)]
    return kinds[0] if kinds else TensorProto.FLOAT
