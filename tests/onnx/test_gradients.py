"""Derivatives of every operator that has them, against finite differences, on the instances of ONNX's own tests.

A test gives an operator with its inputs, which are moved along a random direction in float64; the derivative of the
outputs along it, weighted at random, is compared with central differences of two steps. Where these disagree with each
other the instance lies on a kink or a jump, and says nothing.
"""

from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'corollary[onnx]'")

from corollary.onnx import _operators  # noqa: E402
from corollary.onnx._graph import function_of  # noqa: E402
from corollary.onnx._model import read  # noqa: E402
from corollary.onnx._table import OPERATORS  # noqa: E402
from corollary.onnx.run import checked  # noqa: E402

FAMILIES = [value for value in vars(_operators).values() if isinstance(value, ModuleType)]
STEP = 1e-5
# what has no derivative, or is constant almost everywhere
FLAT = {
    *("And", "Or", "Xor", "Not", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Equal", "Greater"),
    *("GreaterOrEqual", "Less", "LessOrEqual", "IsNaN", "IsInf", "Ceil", "Floor", "Round", "Sign", "ArgMax", "ArgMin"),
    *("Shape", "Size", "ConstantOfShape", "Constant", "Range", "NonZero", "OneHot", "EyeLike", "Hardmax", "Binarizer"),
    *("LabelEncoder", "OneHotEncoder", "NonMaxSuppression", "HannWindow", "HammingWindow", "BlackmanWindow"),
    *("MelWeightMatrix", "SequenceLength", "SequenceEmpty", "OptionalHasElement", "ImageDecoder", "StringNormalizer"),
    # roundings, through which gradients are passed on purpose
    *("QuantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv"),
    "DynamicQuantizeLSTM",
}
SETTINGS = ("scales", "roi")  # inputs that say what is done, and are no numbers to compute with
HEAD = '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]>'
# operators that ONNX has no test of with inputs and outputs of floating-point numbers
OWN = {
    "If": "(float[2,3] x, float[2,3] z, bool c) => (float[2,3] y) "
    "{ y = If (c) <then_branch = a () => (float[2,3] u) { u = Mul(x, z) }, "
    "else_branch = b () => (float[2,3] u) { u = Sub(x, z) }> }",
    "MaxRoiPool": "(float[1,2,6,6] x) => (float[1,2,2,2] y) "
    "{ r = Constant <value_floats = [0.0, 0.0, 0.0, 5.0, 5.0]> () s = Constant <value_ints = [1, 5]> () "
    "t = Reshape(r, s) y = MaxRoiPool <pooled_shape = [2, 2]> (x, t) }",
    "GlobalLpPool": "(float[1,2,3,3] x) => (float[1,2,1,1] y) { y = GlobalLpPool <p = 3> (x) }",
    "Trilu": "(float[3,4] x) => (float[3,4] y) { y = Trilu <upper = 0> (x) }",
    "FeatureVectorizer": "(float[2,3] x, float[2,2] z) => (float[2,4] y) "
    "{ y = ai.onnx.ml.FeatureVectorizer <inputdimensions = [2, 2]> (x, z) }",
    "Imputer": "(float[2,3] x) => (float[2,3] y) "
    "{ y = ai.onnx.ml.Imputer <imputed_value_floats = [1.0, 2.0, 3.0], replaced_value_float = 9.0> (x) }",
    "LinearClassifier": "(float[2,3] x) => (int64[2] l, float[2,2] y) "
    "{ l, y = ai.onnx.ml.LinearClassifier <coefficients = [0.1, 0.2, 0.3, -0.4, 0.5, 0.6], intercepts = [0.1, 0.2], "
    'classlabels_ints = [0, 1], post_transform = "SOFTMAX"> (x) }',
    "LinearRegressor": "(float[2,3] x) => (float[2,1] y) "
    "{ y = ai.onnx.ml.LinearRegressor <coefficients = [0.1, 0.2, 0.3], intercepts = [0.5]> (x) }",
    "Normalizer": '(float[2,3] x) => (float[2,3] y) { y = ai.onnx.ml.Normalizer <norm = "L2"> (x) }',
    "Scaler": "(float[2,3] x) => (float[2,3] y) "
    "{ y = ai.onnx.ml.Scaler <offset = [0.1, 0.2, 0.3], scale = [1.0, 2.0, 3.0]> (x) }",
    "ZipMap": "(float[2,3] x) => (float[2,3] y) { y = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1, 2]> (x) }",
}
SEQUENCES = (
    "(float[4,3] x, float[2,3] z) => (float[6,3] y) "
    "{ k = Constant <value_ints = [2, 2]> () s = SplitToSequence <axis = 0> (x, k) t = SequenceInsert(s, z) "
    "i = Constant <value_int = 0> () a = SequenceAt(t, i) e = SequenceErase(t, i) o = Optional(a) "
    "g = OptionalGetElement(o) f = SequenceConstruct(g, z) "
    "m = SequenceMap (e) <body = b (float[2,3] u) => (float[2,3] v) { v = Mul(u, u) }> "
    "p = ConcatFromSequence <axis = 0> (m) q = ConcatFromSequence <axis = 0> (f) y = Add(p, q) }"
)


class Own(NamedTuple):
    """An instance that is not ONNX's: a model in ONNX's notation, with inputs at random."""

    name: str
    model: onnx.ModelProto
    pairs: list


def own(name, text) -> Own:
    model = onnx.parser.parse_model(f"{HEAD} g {text}")
    rng, inputs = np.random.default_rng(0), {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        inputs[value.name] = rng.normal(size=shape).astype(np.float32) if shape else np.asarray(True)
    return Own(name, model, [(inputs, [])])


def family(module) -> list[str]:
    """The operators of a file, by the handlers that it has entered."""
    name = module.__name__
    return sorted(op for (_, op), handlers in OPERATORS.items() if any(h.__module__ == name for h in handlers.values()))


def instances(cases, op):
    """Tests of this operator alone with floating-point inputs of ordinary size, the smallest first."""
    if op in OWN:
        return [own(op, OWN[op])]

    def usable(case):
        floats = [v for v in case.pairs[0][0].values() if getattr(v, "dtype", np.dtype(int)).kind == "f"]
        return floats and all(np.isfinite(v).all() and np.abs(v).max(initial=0) < 1e3 for v in floats)

    found = [case for case in cases if case.operators() == {op} and "training" not in case.name and usable(case)]
    return sorted(found, key=lambda case: sum(np.size(v) for v in case.pairs[0][0].values()))


def differences(case) -> tuple[float, float, float]:
    """The derivative, and its estimate by two steps; NaN where the function is not differentiable there."""
    model = read(case.model)
    given = checked(model, case.pairs[0][0])
    rng = np.random.default_rng(0)
    given = {k: np.asarray(v) if k in SETTINGS else v for k, v in given.items()}
    moving = {k: np.asarray(v, float) for k, v in given.items() if isinstance(v, jax.Array)}
    fixed = {k: v for k, v in given.items() if k not in moving}
    run = function_of(model)

    def outputs(moving):
        return [v for v in jax.tree.leaves(run({}, {**fixed, **moving})) if jnp.issubdtype(v.dtype, jnp.floating)]

    # off the kinks at whole numbers, where tests like to lie
    start = {k: v + 1e-3 * rng.normal(size=v.shape) for k, v in moving.items()}
    along = {k: rng.normal(size=v.shape) for k, v in moving.items()}
    weights = [rng.normal(size=v.shape) for v in jax.eval_shape(outputs, start)]

    @jax.jit
    @jax.value_and_grad
    def value(t):
        moved = outputs({k: v + t * along[k] for k, v in start.items()})
        finite = [jnp.where(jnp.isfinite(v), v, 0) for v in moved]  # infinities of masks
        return sum(jnp.vdot(w, v) for w, v in zip(weights, finite, strict=True))

    near, far = ((float(value(h)[0]) - float(value(-h)[0])) / (2 * h) for h in (STEP, 2 * STEP))
    return float(value(0.0)[1]), near, far


def verdict(case) -> str | None:
    """What is wrong with a derivative, nothing if it is right; None if there is none to compare with."""
    with jax.enable_x64(True):
        exact, near, far = differences(case)
    # central differences are wrong by the order of the squared step, and by rounding over the step
    scale = max(abs(near), abs(far), 1.0)
    if not abs(near - far) <= 1e-6 * scale:
        return None
    return "" if abs(exact - near) <= 1e-5 * scale else f"{case.name}: {exact} instead of {near}"


@pytest.mark.parametrize("module", FAMILIES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_derivatives(cases, module):
    failures, missing = [], []
    for op in family(module):
        if op in FLAT or module is _operators.sequences:
            continue
        found = next((text for case in instances(cases, op) if (text := verdict(case)) is not None), None)
        failures += [found] if found else []
        missing += [op] if found is None else []
    assert not failures, "\n".join(failures)
    assert not missing, f"no instance: {', '.join(missing)}"


def test_derivatives_through_sequences():
    model = own("sequences", SEQUENCES)
    assert {node.op_type for node in model.model.graph.node} | FLAT >= set(family(_operators.sequences))
    assert verdict(model) == ""
