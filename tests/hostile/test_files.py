"""Damaged and hostile ONNX and NPZ files through `corollary audit`: each ends as a report or as one sentence.

`COROLLARY_FILES` says how many; 30 unless it is set. The audit runs in this process and without its sections, which are
about networks that were read; what must not be made is tried in its limited process.
"""

import io
import json
import os
import zipfile

import numpy as np
import psutil
import pytest

from corollary import cli
from corollary._text import visible
from corollary.audit import _limited
from corollary.audit._asked import Asked
from corollary.audit._child import answer
from corollary.audit._errors import SubjectError
from corollary.evidence._errors import Stopped

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FILES = int(os.environ.get("COROLLARY_FILES", "30"))
RNG = np.random.default_rng(0)
W = RNG.normal(size=(4, 3)).astype(np.float32)
INPUT = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
OUTPUT = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 3])


def model(*nodes, constants=(), name="g"):
    """A linear network, and what is added to its output: the value `more` of the nodes."""
    ends = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "more"], ["out"])]
    arrays = [numpy_helper.from_array(np.asarray(a), key) for key, a in (("w", W), *constants)]
    graph = helper.make_graph([ends[0], *nodes, ends[1]], name, [INPUT], [OUTPUT], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(op, inputs, **attributes):
    return helper.make_node(op, inputs, ["more"], **attributes)


SOUND = model(node("Identity", ["b"]), constants=[("b", np.float32([0.1, 0.2, 0.3]))])
LONG = np.int64([2**40, 3])
HUGE = {
    "ConstantOfShape": model(node("ConstantOfShape", ["s"]), constants=[("s", LONG)]),
    "Expand": model(node("Expand", ["b", "s"]), constants=[("b", np.float32([1.0])), ("s", LONG)]),
    "Tile": model(node("Tile", ["b", "s"]), constants=[("b", np.ones((1, 3), np.float32)), ("s", LONG)]),
    "Range": model(node("Range", ["a", "z", "d"]), constants=[("a", 0.0), ("z", 1e12), ("d", 1.0)]),
    "Pad": model(node("Pad", ["b", "s"]), constants=[("b", np.ones(3, np.float32)), ("s", np.int64([0, 2**40]))]),
    "Resize": model(
        node("Resize", ["b", "", "s"], mode="nearest"),
        constants=[("b", np.ones((1, 1, 1, 3), np.float32)), ("s", np.float32([1, 1, 1e9, 1]))],
    ),
    "CenterCropPad": model(
        node("CenterCropPad", ["b", "s"]), constants=[("b", np.ones((1, 3), np.float32)), ("s", LONG)]
    ),
    "Add": model(
        node("Add", ["b", "c"]),
        constants=[("b", np.ones((2**15, 1, 3), np.float32)), ("c", np.ones((1, 2**15, 3), np.float32))],
    ),
    "MatMul": model(
        node("MatMul", ["b", "c"]),
        constants=[("b", np.ones((2**15, 1), np.float32)), ("c", np.ones((1, 2**15), np.float32))],
    ),
}


def odd_graphs():
    """Graphs that can be read and mean nothing: names that steer a terminal, loops of functions, shapes that lie."""
    yield model(node("\x1b[31mNo\u202eSuch", ["b"]), constants=[("b", np.float32([1.0]))])
    yield model(node("Identity", ["\x1b[2J"]))
    yield model(node("Reshape", ["b", "s"]), constants=[("b", np.ones(3, np.float32)), ("s", np.int64([-5, 0, 7]))])
    yield model(node("Range", ["a", "z", "d"]), constants=[("a", 0.0), ("z", 1.0), ("d", 0.0)])
    yield model(node("Identity", ["more"]))
    yield model(node("Gather", ["b", "s"]), constants=[("b", np.ones(3, np.float32)), ("s", np.int64([99]))])
    lies = model(node("Identity", ["b"]), constants=[("b", np.float32([1.0]))])
    lies.graph.initializer[1].dims[:] = [2**31, 2**31]
    yield lies
    again = helper.make_node("F", ["a"], ["r"], domain="own")
    itself = helper.make_function("own", "F", ["a"], ["r"], [again], [helper.make_opsetid("own", 1)])
    calls = model(helper.make_node("F", ["b"], ["more"], domain="own"), constants=[("b", np.float32([1.0]))])
    calls.functions.append(itself)
    calls.opset_import.append(helper.make_opsetid("own", 1))
    yield calls


def mutated(raw: bytes, draw) -> bytes:
    """Cut short, with bytes changed, taken out, put in, or with a part twice."""
    raw, kind = bytearray(raw), draw.integers(5)
    at = int(draw.integers(len(raw)))
    if kind == 0:
        return bytes(raw[:at])
    for place in draw.integers(len(raw), size=int(draw.integers(1, 8))) if kind == 1 else ():
        raw[place] = draw.integers(256)
    if kind == 2:
        del raw[at : at + int(draw.integers(1, 20))]
    if kind == 3:
        raw[at:at] = draw.bytes(int(draw.integers(1, 20)))
    if kind == 4:
        raw[at:at] = raw[: int(draw.integers(1, 60))]
    return bytes(raw)


def packed(**arrays) -> bytes:
    made = io.BytesIO()
    np.savez_compressed(made, **arrays)
    return made.getvalue()


DATA = packed(x=RNG.normal(size=(6, 4)).astype(np.float32), y=np.arange(6) % 3)


@pytest.fixture
def audited(tmp_path, monkeypatch, capsys):
    """`audited(network, data)`: exit status, output and errors of an audit of files with these bytes."""
    monkeypatch.setattr("corollary.audit.run.SECTIONS", ())

    def here(asked, *, time_limit, memory_limit, progress):
        kind, *texts = answer(asked, progress)
        if kind == "report":
            return _limited.Answer(*texts)
        raise (SubjectError if kind == "refused" else Stopped)(*texts)

    def audited(network: bytes, data: bytes, *options, inside=True):
        if inside:
            monkeypatch.setattr(_limited, "limited", here)
        (tmp_path / "net.onnx").write_bytes(network)
        (tmp_path / "data.npz").write_bytes(data)
        words = ["audit", str(tmp_path / "net.onnx"), "--train", str(tmp_path / "data.npz"), "--loss", "cross_entropy"]
        with pytest.raises(SystemExit) as ended:
            cli.main([*words, "--out", str(tmp_path / "report.html"), "--json", "-", *options])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert visible(err) == err
        assert (tmp_path / "report.html").exists() == (ended.value.code == 0)
        (tmp_path / "report.html").unlink(missing_ok=True)
        return ended.value.code, out, err

    return audited


def test_damaged_files_are_a_report_or_a_sentence(audited):
    draw = np.random.default_rng(0)
    ends = {0: 0, 1: 0, 2: 0}
    for i in range(FILES):
        network, data = SOUND.SerializeToString(), DATA
        if i % 3:
            network = mutated(network, draw)
        else:
            data = mutated(data, draw)
        status, out, err = audited(network, data)
        ends[status] += 1
        assert (json.loads(out)["subject"]["parameters"] > 0) if status == 0 else err.startswith("corollary: ")
    print(f"{FILES} files: {ends}")
    assert ends[2] > FILES / 2


@pytest.mark.parametrize("number", range(len(list(odd_graphs()))))
def test_graphs_that_mean_nothing(audited, number):
    status, _, err = audited(list(odd_graphs())[number].SerializeToString(), DATA)
    assert status in (1, 2)
    assert err.startswith("corollary: ")


@pytest.mark.parametrize("op", HUGE)
def test_nothing_is_made_that_would_fill_the_memory(audited, op):
    status, _, err = audited(HUGE[op].SerializeToString(), DATA)
    assert status == 2
    assert f"{op} would make a constant of shape" in err


def test_tensors_beside_a_network_are_sized_before_they_are_read(audited, tmp_path):
    network = model(node("Identity", ["b"]), constants=[("b", np.float32([0.1, 0.2, 0.3]))])
    tensor = network.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    status, _, err = audited(network.SerializeToString(), DATA)
    assert status == 0, err
    os.truncate(tmp_path / "w.bin", 3 * 2**30)  # takes no room on the disk
    held = psutil.Process().memory_info().rss / 2**30  # the audit runs in this process
    status, _, err = audited(network.SerializeToString(), DATA, "--memory-limit", f"{held + 4:.2f}")
    assert status == 2
    assert "net.onnx holds 3.0 GiB, more than the" in err
    assert "give a smaller network, or a greater --memory-limit." in err
    tensor.external_data.add(key="length", value=str(10**10))
    status, _, err = audited(network.SerializeToString(), DATA)
    assert status == 2
    assert "'w' claims 9.3 GiB of w.bin from byte 0 on, which has 3.0 GiB" in err


def test_data_that_unpack_beyond_the_limit_are_not_read(audited):
    header, raw = io.BytesIO(), io.BytesIO(DATA)
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (187_500_000, 4)})
    with zipfile.ZipFile(raw) as sound:
        y = sound.read("y.npy")
    with zipfile.ZipFile(raw := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", header.getvalue() + bytes(10**7))  # of 3 GB: nobody looks for the rest
        file.writestr("y.npy", y)
    # in a process of its own: this one may have more than the limit already
    status, _, err = audited(SOUND.SerializeToString(), raw.getvalue(), "--memory-limit", "2", inside=False)
    assert status == 2
    assert "holds 2.8 GiB, more than the" in err
    assert "or a greater --memory-limit." in err


def test_the_process_of_an_audit_ends_at_its_limit_and_leaves_nothing(audited, tmp_path):
    (tmp_path / "f.py").write_text("import time\nprint('said')\n\n\ndef f():\n    time.sleep(1000)\n")
    asked = Asked(f"{tmp_path / 'f.py'}:f")
    with pytest.raises(Stopped, match="It took longer than the limit of 0.5 s. --time-limit and"):
        _limited.limited(asked, time_limit=0.5, memory_limit=None, progress=lambda title: None)
    status, out, err = audited(SOUND.SerializeToString()[:-30], DATA, inside=False)
    assert (status, out) == (2, "")
    assert "is not a readable ONNX file" in err or "ONNX graph" in err
