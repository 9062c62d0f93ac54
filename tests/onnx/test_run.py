"""Graphs run: what is known while tracing, branches and loops, functions, files that are damaged or incomplete."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import corollary

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'corollary[onnx]'")

from onnx import TensorProto, helper, numpy_helper, parser  # noqa: E402

from corollary.onnx._model import read  # noqa: E402

X = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)


def model(text, opset=18):
    """A model in ONNX's own notation."""
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "ai.onnx.ml" : 3, "mine" : 1]> g {text}')


SQUARE = "(float[2,3] x) => (float[2,3] y) { y = Mul(x, x) }"


def test_a_path_bytes_or_a_model(tmp_path):
    net = model(SQUARE)
    onnx.save(net, tmp_path / "net.onnx")
    for source in (tmp_path / "net.onnx", str(tmp_path / "net.onnx"), net.SerializeToString(), net):
        (y,) = corollary.onnx.run(source, {"x": X})
        np.testing.assert_array_equal(y, X * X)


def test_it_is_compiled_and_differentiated():
    net = model(SQUARE)
    gradient = jax.jit(jax.grad(lambda x: corollary.onnx.run(net, {"x": x})[0].sum()))(X)
    np.testing.assert_allclose(gradient, 2 * X)


def test_the_compiled_program_holds_what_the_network_does_and_nothing_else():
    """Shapes that are computed, casts and constants leave no trace."""
    net = model(
        "(float[n,3] x, float[3,4] w) => (float[n,4] y) "
        "{ s = Shape(x) i = Constant <value_int = 0> () n = Gather(s, i) z = Constant <value_ints = [0]> () "
        "n1 = Unsqueeze(n, z) k = Constant <value_ints = [-1]> () t = Concat <axis = 0> (n1, k) r = Reshape(x, t) "
        "c = Cast <to = 1> (r) d = Identity(c) e = Dropout(d) m = MatMul(e, w) y = Relu(m) }"
    )
    ours = jax.make_jaxpr(lambda x, w: corollary.onnx.run(net, {"x": x, "w": w})[0])(X, np.ones((3, 4), np.float32))
    names = [str(equation.primitive) for equation in ours.jaxpr.eqns]
    assert [n for n in names if n not in ("pjit", "jit", "custom_jvp_call", "reshape")] == ["dot_general"], names


def test_a_branch_that_is_known_and_one_that_is_not():
    net = model(
        "(float[2,3] x, bool c) => (float[2,3] y) { y = If (c) "
        "<then_branch = a () => (float[2,3] u) { u = Exp(x) }, else_branch = b () => (float[2,3] u) { u = Neg(x) }> }"
    )
    for c in (True, False):
        expected = np.exp(X) if c else -X
        np.testing.assert_allclose(corollary.onnx.run(net, {"x": X, "c": np.asarray(c)})[0], expected, rtol=1e-6)
        traced = jax.jit(lambda x, c: corollary.onnx.run(net, {"x": x, "c": c})[0])(X, c)
        np.testing.assert_allclose(traced, expected, rtol=1e-6)


def test_branches_of_two_shapes_cannot_be_compiled():
    net = model(
        "(float[2,3] x, bool c) => (float[n,m] y) { y = If (c) "
        "<then_branch = a () => (float[2,3] u) { u = Exp(x) }, else_branch = b () => (float[3,2] u) "
        "{ u = Transpose(x) }> }"
    )
    with pytest.raises(ValueError, match="two branches of an If give values of other shapes"):
        jax.jit(lambda x, c: corollary.onnx.run(net, {"x": x, "c": c}))(X, True)


LOOP = (
    "(float[2,3] x, int64 n) => (float[2,3] y, float[k,2,3] all) { t = Constant <value = bool {1}> () "
    "y, all = Loop (n, t, x) <body = b (int64 i, bool go, float[2,3] s) => (bool on, float[2,3] u, float[2,3] v) "
    "{ on = Identity(go) f = Cast <to = 1> (i) w = Add(s, f) h = Constant <value_float = 0.5> () "
    "u = Mul(w, h) v = Identity(u) }> }"
)


@pytest.mark.parametrize("steps", [0, 3, 12])
def test_a_loop_of_a_known_number_of_steps(steps):
    """Written out if it is short, one scan if it is long: the program does not grow with it."""
    net = model(LOOP)
    state, states = X, []
    for i in range(steps):
        state = (state + i) / 2
        states.append(state)

    def run(x):
        return corollary.onnx.run(net, {"x": x, "n": np.asarray(steps)})

    y, collected = jax.jit(run)(X)
    np.testing.assert_allclose(y, state, rtol=1e-6)
    np.testing.assert_allclose(collected, np.stack(states) if steps else np.zeros((0, 2, 3)), rtol=1e-6)
    assert ("scan" in str(jax.make_jaxpr(lambda x: run(x)[0])(X))) == (steps > 8)


@pytest.mark.parametrize("steps", [0, 3, 12])
def test_a_loop_that_counts_its_own_steps(steps):
    """As recurrent layers are exported: the end is known while tracing, and a long loop is one scan."""
    net = model(
        "(float[2,3] x, int64 n) => (float[2,3] y, float[k,2,3] all) { z = Constant <value_int = 0> () t = Less(z, n) "
        "last, y, all = Loop (, t, z, x) <body = b (int64 i, bool go, int64 k, float[2,3] s) => "
        "(bool on, int64 next, float[2,3] u, float[2,3] v) { one = Constant <value_int = 1> () next = Add(k, one) "
        "on = Less(next, n) f = Cast <to = 1> (k) w = Add(s, f) h = Constant <value_float = 0.5> () "
        "u = Mul(w, h) v = Identity(u) }> }"
    )
    state, states = X, []
    for i in range(steps):
        state = (state + i) / 2
        states.append(state)

    def run(x):
        return corollary.onnx.run(net, {"x": x, "n": np.asarray(steps)})

    y, collected = jax.jit(run)(X)
    np.testing.assert_allclose(y, state, rtol=1e-6)
    np.testing.assert_allclose(collected, np.stack(states) if steps else np.zeros((0, 2, 3)), rtol=1e-6)
    assert ("scan" in str(jax.make_jaxpr(lambda x: run(x)[0])(X))) == (steps > 8)


@pytest.mark.parametrize("condition", ["", "t"])
def test_a_loop_without_an_end_is_refused(condition):
    net = model(
        "(float[2,3] x) => (float[2,3] y) { t = Constant <value = bool {1}> () "
        f"y = Loop (, {condition}, x) <body = b (int64 i, bool go, float[2,3] s) => (bool on, float[2,3] u) "
        "{ on = Identity(go) u = Add(s, s) }> }"
    )
    with pytest.raises(
        ValueError, match="a Loop of the ONNX graph has no number of steps, and no condition that ends it"
    ):
        corollary.onnx.run(net, {"x": X})


def test_a_loop_that_ends_when_its_values_say_so():
    net = model(
        "(float[2,3] x, float limit) => (float[2,3] y) { n = Constant <value_int = 1000> () "
        "t = Constant <value = bool {1}> () "
        "y = Loop (n, t, x) <body = b (int64 i, bool go, float[2,3] s) => (bool on, float[2,3] u) "
        "{ u = Add(s, s) m = ReduceMax <keepdims = 0> (u) on = Less(m, limit) }> }"
    )
    expected = X
    while True:
        expected = expected + expected
        if expected.max() >= 100:
            break
    inputs = {"x": X, "limit": np.float32(100)}
    np.testing.assert_allclose(corollary.onnx.run(net, inputs)[0], expected, rtol=1e-6)
    traced = jax.jit(lambda x, limit: corollary.onnx.run(net, {"x": x, "limit": limit})[0])(X, np.float32(100))
    np.testing.assert_allclose(traced, expected, rtol=1e-6)


def test_a_function_of_the_model_with_an_attribute_of_its_own():
    net = model(
        "(float[2,3] x) => (float[2,3] y) { y = mine.Leak <slope = 0.25> (x) } "
        '<domain: "mine", opset_import: ["" : 18]> Leak <slope> (a) => (b) '
        "{ b = LeakyRelu <alpha : float = @slope> (a) }"
    )
    np.testing.assert_allclose(corollary.onnx.run(net, {"x": X})[0], np.where(X < 0, X / 4, X), rtol=1e-6)


def test_halves_are_raised_and_quantised_graphs_are_told():
    w = numpy_helper.from_array(np.ones(3, np.float16), "w")
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [2, 3])],
        [w],
    )
    net = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    assert corollary.onnx.run(net, {"x": X.astype(np.float16)})[0].dtype == jnp.float32
    assert read(net).notes == ("float16 and bfloat16 are computed as float32.",)


def test_gradients_pass_through_roundings():
    net = model(
        "(float[2,3] x) => (float[2,3] y) { s = Constant <value_float = 0.5> () z = Constant <value = uint8 {128}> () "
        "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"
    )
    np.testing.assert_allclose(corollary.onnx.run(net, {"x": X})[0], np.round(2 * X) / 2)
    np.testing.assert_allclose(jax.grad(lambda x: corollary.onnx.run(net, {"x": x})[0].sum())(X), np.ones_like(X))
    assert "quantised" in read(net).notes[0]


def test_external_data_that_is_missing(tmp_path):
    net = model("(float[2,3] x) => (float[2,3] y) <float[3] w = {1.0, 2.0, 3.0}> { y = Mul(x, w) }")
    net.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.float32([1, 2, 3]), "w"))
    onnx.save(net, tmp_path / "net.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    np.testing.assert_allclose(corollary.onnx.run(tmp_path / "net.onnx", {"x": X})[0], X * [1, 2, 3], rtol=1e-6)
    with pytest.raises(ValueError, match="lies in a file of its own: give the path of the model"):
        corollary.onnx.run((tmp_path / "net.onnx").read_bytes(), {"x": X})
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ValueError, match=r"keeps tensors in weights.bin, which must lie beside it"):
        corollary.onnx.run(tmp_path / "net.onnx", {"x": X})


def too_short():
    net = model("(float[2,3] x) => (float[2,3] y) <float[3] w = {1.0, 2.0, 3.0}> { y = Mul(x, w) }")
    net.graph.initializer[0].dims[0] = 7
    return net


REFUSED = {
    "an input that is missing": (lambda: model(SQUARE), {}, "needs the inputs x: x is missing"),
    "an input too many": (lambda: model(SQUARE), {"x": X, "z": X}, "has the inputs x: z is none of them"),
    "an older version": (lambda: model(SQUARE, 5), {"x": X}, "version 5 of the operator set, which must be 6 to 28"),
    "a newer version": (lambda: model(SQUARE, 29), {"x": X}, "version 29 of the operator set"),
    "a tensor that does not fill its shape": (too_short, {"x": X}, "not a readable ONNX file"),
    "a constant without end": (
        lambda: model("(int64[2] x) => (float[n,m] y) { y = ConstantOfShape(x) }"),
        {"x": np.asarray([10**6, 10**6])},
        r"ConstantOfShape would make a constant of shape \(1000000, 1000000\)",
    ),
    "missing operators": (
        lambda: model("(float[2,3] x) => (float[2,3] y) { a = mine.F(x) b = mine.F(a) y = RandomNormalLike(b) }"),
        {"x": X},
        r"not supported: RandomNormalLike, mine.F \(2 times\)\.$",
    ),
    "shapes that do not fit": (
        lambda: model("(float[2,3] x, float[2,2] z) => (float[2,3] y) { y = Add(x, z) }"),
        {"x": X, "z": X[:, :2]},
        "the ONNX operator Add does not run here: TypeError",
    ),
    "a value that is not there": (
        lambda: model("(float[2,3] x) => (float[2,3] y) { y = Add(x, nothing) }"),
        {"x": X},
        "uses 'nothing' before it is computed",
    ),
    "training mode": (
        lambda: model(
            "(float[2,3] x) => (float[2,3] y) { r = Constant <value_float = 0.5> () t = Constant <value = bool {1}> () "
            "y = Dropout(x, r, t) }"
        ),
        {"x": X},
        "Dropout is not supported in training mode: export the network in inference mode",
    ),
    "words": (
        lambda: model("(float[2,3] x) => (string[2,3] y) { y = Cast <to = 8> (x) }"),
        {"x": X},
        "Cast is not supported for strings",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_sentence(case):
    net, inputs, sentence = REFUSED[case]
    with pytest.raises(ValueError, match=sentence) as caught:
        corollary.onnx.run(net(), inputs)
    assert "\n" not in str(caught.value)


def test_what_is_only_known_when_the_program_runs():
    net = model("(float[2,3] x, int64[2] shape) => (float[n,m] y) { y = Reshape(x, shape) }")
    assert corollary.onnx.run(net, {"x": X, "shape": np.asarray([3, 2])})[0].shape == (3, 2)
    with pytest.raises(ValueError, match="the shape of Reshape must follow from shapes and constants"):
        jax.jit(lambda x, shape: corollary.onnx.run(net, {"x": x, "shape": shape}))(X, np.asarray([3, 2]))
