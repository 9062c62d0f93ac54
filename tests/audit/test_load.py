"""What the command line names, as a subject."""

import numpy as np
import pytest

from corollary import Network, Subject
from corollary.audit import SubjectError, compare
from corollary.audit._asked import Asked
from corollary.audit.load import _named, load, load_checkpoint, load_other
from corollary.audit.path import at_checkpoint

onnx = pytest.importorskip("onnx")
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 4)).astype(np.float32), np.arange(12) % 3


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A network with two outputs, its start, and data; the probabilities are its first output."""
    from onnx import TensorProto, helper, numpy_helper

    monkeypatch.chdir(tmp_path)

    def save(path, w, v):
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Tanh", ["h"], ["t"]),
            helper.make_node("MatMul", ["t", "v"], ["logits"]),
            helper.make_node("Softmax", ["logits"], ["p"], axis=1),
        ]
        outputs = [helper.make_tensor_value_info("p", TensorProto.FLOAT, ["n", 3])]
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
            outputs,
            [numpy_helper.from_array(a, name) for name, a in (("w", w), ("v", v))],
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)

    weights = [RNG.normal(size=s).astype(np.float32) for s in ((4, 5), (5, 3))]
    save("model.onnx", *weights)
    save("start.onnx", *(0.5 * w for w in weights))
    np.savez("train.npz", x=X, y=Y)
    return weights


def test_a_start_and_chosen_parameters(files):
    w, v = files
    subject = load("model.onnx", "train.npz", loss="cross_entropy", initial="start.onnx", batch_size=64)
    np.testing.assert_allclose(subject.outputs(), np.tanh(X @ w) @ v, rtol=1e-4, atol=1e-5)
    assert subject.size == w.size + v.size
    start = [float(np.abs(a).sum()) for a in (subject.initial_params.params["w"], subject.params.params["w"])]
    assert start[0] == pytest.approx(start[1] / 2, rel=1e-5)
    assert any("Softmax" in note for note in subject.notes)
    assert any("more than the 12 given" in note for note in subject.notes)
    assert load("model.onnx", "train.npz", loss="cross_entropy", parameters=["v"]).size == v.size


def test_another_file_beside_it(files):
    w, v = files
    asked = Asked("model.onnx")
    subject = load("model.onnx", "train.npz", loss="cross_entropy")
    found = compare(subject, load_other("start.onnx", subject, asked), name="start.onnx")
    assert found.tests[1].before == pytest.approx(load("start.onnx", "train.npz", loss="cross_entropy").mean_loss())
    assert found.tests[1].after == pytest.approx(subject.mean_loss())
    there = at_checkpoint(subject, load_checkpoint("start.onnx", subject, asked), "start.onnx")
    np.testing.assert_allclose(there.outputs(), np.tanh(X @ w / 2) @ v / 2, rtol=1e-4, atol=1e-5)
    wide = Network(lambda p, x: x @ p, np.ones((7, 3), np.float32), batched=True)
    wide = Subject(wide, "cross_entropy", (np.ones((12, 7), np.float32), Y))
    with pytest.raises(SubjectError, match="start.onnx cannot be set beside this network: "):
        compare(wide, load_other("start.onnx", wide, asked))
    with pytest.raises(SubjectError, match="start.onnx"):
        at_checkpoint(wide, load_checkpoint("start.onnx", wide, asked), "start.onnx")


def test_an_output_by_its_name(files):
    one_hot = np.eye(3)[Y]
    np.savez("targets.npz", x=X, y=one_hot)
    plain = load("model.onnx", "targets.npz", loss="squared", output="p")
    np.testing.assert_allclose(np.asarray(plain.outputs()).sum(1), 1, rtol=1e-5)


def test_tables_and_images_say_what_their_classes_are(files, tmp_path):
    header = "a,b,c,d,y\n"
    rows = "\n".join(",".join(map(str, [*x, y])) for x, y in zip(X, Y, strict=True))
    (tmp_path / "train.csv").write_text(header + rows, encoding="utf-8")
    from_table = load("model.onnx", "train.csv", loss="cross_entropy")
    assert from_table.mean_loss() == pytest.approx(load("model.onnx", "train.npz", loss="cross_entropy").mean_loss())
    with pytest.raises(SubjectError, match="needs its loss: --loss NAME, one of cross_entropy, binary_cross_entropy"):
        load("model.onnx", "train.csv")


def test_columns_of_a_table_keep_their_names(tmp_path):
    (tmp_path / "people.csv").write_text("age,y,bmi,weights\n1,0,2,1\n")
    assert _named(tmp_path / "people.csv", np.zeros((40, 2)), None) == ["age", "bmi"]
    # of several inputs, and of arrays, columns have none
    assert _named(tmp_path / "people.csv", np.zeros((40, 3)), None) is None
    assert _named(tmp_path / "people.csv", np.zeros((40, 2)), {"x": "age"}) is None
    assert _named(tmp_path / "people.npz", np.zeros((40, 2)), None) is None


@pytest.mark.parametrize("x", [X[:0], X[0, 0]])
def test_data_without_an_example(files, x):
    np.savez("none.npz", x=x, y=Y[:0])
    with pytest.raises(SubjectError, match="^none.npz must hold at least one example, got an input of shape"):
        load("model.onnx", "none.npz", loss="cross_entropy")


def test_which_array_feeds_which_input(files):
    from onnx import TensorProto, helper, numpy_helper

    w, v = RNG.normal(size=(4, 3)).astype(np.float32), RNG.normal(size=(2, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["a", "w"], ["p"]),
            helper.make_node("MatMul", ["b", "v"], ["q"]),
            helper.make_node("Add", ["p", "q"], ["out"]),
        ],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", d]) for n, d in (("a", 4), ("b", 2))],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(x, name) for name, x in (("w", w), ("v", v))],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "two.onnx")
    np.savez("two.npz", left=X, right=X[:, :2], y=Y)
    subject = load("two.onnx", "two.npz", loss="cross_entropy", inputs={"a": "left", "b": "right"})
    np.testing.assert_allclose(subject.outputs(), X @ w + X[:, :2] @ v, rtol=1e-4, atol=1e-5)
    with pytest.raises(SubjectError, match="has no 'middle' for the input 'a': it holds 'left', 'right', 'y'"):
        load("two.onnx", "two.npz", loss="cross_entropy", inputs={"a": "middle"})
    with pytest.raises(SubjectError, match="'a', 'b', got 'left', 'right': give --input a=ARRAY --input b=ARRAY"):
        load("two.onnx", "two.npz", loss="cross_entropy")
    with pytest.raises(SubjectError) as caught:
        load("two.onnx", "two.npz", loss="cross_entropy", inputs={"a": "left"})
    assert "\n" not in str(caught.value)
