"""Outputs of ONNX graphs by the statistics of a batch, and beside those of onnxruntime."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'corollary[onnx]'")

from corollary import Network  # noqa: E402
from corollary.network import _onnx  # noqa: E402

RNG = np.random.default_rng(0)
N, D, H = 12, 4, 5
X = RNG.normal(size=(N, D)).astype(np.float32)
W, B = RNG.normal(size=(H, D)).astype(np.float32), RNG.normal(size=H).astype(np.float32)
# float32 sums of a few numbers of size one
CLOSE = dict(rtol=1e-4, atol=1e-5)


def model(text, version=17, **tensors):
    """A model in ONNX's notation, with tensors that it stores."""
    graph = onnx.parser.parse_graph(text)
    graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(t), name) for name, t in tensors.items())
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)], ir_version=8)


def recomputed(network, x):
    return network.recomputed(network.params, network.buffers, x)


def test_batch_normalisation_by_the_statistics_of_a_batch_inside_a_branch():
    text = (
        "g (float[n, 4] x) => (float[n, 5] y) { a = Gemm <transB = 1> (x, W) "
        "b = If (yes) <then_branch = t () => (float[n, 5] c) { c = BatchNormalization(a, scale, shift, mean, var) }, "
        "else_branch = e () => (float[n, 5] d) { d = Identity(a) }> y = Tanh(b) }"
    )
    tensors = dict(W=W, scale=B + 3, shift=B, mean=B / 2, var=B**2, yes=np.array(True))
    network = Network.from_onnx(model(text, **tensors), X[0])
    a = X @ W.T
    normal = (a - a.mean(0)) / np.sqrt(a.var(0) + 1e-5) * (B + 3) + B
    np.testing.assert_allclose(recomputed(network, X), np.tanh(normal), **CLOSE)
    again = Network.from_onnx(model(text, **(tensors | dict(mean=B))), X[0])
    assert again.recomputed == network.recomputed  # which is compiled once
    plain = model("g (float[n, 4] x) => (float[n, 5] y) { y = Gemm <transB = 1> (x, W) }", W=W)
    assert Network.from_onnx(plain, X[0]).recomputed is None


def test_statistics_of_each_entry():
    norm = "a = BatchNormalization <spatial = 0> (x, s, s, s, s)"
    text = f"g (float[n, 2, 3] x) => (float[n, 6] y) {{ {norm} y = Flatten(a) }}"
    scale = np.resize(B**2, (2, 3))
    x = RNG.normal(size=(N, 2, 3)).astype(np.float32)
    network = Network.from_onnx(model(text, version=8, s=scale), x[0])
    normal = ((x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) + 1) * scale
    np.testing.assert_allclose(recomputed(network, x), normal.reshape(N, 6), **CLOSE)


@pytest.mark.parametrize("apart", [5e-9, 1e-5])
def test_small_probabilities_are_compared_as_parts_of_one(apart, monkeypatch):
    """A sigmoid far out rounds to a part of 1: what differs less is no disagreement, however small the number is."""
    text = "g (float[n, 4] x) => (float[n, 5] y) { a = Gemm <transB = 1> (x, W, low) y = Sigmoid(a) }"
    small = model(text, W=W, low=np.full(H, -18, np.float32))  # of 1.5e-8
    theirs = _onnx._by_onnxruntime(small, "y", {"x": 0 * X[:1]})[0] + apart
    monkeypatch.setattr(_onnx, "_by_onnxruntime", lambda *_: (theirs, ""))
    if apart < 1e-6:
        assert Network.from_onnx(small, 0 * X[0]).notes == ("parameters: W, low.",)
    else:
        with pytest.raises(ValueError, match="it gives other numbers than onnxruntime"):
            Network.from_onnx(small, 0 * X[0])
