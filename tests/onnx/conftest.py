"""ONNX's own tests of its operators, as they lie in the installed package."""

import warnings
from pathlib import Path
from typing import NamedTuple

import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'corollary[onnx]'")

FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


class Case(NamedTuple):
    """A model with pairs of inputs by name and expected outputs, and the tolerance that ONNX gives."""

    name: str
    model: onnx.ModelProto
    pairs: list
    rtol: float

    def operators(self) -> set[str]:
        return {node.op_type for node in self.model.graph.node}


def has_float_output(model) -> bool:
    return any(o.type.HasField("tensor_type") and o.type.tensor_type.elem_type in FLOATS for o in model.graph.output)


def arrays(values) -> list:
    return [onnx.numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for v in values]


def stored(path: Path, info):
    """The tensor or the sequence in a file."""
    sequence = info.type.HasField("sequence_type")
    proto = onnx.SequenceProto() if sequence else onnx.TensorProto()
    proto.ParseFromString(path.read_bytes())
    return onnx.numpy_helper.to_list(proto) if sequence else onnx.numpy_helper.to_array(proto)


def read(directory: Path, model):
    for folder in sorted(directory.glob("test_data_set_*")):
        sides = []
        for kind, infos in (("input", model.graph.input), ("output", model.graph.output)):
            paths = [folder / f"{kind}_{i}.pb" for i in range(len(infos))]
            sides.append([stored(p, info) for p, info in zip(paths, infos, strict=True) if p.is_file()])
        yield tuple(sides)


@pytest.fixture(scope="session")
def cases() -> list[Case]:
    """All tests with outputs of floating-point numbers."""
    from onnx.backend.test.loader import load_model_tests

    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tests compute with infinities while they are made
        listed = [
            c
            for kind in ("node", "pytorch-operator", "pytorch-converted", "simple")
            for c in load_model_tests(kind=kind)
        ]
    for case in sorted(listed, key=lambda case: case.name):
        directory = Path(case.model_dir) if case.model is None else None
        model = case.model if directory is None else onnx.load(directory / "model.onnx")
        if has_float_output(model):
            pairs = case.data_sets if directory is None else list(read(directory, model))
            names = [i.name for i in model.graph.input]
            named = [(dict(zip(names, arrays(ins), strict=False)), arrays(outs)) for ins, outs in pairs]
            found.append(Case(case.name, model, named, case.rtol))
    return found
