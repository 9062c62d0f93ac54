"""Tensors in files beside a model: their sizes are looked at before anything is read."""

import os

import numpy as np
import pytest

import corollary
from corollary.network import _graph
from corollary.onnx import _external
from corollary.onnx._external import tensors_of

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

X = np.float32([[1, 2, 3]])
W = numpy_helper.from_array(np.float32([1, 2, 3]), "w")


def saved(folder, **said):
    """A model whose tensor lies beside it, with other words on where."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [W],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "net.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    model = onnx.load(folder / "net.onnx", load_external_data=False)
    tensor = model.graph.initializer[0]
    words = {entry.key: entry.value for entry in tensor.external_data} | {k: str(v) for k, v in said.items()}
    del tensor.external_data[:]
    for key, value in words.items():
        if value != "None":
            tensor.external_data.add(key=key, value=value)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    return folder / "net.onnx"


@pytest.fixture
def nothing_read(monkeypatch):
    """That tensors are read at all fails."""

    def read(*arguments):
        raise AssertionError("a tensor was read before its size was known to fit")

    monkeypatch.setattr(onnx.external_data_helper, "load_external_data_for_model", read)


def test_a_tensor_with_and_without_a_length(tmp_path):
    for length in (12, None):
        path = saved(tmp_path, length=length)
        np.testing.assert_allclose(corollary.onnx.run(path, {"x": X})[0], X * X)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"length": 10**10}, r"'w' claims 9.3 GiB of w.bin from byte 0 on, which has 12 bytes: the file is damaged"),
        ({"offset": 8}, r"'w' claims 12 bytes of w.bin from byte 8 on, which has 12 bytes"),
        ({"offset": 4096, "length": None}, r"'w' claims 0 bytes of w.bin from byte 4,096 on"),
        ({"length": -1}, r"'w' does not say where it lies: write the ONNX file again"),
        ({"offset": "many"}, r"'w' does not say where it lies"),
        ({"location": None}, r"'w' does not say where it lies"),
        ({"location": "/dev/zero"}, r"keeps tensors in /dev/zero, which must lie beside it and does not"),
    ],
)
def test_words_that_lie(tmp_path, nothing_read, said, sentence):
    path = saved(tmp_path, **said)
    with pytest.raises(ValueError, match=sentence):
        corollary.onnx.run(path, {"x": X})


def test_files_that_do_not_fit(tmp_path, nothing_read, monkeypatch):
    path = saved(tmp_path, length=None)
    os.truncate(tmp_path / "w.bin", 3 * 2**30)  # takes no room on the disk
    monkeypatch.setattr(_external, "physical_memory", lambda: 2**30)
    with pytest.raises(ValueError, match="are 3.0 GiB, more than the 1.0 GiB of memory of this machine"):
        corollary.onnx.run(path, {"x": X})
    monkeypatch.setattr(_external, "physical_memory", lambda: None)

    def room(size):
        raise ValueError(f"no room for {size}")

    with pytest.raises(ValueError, match=f"no room for {3 * 2**30}"):
        _graph.load(path, room)


def test_one_part_of_a_file_that_is_named_often_counts_often(tmp_path, nothing_read, monkeypatch):
    model = onnx.load(saved(tmp_path), load_external_data=False)
    for _ in range(999):
        model.graph.initializer.append(model.graph.initializer[0])
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    monkeypatch.setattr(_external, "physical_memory", lambda: 11_999)
    with pytest.raises(ValueError, match="are 12,000 bytes, more than the 11,999 bytes of memory"):
        corollary.onnx.run(tmp_path / "net.onnx", {"x": X})


def test_all_tensors_of_a_model_are_looked_at():
    def named(name):
        return numpy_helper.from_array(np.float32([1]), name)

    def constant(name):
        return helper.make_node("Constant", [], [name], value=named(name))

    inner = helper.make_graph([constant("c")], "inner", [], [], [named("d")])
    sparse = helper.make_sparse_tensor(named("v"), numpy_helper.from_array(np.int64([0]), "i"), [3])
    graph = helper.make_graph(
        [constant("b"), helper.make_node("If", ["b"], ["e"], then_branch=inner, else_branch=inner)],
        *("g", [], [], [named("a")]),
        sparse_initializer=[sparse],
    )
    function = helper.make_function("own", "F", [], ["f"], [constant("f")], [helper.make_opsetid("", 17)])
    model = helper.make_model(graph, functions=[function])
    assert sorted(t.name for t in tensors_of(model)) == ["a", "b", "c", "c", "d", "d", "f", "i", "v"]
