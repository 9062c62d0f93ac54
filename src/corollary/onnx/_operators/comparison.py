"""Comparisons, logic, bits, and the choice by a condition."""

from __future__ import annotations

from corollary.onnx._operators.elementwise import aligned
from corollary.onnx._table import namespace, operator

for name, function in {
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}.items():
    operator(name)(lambda node, x, y, function=function: getattr(namespace(x, y), function)(*aligned(node, x, y)))


@operator("Not")
def logical_not(node, x):
    return namespace(x).logical_not(x)


@operator("BitwiseNot")
def bitwise_not(node, x):
    return namespace(x).bitwise_not(x)


@operator("BitShift")
def bit_shift(node, x, y):
    xp = namespace(x, y)
    return xp.left_shift(x, y) if node["direction"] == "LEFT" else xp.right_shift(x, y)


@operator("Where")
def where(node, condition, x, y):
    return namespace(condition, x, y).where(condition, x, y)
