"""ONNX graphs: what is a parameter, what can be run, what is refused."""

import warnings

import jax
import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'corollary[onnx]'")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from corollary import Network, Subject  # noqa: E402
from corollary.audit.load import load  # noqa: E402
from corollary.network import _graph, _onnx  # noqa: E402

N, D, H, K = 12, 4, 5, 3
RNG = np.random.default_rng(0)
W, B = RNG.normal(size=(H, D)), RNG.normal(size=H)
V, C = RNG.normal(size=(H, K)), RNG.normal(size=K)
X, Y = RNG.normal(size=(N, D)).astype(np.float32), np.arange(N) % K
# float32 sums of a few numbers of size one
CLOSE = dict(rtol=1e-4, atol=1e-5)


def model(nodes, tensors, *, shape=("n", D), outputs=("out",), opset=17, kind=TensorProto.FLOAT):
    """A model of nodes `(operator, inputs, outputs, attributes)` and of stored tensors by name."""
    graph = helper.make_graph(
        [helper.make_node(op, inputs, outputs, **more) for op, inputs, outputs, more in nodes],
        "net",
        [helper.make_tensor_value_info("x", kind, list(shape))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "k"]) for name in outputs],
        [
            numpy_helper.from_array(np.asarray(t, np.float32 if np.asarray(t).dtype.kind == "f" else None), name)
            for name, t in tensors.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def mlp(last=(), **more):
    """Gemm, tanh, product and sum; scaled by a number, which is no parameter."""
    nodes = [
        ("Gemm", ["x", "W", "B"], ["a"], dict(transB=1)),
        ("Tanh", ["a"], ["h"], {}),
        ("Mul", ["h", "scale"], ["s"], {}),
        ("MatMul", ["s", "V"], ["m"], {}),
        ("Add", ["m", "C"], ["logits" if last else "out"], {}),
        *last,
    ]
    return model(nodes, dict(W=W, B=B, V=V, C=C, scale=np.array(0.5)), **more)


def expected(x=X):
    return 0.5 * np.tanh(x @ W.T + B) @ V + C


def test_a_file(tmp_path):
    onnx.save(mlp(), tmp_path / "net.onnx")
    network = Network.from_onnx(tmp_path / "net.onnx", X[0].astype(float))
    assert set(network.params) == {"W", "B", "V", "C"}
    assert network.notes == ("parameters: W, B, V, C.",)
    again = Network.from_onnx(str(tmp_path / "net.onnx"), X[0])
    subject = Subject(network, "cross_entropy", (X.astype(float), Y), initial=again)
    np.testing.assert_allclose(subject.outputs(), expected(), **CLOSE)
    jax.tree.map(np.testing.assert_array_equal, subject.initial_params, subject.params)
    p = np.exp(expected()) / np.exp(expected()).sum(axis=1, keepdims=True)
    delta = (p - np.eye(K)[Y]) / N
    gradient = jax.grad(subject.objective)(subject.params, subject.train).params
    np.testing.assert_allclose(gradient["C"], delta.sum(axis=0), **CLOSE)
    hidden = np.tanh(X @ W.T + B)
    np.testing.assert_allclose(gradient["V"], 0.5 * hidden.T @ delta, **CLOSE)
    np.testing.assert_allclose(gradient["W"], (0.5 * delta @ V.T * (1 - hidden**2)).T @ X, **CLOSE)


def test_any_number_of_examples_and_one_by_one():
    network = Network.from_onnx(mlp(shape=(1, D)), X[0])
    np.testing.assert_allclose(jax.vmap(network)(X[:5]), expected(X[:5]), **CLOSE)
    np.testing.assert_allclose(network(X[3]), expected(X[3]), **CLOSE)


@pytest.mark.parametrize("op", ["Softmax", "Sigmoid"])
def test_probabilities_are_taken_off_for_the_cross_entropy_alone(op, tmp_path):
    onnx.save(mlp([(op, ["logits"], ["out"], {})]), tmp_path / "net.onnx")
    np.savez(tmp_path / "labels.npz", x=X, y=Y)
    np.savez(tmp_path / "targets.npz", x=X, y=np.eye(K)[Y])
    subject = load(str(tmp_path / "net.onnx"), tmp_path / "labels.npz", loss="cross_entropy")
    np.testing.assert_allclose(subject.outputs(), expected(), **CLOSE)
    assert op in subject.notes[0]
    kept = load(str(tmp_path / "net.onnx"), tmp_path / "targets.npz", loss="squared").outputs()
    assert np.abs(kept).max() <= 1


def test_parameters_by_name():
    assert set(Network.from_onnx(mlp(), X[0], parameters=["V"]).params) == {"V"}
    with pytest.raises(ValueError, match="the parameter 'Q' is no floating-point initialiser"):
        Network.from_onnx(mlp(), X[0], parameters=["Q"])


def test_constants_are_told_from_parameters():
    """Statistics, bounds, exponents and shapes are constants; what is only turned before use is a parameter."""
    nodes = [
        ("Transpose", ["W"], ["turned"], dict(perm=[1, 0])),
        ("MatMul", ["x", "turned"], ["a"], {}),
        ("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["b"], {}),
        ("Clip", ["b", "low"], ["c"], {}),
        ("Pow", ["c", "two"], ["d"], {}),
        ("Constant", [], ["V"], dict(value=numpy_helper.from_array(V.astype(np.float32)))),
        ("Constant", [], ["shape"], dict(value_ints=[0, -1])),
        ("Reshape", ["d", "shape"], ["e"], {}),
        ("MatMul", ["e", "V"], ["out"], {}),
    ]
    tensors = dict(W=W, scale=B + 3, shift=B, mean=B / 2, variance=B**2, low=np.array(-0.5), two=np.array([2.0]))
    network = Network.from_onnx(model(nodes, tensors), X[0])
    assert set(network.params) == {"W", "scale", "shift", "V"}
    b = (X @ W.T - B / 2) / np.sqrt(B**2 + 1e-5) * (B + 3) + B
    np.testing.assert_allclose(jax.vmap(network)(X), np.maximum(b, -0.5) ** 2 @ V, rtol=1e-3, atol=1e-4)


def test_shapes_computed_in_the_graph_and_bytes_as_inputs():
    nodes = [
        ("Cast", ["x"], ["f"], dict(to=TensorProto.FLOAT)),
        ("Shape", ["f"], ["shape"], {}),
        ("Gather", ["shape", "zero"], ["n"], {}),
        ("Concat", ["n", "rest"], ["new"], dict(axis=0)),
        ("Reshape", ["f", "new"], ["flat"], {}),
        ("Gemm", ["flat", "W"], ["out"], dict(transB=1)),
    ]
    net = model(nodes, dict(W=W, zero=np.array([0]), rest=np.array([-1])), shape=("n", 2, 2), kind=TensorProto.UINT8)
    pixels = RNG.integers(0, 255, size=(N, 2, 2))
    network = Network.from_onnx(net, pixels[0].astype(float))
    np.testing.assert_allclose(
        jax.vmap(network)(pixels.astype(np.float32)), pixels.reshape(N, 4) @ W.T, rtol=1e-4, atol=1e-2
    )


def from_bytes(raw):
    def attempt(path):
        path.write_bytes(raw)
        return path

    return attempt


def too_short(path):
    net = mlp()
    net.graph.initializer[0].dims[0] -= 1
    path.write_bytes(net.SerializeToString())
    return path


def two_outputs():
    return mlp([("Identity", ["logits"], ["out"], {}), ("Relu", ["logits"], ["more"], {})], outputs=("out", "more"))


def two_inputs():
    net = mlp()
    net.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n"]))
    return net


REFUSED = {
    "no file": (lambda path: path, X, {}, "net.onnx is not a file"),
    "empty": (from_bytes(b""), X, {}, "not a readable ONNX file"),
    "corrupt": (from_bytes(b"\x08\x08" + bytes(range(200))), X, {}, "not a readable ONNX file"),
    "cut off": (from_bytes(mlp().SerializeToString()[:150]), X, {}, "not a readable ONNX file"),
    "a tensor that does not fill its shape": (too_short, X, {}, "not a readable ONNX file"),
    "shapes that do not fit": (
        lambda path: mlp([("Add", ["logits", "W"], ["out"], {})]),
        X,
        {},
        r"does not run on one example of shape \(4,\): the ONNX operator Add does not run here: TypeError",
    ),
    "unsupported": (
        lambda path: mlp(
            [("RandomNormalLike", [a], [b], {}) for a, b in (("logits", "r"), ("r", "s"))]
            + [("Multinomial", ["s"], ["out"], {})]
        ),
        X,
        {},
        r"operators that are not supported: Multinomial, RandomNormalLike \(2 times\)\.$",
    ),
    "foreign": (
        lambda path: mlp([("Strange", ["logits"], ["out"], dict(domain="somewhere"))]),
        X,
        {},
        "operators that are not supported: somewhere.Strange",
    ),
    "no parameters": (
        lambda path: model([("Relu", ["x"], ["out"], {})], {}),
        X,
        {},
        "the ONNX graph has no parameters",
    ),
    "two outputs": (lambda path: two_outputs(), X, {}, "has the outputs out, more: name one with output="),
    "unknown output": (
        lambda path: mlp(),
        X,
        dict(output="q"),
        "output must be one of out, or a value of the graph, got 'q'",
    ),
    "words as input": (
        lambda path: mlp(kind=TensorProto.STRING),
        X,
        {},
        "'x' of the ONNX graph must be of numbers",
    ),
    "two inputs": (lambda path: two_inputs(), X, {}, "has the inputs x, z: give a dictionary of arrays by name"),
    "other shape": (
        lambda path: mlp(),
        X[:, 1:],
        {},
        r"example must have the shape \(4,\) of the input 'x' of the graph, got \(3,\)",
    ),
    "other rank": (lambda path: mlp(), X[:, :, None], {}, r"must have the shape \(4,\) of the input 'x'"),
    "wrong without a declared shape": (
        lambda path: mlp(shape=("n", "d")),
        X[:, 1:],
        {},
        r"the ONNX graph does not run on one example of shape \(3,\): ",
    ),
    "a fixed batch": (
        lambda path: model(
            [("Reshape", ["x", "shape"], ["f"], {}), ("Gemm", ["f", "W"], ["out"], dict(transB=1))],
            dict(W=W, shape=np.array([6, 4])),
            shape=(6, 2, 2),
        ),
        X.reshape(N, 2, 2),
        {},
        "was exported for a fixed batch of 6: export it for one or any number of examples",
    ),
    "words": (lambda path: mlp(), X.astype(str), {}, "example must hold numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_sentence(case, tmp_path):
    source, x, more, sentence = REFUSED[case]
    with pytest.raises(ValueError, match=sentence) as caught:
        Network.from_onnx(source(tmp_path / "net.onnx"), x[0], **more)
    assert "\n" not in str(caught.value)


def test_one_output_of_several():
    network = Network.from_onnx(two_outputs(), X[0], output="more")
    np.testing.assert_allclose(jax.vmap(network)(X), np.maximum(expected(), 0), **CLOSE)


def test_an_operator_that_is_run_otherwise_than_the_standard_says(monkeypatch):
    monkeypatch.setattr(_onnx, "_by_onnxruntime", lambda model, output, x: (1.1 * expected(np.asarray(x["x"])), ""))
    with pytest.raises(ValueError, match=r"gives other numbers than onnxruntime, 0.09\d* of the largest apart"):
        Network.from_onnx(mlp(), X[0])


def test_without_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ValueError, match=r"pip install 'corollary\[onnx\]'"):
        Network.from_onnx(tmp_path / "net.onnx", X[0])


def both_inputs():
    """A bilinear form of two inputs, shifted by a third one that has no axis of examples."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "W"], ["a"]),
            helper.make_node("Mul", ["a", "z"], ["b"]),
            helper.make_node("Add", ["b", "shift"], ["out"]),
        ],
        "net",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", D]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", H]),
            helper.make_tensor_value_info("shift", TensorProto.FLOAT, []),
        ],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", H])],
        [numpy_helper.from_array(W.T.astype(np.float32), "W")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_several_inputs_by_name_or_in_turn():
    z, shift = RNG.normal(size=(N, H)).astype(np.float32), np.float32(0.5)
    expected = X @ W.T * z + shift
    network = Network.from_onnx(both_inputs(), {"x": X[0], "z": z[0], "shift": shift})
    np.testing.assert_allclose(jax.vmap(network)({"x": X, "z": z}), expected, **CLOSE)
    network = Network.from_onnx(both_inputs(), (X[0], z[0], shift))
    np.testing.assert_allclose(network((X[1], z[1], shift)), expected[1], **CLOSE)
    with pytest.raises(ValueError, match="example must have an array for each input of the graph, x, z, shift"):
        Network.from_onnx(both_inputs(), {"x": X[0], "z": z[0]})
    with pytest.raises(ValueError, match="has the inputs x, z, shift, got 2 arrays"):
        Network.from_onnx(both_inputs(), (X[0], z[0]))


def test_the_axis_of_examples_need_not_be_the_first():
    nodes = [("Transpose", ["x"], ["t"], dict(perm=[1, 0])), ("MatMul", ["t", "V"], ["out"], {})]
    net = model(nodes, dict(V=V), shape=(H, "n"))
    h = RNG.normal(size=(N, H)).astype(np.float32)
    np.testing.assert_allclose(jax.vmap(Network.from_onnx(net, h[0]))(h), h @ V, **CLOSE)


def test_weights_inside_the_branch_that_is_taken():
    """Of two branches only one runs; the weights of the other are no parameters."""

    def graph(name, w):
        node = helper.make_node("MatMul", ["x", "w"], [f"{name}_out"])
        made = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)
        return helper.make_graph([node], name, [], [made], [numpy_helper.from_array(w.astype(np.float32), "w")])

    net = model([("If", ["c"], ["out"], dict(then_branch=graph("a", W.T), else_branch=graph("b", -W.T)))], {})
    net.graph.initializer.append(numpy_helper.from_array(np.asarray(False), "c"))
    network = Network.from_onnx(net, X[0])
    assert len(network.params) == 1
    np.testing.assert_allclose(jax.vmap(network)(X), -X @ W.T, **CLOSE)


def test_quantised_weights_are_parameters_as_what_they_stand_for():
    whole = np.round(W.T * 20).astype(np.int8)
    nodes = [("DequantizeLinear", ["Q", "step"], ["weight"], {}), ("MatMul", ["x", "weight"], ["out"], {})]
    network = Network.from_onnx(model(nodes, dict(Q=whole, step=np.asarray(0.05))), X[0])
    np.testing.assert_allclose(network.params["weight"], whole * 0.05, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(network)(X), X @ (whole * 0.05), **CLOSE)
    assert any("quantised" in note for note in network.notes)


def test_statistics_and_large_constants_are_buffers():
    nodes = [
        ("MatMul", ["x", "W"], ["a"], {}),
        ("BatchNormalization", ["a", "one", "zero", "mean", "variance"], ["b"], {}),
        ("Sub", ["b", "table"], ["out"], {}),
    ]
    tensors = dict(W=W.T, one=B + 3, zero=B, mean=B, variance=B**2, table=np.ones((13, H)))
    network = Network.from_onnx(model(nodes, tensors), X[0])
    assert set(network.params) == {"W", "one", "zero"}
    assert set(network.buffers) == {"mean", "variance", "table"}


def test_two_readings_of_a_graph_are_one_program():
    other = mlp()
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array((2 * W).astype(np.float32), "W"))
    first, again, changed = (Network.from_onnx(net, X[0]) for net in (mlp(), mlp(), other))
    assert first.apply == again.apply == changed.apply
    assert first.apply != Network.from_onnx(mlp(), X[0], output="s").apply


def test_a_value_inside_the_graph():
    network = Network.from_onnx(mlp([("Softmax", ["logits"], ["out"], {})]), X[0], output="logits")
    np.testing.assert_allclose(jax.vmap(network)(X), expected(), **CLOSE)


ENDS = {
    "Softmax": [("Softmax", ["logits"], ["out"], {})],
    "LogSoftmax": [("LogSoftmax", ["logits"], ["p"], {}), ("Identity", ["p"], ["out"], {})],
    "Softmax and ArgMax": [("Softmax", ["logits"], ["p"], {}), ("ArgMax", ["p"], ["out"], dict(axis=1))],
    "ArgMax": [("ArgMax", ["logits"], ["out"], dict(axis=1))],
}


@pytest.mark.parametrize("taken", ENDS)
def test_what_is_taken_off_at_the_end(taken):
    net = mlp(ENDS[taken])
    assert _graph.take_off_probabilities(net) == taken
    np.testing.assert_allclose(jax.vmap(Network.from_onnx(net, X[0]))(X), expected(), **CLOSE)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["network", "linear"])
def test_labels_and_probabilities_of_scikit_learn(kind, classes):
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install skl2onnx")
    estimator = MLPClassifier((5,), max_iter=3) if kind == "network" else LogisticRegression()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # three steps do not converge
        fitted = make_pipeline(StandardScaler(), estimator).fit(X, np.arange(N) % classes)
    net = _graph.load(skl2onnx.to_onnx(fitted, X[:1]))
    probabilities = jax.vmap(Network.from_onnx(net, X[0]))(X)
    np.testing.assert_allclose(probabilities, fitted.predict_proba(X), **CLOSE)
    assert _graph.take_off_probabilities(net) == ("Sigmoid" if classes == 2 else "Softmax")
    network = Network.from_onnx(net, X[0])
    logits = np.asarray(jax.vmap(network)(X), float)
    logits = logits if classes > 2 else np.concatenate([0 * logits, logits], axis=1)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, fitted.predict_proba(X), **CLOSE)
    assert len(network.params) == (4 if kind == "network" else 2)


def test_bfloat16_and_float16_are_read_as_single_precision():
    for kind in (TensorProto.FLOAT16, TensorProto.BFLOAT16):
        net = mlp()
        for value in (*net.graph.input, *net.graph.output):
            value.type.tensor_type.elem_type = kind
        for i, tensor in enumerate(net.graph.initializer):
            values = numpy_helper.to_array(tensor)
            made = helper.make_tensor(tensor.name, kind, values.shape, values.ravel().tolist())
            net.graph.initializer[i].CopyFrom(made)
        network = Network.from_onnx(net, X[0])
        np.testing.assert_allclose(jax.vmap(network)(X), expected(), rtol=0.1, atol=0.1)
        assert "float16 and bfloat16 are computed as float32." in network.notes


def test_without_onnxruntime_it_is_said_that_nothing_was_checked(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    assert "the conversion was not checked: onnxruntime is not installed." in Network.from_onnx(mlp(), X[0]).notes
