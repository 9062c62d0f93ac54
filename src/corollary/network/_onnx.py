"""A network from an ONNX graph, which `corollary.onnx` runs.

A graph runs on one example in a batch of one, and JAX maps it over batches: any batch size works, examples cannot see
each other, and graphs that were exported for one example are as good as others.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from corollary._engine.operators.normalisation import EXAMPLES
from corollary._text import first_line
from corollary.network import _graph, _weights
from corollary.network.network import Network
from corollary.onnx._graph import every, function_of, needed
from corollary.onnx._model import read
from corollary.onnx._operators.normalisation import by_the_batch
from corollary.onnx._parts import LARGE
from corollary.onnx._table import OnnxError

# what rounding may change, relative to the largest output: of single precision over many layers, and of coarser types
EXACT, COARSE = 1e-3, 2e-2
ROUNDED = 1e-6  # of numbers of order one before they are small probabilities
NORM = "BatchNormalization"


def from_onnx(path, example, output=None, parameters=None) -> Network:
    """The network in an ONNX file (a path, bytes, or the model itself), for examples like `example`.

    With several inputs `example` is a dictionary by their names, or a tuple in the order of the graph: one example of
    each, without the axis of examples. An input that has no such axis is a constant of the network, and stays what it
    is in `example`.

    Parameters are the floating-point tensors that the graph uses as weights: in products and convolutions, as scale and
    shift of a normalisation, as embeddings, or added or multiplied in as arrays; `parameters` names them where this is
    not right. `output` names an output, or any value inside the graph, such as the logits before a last softmax.
    """
    proto = _graph.load(path)
    output = _graph.only_output(proto, output)
    model = read(proto)
    model = model._replace(graph=_weights.stored(model.graph))
    inputs = Inputs(proto, example)
    batch = inputs.batch(example)
    params, buffers = _weights.split(model.graph, parameters, _read_by(model, output, batch, inputs))
    if not params:
        raise OnnxError("the ONNX graph has no parameters: no floating-point initialiser is used as a weight.")
    held = {n: t for n, t in model.graph.tensors.items() if n not in params and n not in buffers}
    model = model._replace(graph=model.graph._replace(tensors=held))
    ours = _trial(model, output, batch, inputs, {**buffers, **params})
    axis = _axis_of_examples(proto, output, inputs, ours)
    checked = _agreement(proto, output, batch, ours, bool(model.notes))
    digest = _digest(proto, params, buffers, output)
    apply = Apply(function_of(model, (output,)), inputs, axis, digest)
    notes = (f"parameters: {', '.join(params)}.", *model.notes, *checked)
    recomputed = None
    if any(node.op == NORM for node in every(needed(model.graph.nodes, (output,)), model.functions)):
        recomputed = Recomputed(Apply(function_of(model, (output,), {NORM: by_the_batch}), inputs, axis, digest))
    return Network(apply, params, buffers, notes=notes, recomputed=recomputed)


class Apply:
    """`apply(params, buffers, x)` of a graph; two are equal if the graphs are, whatever their parameters."""

    def __init__(self, run, inputs, axis, digest):
        self.run, self.inputs, self.axis, self.digest = run, inputs, axis, digest

    def __call__(self, params, buffers, x):
        (out,) = self.run({**buffers, **params}, self.inputs.batch(x))
        return out if self.axis is None else jnp.take(out, 0, axis=self.axis)

    def __eq__(self, other):
        return isinstance(other, Apply) and self.digest == other.digest

    def __hash__(self):
        return hash(self.digest)


@dataclass(frozen=True)
class Recomputed:
    """The outputs of a batch, of a graph that normalises by the statistics of all examples that it is mapped over."""

    apply: Apply

    def __call__(self, params, buffers, x):
        return jax.vmap(lambda one: self.apply(params, buffers, one), axis_name=EXAMPLES)(x)


class Inputs:
    """How one example becomes the inputs of a graph: by name, in a batch of one, constants as they were."""

    def __init__(self, model, example):
        self.declared = _graph.inputs_of(model)
        names = [each.name for each in self.declared]
        if not names:
            raise OnnxError("the ONNX graph has no input.")
        given = self._by_name(example)
        if set(given) != set(names):
            raise OnnxError(f"example must have an array for each input of the graph, {', '.join(names)}.")
        self.axes = {each.name: _axis(each, np.asarray(given[each.name])) for each in self.declared}
        self.constants = {
            each.name: np.asarray(given[each.name]).astype(each.dtype)
            for each in self.declared
            if self.axes[each.name] is None
        }
        if len(self.constants) == len(names):
            raise OnnxError("the inputs of the ONNX graph have no axis of examples: export it for a batch of one.")

    def _by_name(self, x) -> dict:
        names = [each.name for each in self.declared]
        if isinstance(x, dict):
            return x
        if isinstance(x, tuple | list) and len(names) > 1:
            if len(x) != len(names):
                raise OnnxError(f"the ONNX graph has the inputs {', '.join(names)}, got {len(x)} arrays.")
            return dict(zip(names, x, strict=True))
        if len(names) > 1:
            raise OnnxError(f"the ONNX graph has the inputs {', '.join(names)}: give a dictionary of arrays by name.")
        return {names[0]: x}

    def batch(self, x) -> dict:
        """The inputs of the graph for one example."""
        given = self._by_name(x)
        varying = [each for each in self.declared if each.name not in self.constants]
        # 64 bits where JAX has them switched on
        types = {each.name: jax.dtypes.canonicalize_dtype(each.dtype) for each in varying}
        values = {name: jnp.asarray(given[name]).astype(dtype) for name, dtype in types.items()}
        return {**self.constants, **{n: jnp.expand_dims(v, self.axes[n]) for n, v in values.items()}}

    def varying(self, batch) -> dict:
        """The inputs of the graph that differ from example to example."""
        return {name: value for name, value in batch.items() if name not in self.constants}


def _axis(declared, example) -> int | None:
    """Where the axis of examples of an input is, which one example does not have; None if the input has none."""
    if example.dtype.kind not in "fiub" and example.dtype.name != "bfloat16":
        raise OnnxError(f"example must hold numbers, got dtype {example.dtype}.")
    shape = declared.shape
    if shape is None:
        return 0

    def fits(rest):
        return len(rest) == example.ndim and all(a in (None, b) for a, b in zip(rest, example.shape, strict=True))

    places = [i for i in range(len(shape)) if fits(shape[:i] + shape[i + 1 :])]
    free = [i for i in places if shape[i] in (None, 1)]
    if free:
        return free[0]
    if 0 in places:
        raise OnnxError(
            f"the ONNX graph was exported for a fixed batch of {shape[0]}: export it for one or any number of examples."
        )
    if fits(shape) and (not shape or None not in shape[:1]):
        return None
    wanted = ", ".join(str(n or "any") for n in shape[1:]) + ("," if len(shape) == 2 else "")
    name, got = declared.name, example.shape
    raise OnnxError(f"example must have the shape ({wanted}) of the input {name!r} of the graph, got {got}.")


class _Read(dict):
    """Tensors that remember which of them were asked for."""

    def __init__(self, tensors):
        super().__init__(tensors)
        self.names = set()

    def __getitem__(self, name):
        value = super().__getitem__(name)
        self.names.add(name)
        return value


def _read_by(model, output, batch, inputs) -> set[str]:
    """The names of the tensors that are read on the way to the output, which is traced for one example."""
    tensors, run = _Read(model.graph.tensors), function_of(model, (output,))

    def traced(given):
        try:
            return run(tensors, {**inputs.constants, **given})
        except OnnxError as error:
            if not isinstance(error.__cause__, Exception):
                raise
            shapes = ", ".join(str(np.shape(v)[1:]) for v in given.values())
            text = f"the ONNX graph does not run on one example of shape {shapes}: {error}"
            raise OnnxError(text) from error

    (out,) = jax.eval_shape(traced, inputs.varying(batch))
    if not hasattr(out, "shape"):
        raise OnnxError(f"the output {output!r} of the ONNX graph is no array: name another one with output=.")
    return tensors.names


def _trial(model, output, batch, inputs, tensors) -> np.ndarray:
    """The output for one example, compiled as a whole: operator by operator would take a program for each.

    A large graph is run part by part: parts that are alike are compiled once.
    """
    run = function_of(model, (output,), traceable=True)

    def program(tensors, given):
        return run(tensors, {**inputs.constants, **given})[0]

    large = len(model.graph.nodes) >= LARGE
    tensors = {name: jnp.asarray(tensor) for name, tensor in tensors.items()}
    return np.asarray((program if large else jax.jit(program))(tensors, inputs.varying(batch)))


def _axis_of_examples(model, output, inputs, out) -> int | None:
    """The axis of an output that has the name of the inputs' axis of examples, or its first axis if it has length 1."""
    symbols = {
        each.symbols[inputs.axes[each.name]]
        for each in inputs.declared
        if inputs.axes[each.name] is not None and each.symbols
    } - {""}
    declared = next((o.type.tensor_type.shape.dim for o in model.graph.output if o.name == output), ())
    for i, dim in enumerate(declared):
        if dim.dim_param in symbols and i < out.ndim and out.shape[i] == 1:
            return i
    return 0 if out.ndim and out.shape[0] == 1 else None


def _agreement(model, output, batch, ours, coarse) -> list[str]:
    """Notes on the comparison with onnxruntime; one sentence, raised, if the numbers differ."""
    theirs, why = _by_onnxruntime(model, output, batch)
    if theirs is None:
        return [f"the conversion was not checked: {why}."]
    if not np.isfinite(theirs).all():
        return ["the conversion was not checked: onnxruntime gives infinities or NaN on the example."]
    largest = max(np.abs(theirs).max(initial=0), np.finfo(np.float32).tiny)
    same = theirs.shape == ours.shape
    apart = np.abs(theirs - ours).max(initial=0) if same else np.inf
    if _graph.gives_probabilities(model, output):
        apart = max(apart - ROUNDED, 0.0)
    apart /= largest
    if not apart <= (COARSE if coarse else EXACT):
        raise OnnxError(
            "the ONNX graph cannot be used: run with JAX it gives other numbers than onnxruntime, "
            + (f"{apart:.2g} of the largest apart." if same else f"of shape {ours.shape} instead of {theirs.shape}.")
        )
    return []


def _by_onnxruntime(model, output, inputs):
    """The output by onnxruntime; None and the reason where it cannot run the graph."""
    import onnx

    try:
        import onnxruntime
    except ImportError:
        return None, "onnxruntime is not installed"
    if output not in {o.name for o in model.graph.output}:
        model, given = onnx.ModelProto(), model
        model.CopyFrom(given)
        model.graph.output.append(onnx.ValueInfoProto(name=output))
    kinds = {i.name: i.type.tensor_type.elem_type for i in model.graph.input}
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        typed = {n: np.asarray(v).astype(onnx.helper.tensor_dtype_to_np_dtype(kinds[n])) for n, v in inputs.items()}
        (out,) = session.run([output], typed)
    except Exception as error:  # onnxruntime has its own kinds
        return None, f"onnxruntime does not run the graph ({first_line(error)})"
    return (_columns(out) if isinstance(out, list) else np.asarray(out, np.float64)), ""


def _columns(rows):
    """The array behind a ZipMap, which gives a dictionary for each example."""
    return np.asarray([list(row.values()) for row in rows], np.float64)


def _digest(model, params, buffers, output) -> str:
    """What a graph is, without the numbers that are its parameters and buffers."""
    import onnx

    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for tensor in bare.graph.initializer:
        if tensor.name in params or tensor.name in buffers:
            for field in ("raw_data", "float_data", "double_data", "int32_data"):
                tensor.ClearField(field)
    names = repr((sorted(params), sorted(buffers), output))
    return hashlib.sha256(bare.SerializeToString(deterministic=True) + names.encode()).hexdigest()
