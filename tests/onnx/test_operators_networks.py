"""The operators of networks beside onnxruntime, in what ONNX's own tests leave out: old versions, and all at once."""

import jax
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from corollary.onnx import run
from corollary.onnx._table import OnnxError

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def model(op, version, inputs, attributes, outputs=1):
    """One node; inputs that are integers are constants, None is one that is left out."""
    names = [f"x{k}" if a is not None else "" for k, a in enumerate(inputs)]
    given = [(n, np.asarray(a)) for n, a in zip(names, inputs, strict=True) if a is not None]
    constants = [helper.make_tensor(n, _type(a), a.shape, a.ravel()) for n, a in given if a.dtype.kind == "i"]
    graph = helper.make_graph(
        [helper.make_node(op, names, [f"y{k}" for k in range(outputs)], **attributes)],
        op,
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in given if a.dtype.kind == "f"],
        [helper.make_empty_tensor_value_info(f"y{k}") for k in range(outputs)],
        constants,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    made.ir_version = 10
    return made, {n: a for n, a in given if a.dtype.kind == "f"}


def _type(a):
    return helper.np_dtype_to_tensor_dtype(a.dtype)


IMAGE = normal(2, 4, 7, 6)
SEQUENCE = normal(5, 3, 4)
LENGTHS = np.array([5, 2, 3], np.int32)
BIDIRECTIONAL = {"direction": "bidirectional", "hidden_size": 3}
CASES = {
    "Upsample 7, nearest": ("Upsample", 7, [IMAGE], {"scales": [1.0, 1.0, 2.0, 1.5]}),
    "Upsample 9, linear": ("Upsample", 9, [IMAGE, "scales"], {"mode": "linear"}),
    "Resize 10, larger": ("Resize", 10, [IMAGE, "scales"], {}),
    "Resize 10, smaller": ("Resize", 10, [IMAGE, "small"], {}),
    "Resize 10, linear": ("Resize", 10, [IMAGE, "small"], {"mode": "linear"}),
    "Resize 13, cubic": ("Resize", 13, [IMAGE, None, "scales"], {"mode": "cubic", "exclude_outside": 1}),
    "Resize 18, without aliases": ("Resize", 18, [IMAGE, None, "small"], {"mode": "linear", "antialias": 1}),
    "BatchNormalization 7": (
        "BatchNormalization",
        7,
        [IMAGE, normal(4), normal(4), normal(4), np.abs(normal(4))],
        {"epsilon": 0.1},
    ),
    "GroupNormalization 18": ("GroupNormalization", 18, [IMAGE, normal(2), normal(2)], {"num_groups": 2}),
    "GroupNormalization 21": ("GroupNormalization", 21, [IMAGE, normal(4), normal(4)], {"num_groups": 2}),
    "LRN": ("LRN", 13, [IMAGE], {"size": 3, "alpha": 0.5}),
    "MaxPool, rounded up": (
        "MaxPool",
        12,
        [IMAGE],
        {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1], "ceil_mode": 1},
    ),
    "MaxPool with holes": (
        "MaxPool",
        12,
        [IMAGE],
        {"kernel_shape": [2, 2], "dilations": [3, 2], "pads": [0, 1, 1, 0]},
    ),
    "AveragePool, padding counted": (
        "AveragePool",
        22,
        [IMAGE],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1, "count_include_pad": 1},
    ),
    "LpPool": ("LpPool", 18, [IMAGE], {"kernel_shape": [2, 3], "p": 3, "pads": [1, 1, 0, 1]}),
    "Conv": (
        "Conv",
        11,
        [IMAGE, normal(6, 2, 3, 2), normal(6)],
        {"group": 2, "strides": [2, 1], "auto_pad": "SAME_UPPER"},
    ),
    "ConvTranspose to a shape": (
        "ConvTranspose",
        11,
        [IMAGE, normal(4, 3, 3, 3), normal(6)],
        {"group": 2, "strides": [2, 2], "output_shape": [15, 12]},
    ),
    "ConvTranspose with holes": (
        "ConvTranspose",
        11,
        [IMAGE, normal(4, 3, 3, 2)],
        {"dilations": [2, 1], "strides": [1, 2], "pads": [1, 0, 2, 1], "output_padding": [0, 1]},
    ),
    "LSTM with everything": (
        "LSTM",
        14,
        [
            SEQUENCE,
            normal(2, 12, 4),
            normal(2, 12, 3),
            normal(2, 24),
            LENGTHS,
            normal(2, 3, 3),
            normal(2, 3, 3),
            normal(2, 9),
        ],
        {
            **BIDIRECTIONAL,
            "clip": 1.5,
            "activations": ["HardSigmoid", "ScaledTanh", "Softsign", "Sigmoid", "Tanh", "Affine"],
            "activation_alpha": [0.3, 0.9, 0.8],
            "activation_beta": [0.4, 0.7, 0.1],
        },
        3,
    ),
    "LSTM with one gate less": (
        "LSTM",
        7,
        [SEQUENCE, normal(1, 12, 4), normal(1, 12, 3)],
        {"hidden_size": 3, "input_forget": 1},
        3,
    ),
    "GRU, reset before": (
        "GRU",
        14,
        [SEQUENCE, normal(2, 9, 4), normal(2, 9, 3), normal(2, 18), LENGTHS],
        BIDIRECTIONAL,
        2,
    ),
    "GRU, reset after": (
        "GRU",
        7,
        [SEQUENCE, normal(1, 9, 4), normal(1, 9, 3), normal(1, 18)],
        {"direction": "reverse", "hidden_size": 3, "linear_before_reset": 1},
        2,
    ),
    "RNN": (
        "RNN",
        14,
        [SEQUENCE, normal(2, 3, 4), normal(2, 3, 3), normal(2, 6), LENGTHS],
        {**BIDIRECTIONAL, "activations": ["Relu", "Elu"], "activation_alpha": [0.5]},
        2,
    ),
    "MaxRoiPool": (
        "MaxRoiPool",
        7,
        [IMAGE, np.array([[0, 0, 0, 5, 6], [1, 2.6, 1, 4, 9]], np.float32)],
        {"pooled_shape": [3, 2]},
    ),
    "RoiAlign": (
        "RoiAlign",
        16,
        [IMAGE, np.array([[0, 0, 3.5, 5], [-1, 1, 4, 9]], np.float32), np.array([1, 0])],
        {"output_height": 2, "output_width": 3, "sampling_ratio": 2},
    ),
    "DeformConv": (
        "DeformConv",
        22,
        [IMAGE, normal(6, 2, 3, 2), normal(2, 24, 5, 3), normal(6), normal(2, 12, 5, 3)],
        {"group": 2, "offset_group": 2, "strides": [1, 2], "pads": [0, 1, 0, 0]},
    ),
    "GridSample": ("GridSample", 16, [IMAGE, normal(2, 3, 3, 2)], {"mode": "bicubic", "padding_mode": "reflection"}),
    "DFT, half of it, back": ("DFT", 20, [normal(2, 5, 2), np.array(8)], {"inverse": 1, "onesided": 1}),
    "STFT": ("STFT", 17, [normal(2, 32, 1), np.array(4), np.abs(normal(8))], {}),
    "Attention": (
        "Attention",
        23,
        [normal(2, 3, 8), normal(2, 4, 4), normal(2, 4, 6), normal(3, 6), normal(2, 2, 2, 2), normal(2, 2, 2, 3)],
        {"q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1, "softcap": 2.0, "scale": 0.7},
        3,
    ),
}
SCALES = {"scales": np.array([1, 1, 1.7, 2], np.float32), "small": np.array([1, 1, 0.6, 0.5], np.float32)}


@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime_computes_it(name):
    op, version, inputs, attributes, *outputs = CASES[name]
    inputs = [SCALES[a] if isinstance(a, str) else a for a in inputs]
    made, given = model(op, version, inputs, attributes, *outputs)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    sized = any(a is scale for a in inputs for scale in SCALES.values())  # the shape of the output follows from values
    found = run(made, given) if sized else jax.jit(lambda given: run(made, given))(given)
    for ours, theirs in zip(found, session.run(None, given), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_what_is_refused():
    statistics = [IMAGE, normal(4), normal(4), normal(4), np.abs(normal(4))]
    with pytest.raises(OnnxError, match="BatchNormalization is not supported in training mode: export"):
        run(*model("BatchNormalization", 15, statistics, {"training_mode": 1}, 3))
    weights = [SEQUENCE, normal(1, 3, 4), normal(1, 3, 3)]
    with pytest.raises(OnnxError, match="RNN is not supported with the activation Cosine"):
        run(*model("RNN", 14, weights, {"hidden_size": 3, "activations": ["Cosine"]}, 2))


def test_quantised_recurrent_layer():
    """onnxruntime rounds inputs and states to eight bits as well: it differs by as much, ours is the layer itself."""
    w, r = (RNG.integers(-90, 90, (2, n, 12)).astype(np.int8) for n in (4, 3))
    scales = np.array([0.01, 0.02], np.float32), np.array([0.015, 0.01], np.float32)
    zeros = np.array([3, -2], np.int8), np.array([0, 5], np.int8)
    held = dict(w=w, r=r, ws=scales[0], wz=zeros[0], rs=scales[1], rz=zeros[1], b=normal(2, 24))
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    more = {"domain": "com.microsoft", "direction": "bidirectional", "hidden_size": 3}
    graph = helper.make_graph(
        [helper.make_node("DynamicQuantizeLSTM", names, ["y"], **more)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SEQUENCE.shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, name) for name, a in held.items()],
    )
    versions = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
    quantised = helper.make_model(graph, opset_imports=versions, ir_version=8)
    weights = [
        ((a.astype(np.float32) - z[:, None, None]) * s[:, None, None]).swapaxes(1, 2)
        for a, s, z in zip((w, r), scales, zeros, strict=True)
    ]
    plain, given = model("LSTM", 14, [SEQUENCE, *weights, held["b"]], BIDIRECTIONAL)
    ours = run(quantised, {"x": SEQUENCE})[0]
    np.testing.assert_allclose(ours, run(plain, given)[0], rtol=1e-6, atol=1e-6)
    session = onnxruntime.InferenceSession(quantised.SerializeToString(), providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, {"x": SEQUENCE})
    assert np.abs(ours - theirs).max() < 0.02
