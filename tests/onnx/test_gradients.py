"""Derivatives of every operator that has them, against finite differences, on the instances of ONNX's own tests.

A test gives an operator with its inputs, which are moved along a random direction in float64; the derivative of the
outputs along it, weighted at random, is compared with central differences of two steps. Where these disagree with each
other the instance lies on a kink or a jump, and says nothing.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.onnx import _operators
from corollary.onnx._graph import function_of
from corollary.onnx._model import read
from corollary.onnx._table import OPERATORS
from corollary.onnx.run import checked

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
}
PER_OPERATOR = 2  # instances: the others differ in shapes
# operators for which ONNX has no test with inputs and outputs of floating-point numbers, each with its test elsewhere
ELSEWHERE: dict[str, str] = {}


def family(module) -> list[str]:
    """The operators of a file, by the handlers that it has entered."""
    name = module.__name__
    return sorted(op for (_, op), handlers in OPERATORS.items() if any(h.__module__ == name for h in handlers.values()))


def instances(cases, op):
    """Tests of this operator alone with floating-point inputs, the smallest first."""
    found = [
        case
        for case in cases
        if {node.op_type for node in case.model.graph.node} == {op}
        and "training" not in case.name
        and any(getattr(v, "dtype", np.dtype(int)).kind == "f" for v in case.pairs[0][0].values())
    ]
    return sorted(found, key=lambda case: sum(np.size(v) for v in case.pairs[0][0].values()))[:PER_OPERATOR]


def differences(case) -> tuple[float, float, float]:
    """The derivative, and its estimate by two steps; NaN where the function is not differentiable there."""
    model = read(case.model)
    given = checked(model, case.pairs[0][0])
    key = iter(jax.random.split(jax.random.key(0), 64))
    moving = {k: v.astype(float) for k, v in given.items() if isinstance(v, jax.Array)}
    fixed = {k: v for k, v in given.items() if k not in moving}
    run = function_of(model)

    def outputs(moving):
        return [v for v in jax.tree.leaves(run({}, {**fixed, **moving})) if jnp.issubdtype(v.dtype, jnp.floating)]

    # off the kinks at whole numbers, where tests like to lie
    start = {k: v + 1e-3 * jax.random.normal(next(key), v.shape) for k, v in moving.items()}
    along = {k: jax.random.normal(next(key), v.shape) for k, v in moving.items()}
    weights = [jax.random.normal(next(key), v.shape) for v in jax.eval_shape(outputs, start)]

    @jax.jit
    def value(t):
        moved = outputs({k: v + t * along[k] for k, v in start.items()})
        finite = [jnp.where(jnp.isfinite(v), v, 0) for v in moved]  # infinities of masks
        return sum(jnp.vdot(w, v) for w, v in zip(weights, finite, strict=True))

    exact, (near, far) = jax.grad(value)(0.0), [(value(h) - value(-h)) / (2 * h) for h in (STEP, 2 * STEP)]
    return float(exact), float(near), float(far)


@pytest.mark.parametrize("module", _operators.FAMILIES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_derivatives(cases, module):
    failures, tried = [], set()
    for op in family(module):
        if op in FLAT:
            continue
        for case in instances(cases, op):
            with jax.enable_x64(True):
                try:
                    exact, near, far = differences(case)
                except ValueError as error:
                    failures.append(f"{case.name}: {error}")
                    continue
            # central differences are wrong by the order of the squared step, and by rounding over the step
            scale = max(abs(near), abs(far), 1.0)
            if abs(near - far) > 1e-6 * scale:
                continue
            tried.add(op)
            if not abs(exact - near) <= 1e-5 * scale:
                failures.append(f"{case.name}: {exact} instead of {near}")
    missing = set(family(module)) - FLAT - tried - ELSEWHERE.keys()
    assert not failures, "\n".join(failures)
    assert not missing, f"no instance: {', '.join(sorted(missing))}"
