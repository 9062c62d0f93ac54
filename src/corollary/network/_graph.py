"""ONNX graphs: read, brought into the operators that can be run, and their parameters told from their constants."""

from pathlib import Path

import numpy as np

from corollary.network._rewrite import rewrite
from corollary.network.apart import first_line

# the inputs of an operator that weights enter by; what is elementwise counts only for arrays, not for single numbers
WEIGHTS = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Gemm": (0, 1, 2),
    "MatMul": (0, 1),
    "Einsum": (0, 1, 2),
    "BatchNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LayerNormalization": (1, 2),
    "PRelu": (1,),
    "Gather": (0,),
}
ELEMENTWISE = ("Add", "Mul")
# what only rearranges a tensor: a weight that passes through is still a weight
THROUGH = ("Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Cast", "Expand", "Slice", "Concat")
VERSIONS = (20, 17, 13)  # of the operator set, to go to if there are operators too new or too old to be run


def load(source):
    """The model in a file, or one in memory; one sentence if it is missing or damaged."""
    try:
        import jaxonnxruntime  # noqa: F401
        import onnx
    except ImportError:
        raise ValueError("ONNX files need jaxonnxruntime and onnx: pip install 'corollary[onnx]'.") from None
    if isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
        return model
    path = Path(source)
    if not path.is_file():
        raise ValueError(f"{path} is not a file.")
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
        initialisers(model)  # that their bytes fill their shapes is not checked there
    except Exception as error:  # protobuf, onnx and the file system each have their own
        raise ValueError(f"{path} is not a readable ONNX file ({first_line(error)}).") from None
    if not model.graph.node:
        raise ValueError(f"{path} is an ONNX file without any operator.")
    return model


def runnable(model):
    """The same network in operators that jaxonnxruntime has, constants as initialisers, every node with a name."""
    try:
        return _runnable(model)
    except ValueError:
        raise
    except Exception as error:  # of ONNX's tools, on graphs that are valid and yet make no sense
        raise ValueError(f"the ONNX graph cannot be prepared to run: {first_line(error)}.") from error


def _runnable(model):
    from onnx import inliner, version_converter

    model = rewrite(_named(inliner.inline_local_functions(model)))
    missing = unsupported(model)
    if missing:
        # some operators are defined by others: GELU is one
        defined = [("", op) for op in missing]
        _with_defaults(model, missing)
        model = inliner.inline_selected_functions(model, defined, exclude=False, inline_schema_functions=True)
        model = rewrite(_named(model))
        missing = unsupported(model)
    version = _versions(model).get("", 0)
    for other in VERSIONS:
        if missing and version != other:
            try:
                candidate = rewrite(_named(version_converter.convert_version(model, other)))
            except Exception:
                continue
            if not unsupported(candidate):
                return _named(candidate)
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise ValueError(
            f"the ONNX operator{plural} {', '.join(missing)} of version {version} of the operator set "
            f"{'are' if plural else 'is'} not supported."
        )
    return _named(model)


def _named(model):
    """Constants as initialisers, and every node with a name: jaxonnxruntime finds nodes by it, ONNX does not ask it."""
    tensors = [_constant(node) for node in model.graph.node]
    nodes = [node for node, tensor in zip(model.graph.node, tensors, strict=True) if tensor is None]
    model.graph.initializer.extend(tensor for tensor in tensors if tensor is not None)
    for i, node in enumerate(nodes):
        node.name = f"{node.op_type}_{i}"
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def _with_defaults(model, operators):
    """Write out the attributes that are left at their default: ONNX's inliner takes those that it sees."""
    from onnx import defs

    versions = _versions(model)
    for node in model.graph.node:
        if node.op_type in operators and not node.domain:
            try:
                schema = defs.get_schema(node.op_type, max_inclusive_version=versions[""])
            except Exception:  # an operator of that name does not exist in this version
                continue
            given = {a.name for a in node.attribute}
            defaults = [a.default_value for a in schema.attributes.values() if a.default_value.type]
            node.attribute.extend(a for a in defaults if a.name not in given)


def _versions(model) -> dict[str, int]:
    """The version of each operator set; ONNX's own, which has two names, under the empty one."""
    return {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}


def _constant(node):
    """The tensor of a node that is a constant; None if it is not, or is none of numbers."""
    from onnx import numpy_helper

    kinds = {"value_float": "f", "value_floats": "floats", "value_int": "i", "value_ints": "ints"}
    for attribute in node.attribute if node.op_type == "Constant" else ():
        if attribute.name == "value":
            return numpy_helper.from_array(numpy_helper.to_array(attribute.t), node.output[0])
        if attribute.name in kinds:
            value = getattr(attribute, kinds[attribute.name])
            dtype = np.float32 if "float" in attribute.name else np.int64
            return numpy_helper.from_array(np.asarray(value, dtype), node.output[0])
    return None


def unsupported(model) -> list[str]:
    """The operators of the graph that jaxonnxruntime cannot run in their version, sorted."""
    from jaxonnxruntime import call_onnx
    from onnx import defs

    have = {(h.DOMAIN, h.OP_TYPE): h for h in call_onnx.Handler.__subclasses__()}
    versions = _versions(model)
    missing = set()
    for node in model.graph.node:
        domain = node.domain if node.domain != "ai.onnx" else ""
        handler = have.get((domain, node.op_type))
        try:
            since = defs.get_schema(node.op_type, domain=domain, max_inclusive_version=versions[domain]).since_version
        except Exception:  # an operator that is not ONNX's own
            since = None
        if handler is None or since is None or not hasattr(handler, f"version_{since}"):
            missing.add(node.op_type)
    return sorted(missing)


def initialisers(model) -> dict[str, np.ndarray]:
    """The tensors that a graph holds, by name."""
    from onnx import numpy_helper

    return {t.name: numpy_helper.to_array(t).reshape(tuple(t.dims)) for t in model.graph.initializer}


def split(model, names=None) -> tuple[dict, dict]:
    """The parameters and the constants of a graph; `names` says which are parameters, where that is known."""
    tensors = initialisers(model)
    if names is None:
        names = used_as_weights(model, tensors)
    else:
        names = set(names)
        for name in sorted(names):
            if name not in tensors or tensors[name].dtype.kind != "f":
                raise ValueError(f"the parameter {name!r} is no floating-point initialiser of the ONNX graph.")
    weights = {n: t for n, t in tensors.items() if n in names}
    return weights, {n: t for n, t in tensors.items() if n not in names}


def used_as_weights(model, tensors) -> set[str]:
    """The names of the floating-point initialisers that reach an input that weights enter by."""
    source = {name: {name} for name, t in tensors.items() if t.dtype.kind == "f"}
    weights = set()
    for node in model.graph.node:  # in the order of computation, as ONNX requires
        held = [source.get(name, set()) for name in node.input]
        if node.op_type in THROUGH:
            # a tensor that meets computed ones is no longer a stored one, but its parts may still be weights
            for name in node.output:
                source[name] = set().union(*held)
        for i in WEIGHTS.get(node.op_type, ()):
            weights |= held[i] if i < len(held) else set()
        if node.op_type in ELEMENTWISE:
            weights |= {n for names in held for n in names if tensors[n].size > 1}
    return weights


def only_input(model) -> tuple[str, list[int] | None, np.dtype]:
    """The name, the declared shape (0 where it is free) and the type of the one input."""
    from onnx import helper

    held = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in held]
    if len(inputs) != 1:
        raise ValueError(f"the ONNX graph must have one input, got {', '.join(i.name for i in inputs) or 'none'}.")
    kind = inputs[0].type.tensor_type
    shape = [d.dim_value for d in kind.shape.dim] if kind.HasField("shape") else None
    try:
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    except KeyError:
        dtype = np.dtype(object)
    if dtype.kind not in "fiub":
        raise ValueError(f"the input {inputs[0].name!r} of the ONNX graph must be of numbers.")
    return inputs[0].name, shape, dtype


def fixed_batch(model) -> int:
    """The batch size that the graph was exported for; 0 if it is free."""
    shape = only_input(model)[1]
    return shape[0] if shape else 0


def only_output(model, output=None) -> str:
    """The name of the output to audit."""
    names = [o.name for o in model.graph.output]
    if output is None:
        if len(names) != 1:
            raise ValueError(f"the ONNX graph has the outputs {', '.join(names)}: name one with output=.")
        return names[0]
    if output not in names:
        raise ValueError(f"output must be one of {', '.join(names)}, got {output!r}.")
    return output


def take_off_probabilities(model, output=None) -> str | None:
    """Replace a last softmax, or the sigmoid of one output, by nothing; its name if there was one.

    What a person trained with the cross-entropy is the function before: probabilities instead of logits would be
    normalised twice.
    """
    output = only_output(model, output)
    last = next((node for node in model.graph.node if output in node.output), None)
    if last is None or last.op_type not in ("Softmax", "Sigmoid"):
        return None
    kind = last.op_type
    del last.attribute[:]
    last.op_type = "Identity"
    return kind


def reference(model, name, output, example):
    """The output for one example by ONNX's own slow evaluator; None where that cannot run the graph."""
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            return np.asarray(ReferenceEvaluator(model).run([output], {name: example})[0])
    except Exception:
        return None
