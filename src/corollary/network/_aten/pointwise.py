"""Operators on each entry, without the activation functions: arithmetic, comparisons, elementary functions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from corollary.network._aten.table import OPERATORS, aten

# the operators of one argument that JAX has under a name of its own, with the same derivative everywhere
UNARY = {
    "neg": jnp.negative,
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "log": jnp.log,
    "log2": jnp.log2,
    "log10": jnp.log10,
    "log1p": jnp.log1p,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tan": jnp.tan,
    "asin": jnp.arcsin,
    "acos": jnp.arccos,
    "atan": jnp.arctan,
    "sinh": jnp.sinh,
    "cosh": jnp.cosh,
    "tanh": jnp.tanh,
    "asinh": jnp.arcsinh,
    "acosh": jnp.arccosh,
    "atanh": jnp.arctanh,
    "sqrt": jnp.sqrt,
    "rsqrt": lax.rsqrt,
    "square": jnp.square,
    "reciprocal": jnp.reciprocal,
    "sign": jnp.sign,
    "sgn": jnp.sign,
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "trunc": jnp.trunc,
    "erf": jax.scipy.special.erf,
    "erfc": jax.scipy.special.erfc,
    "erfinv": jax.scipy.special.erfinv,
    "lgamma": jax.scipy.special.gammaln,
    "digamma": jax.scipy.special.digamma,
    "logical_not": jnp.logical_not,
    "bitwise_not": jnp.bitwise_not,
    "isnan": jnp.isnan,
    "isinf": jnp.isinf,
    "isfinite": jnp.isfinite,
}
# and of two arguments; where both are equal, half of the derivative of a maximum goes to each, as in PyTorch
BINARY = {
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "max.other": jnp.maximum,
    "min.other": jnp.minimum,
    "atan2": jnp.arctan2,
    "fmod": jnp.fmod,
    "remainder": jnp.remainder,
    "floor_divide": jnp.floor_divide,
    "logical_and": jnp.logical_and,
    "logical_or": jnp.logical_or,
    "logical_xor": jnp.logical_xor,
    "bitwise_and": jnp.bitwise_and,
    "bitwise_or": jnp.bitwise_or,
    "bitwise_xor": jnp.bitwise_xor,
    "__and__": jnp.bitwise_and,
    "__or__": jnp.bitwise_or,
    "bitwise_left_shift": jnp.left_shift,
    "bitwise_right_shift": jnp.right_shift,
    "logaddexp": jnp.logaddexp,
    "hypot": jnp.hypot,
    "eq": jnp.equal,
    "ne": jnp.not_equal,
    "lt": jnp.less,
    "le": jnp.less_equal,
    "gt": jnp.greater,
    "ge": jnp.greater_equal,
}


def _unary(function):
    return lambda self: function(_floating(self) if function in _OF_FLOATS else self)


def _binary(function):
    return lambda self, other: function(self, other)


def _floating(a):
    return a if jnp.issubdtype(a.dtype, jnp.inexact) else a.astype(float)


_OF_FLOATS = {lax.rsqrt, *(f for f in UNARY.values() if getattr(f, "__module__", "").startswith("jax.scipy"))}
OPERATORS.update({name: _unary(function) for name, function in UNARY.items()})
OPERATORS.update({name: _binary(function) for name, function in BINARY.items()})


@aten("add")
def add(self, other, alpha=1):
    return jnp.add(self, other if alpha == 1 else other * alpha)


@aten("sub", "subtract")
def sub(self, other, alpha=1):
    return jnp.subtract(self, other if alpha == 1 else other * alpha)


@aten("rsub")
def rsub(self, other, alpha=1):
    return sub(other, self, alpha)


@aten("mul", "multiply")
def mul(self, other):
    return jnp.multiply(self, other)


@aten("div", "divide", "true_divide")
def div(self, other, rounding_mode=None):
    if rounding_mode == "floor":
        return jnp.floor_divide(self, other)
    quotient = jnp.true_divide(self, other)
    return jnp.trunc(quotient) if rounding_mode == "trunc" else quotient


@aten("abs")
def absolute(self):
    """With the derivative 0 at 0; that of `jnp.abs` is 1 there."""
    return self * lax.stop_gradient(jnp.sign(self))


@aten("pow")
def power(self, exponent):
    return jnp.power(self, exponent)


@aten("float_power")
def float_power(self, exponent):
    return jnp.power(_floating(jnp.asarray(self)), exponent)


@aten("round")
def round_(self, decimals=0):
    return jnp.round(self, decimals)


@aten("frac")
def frac(self):
    return self - jnp.trunc(self)


@aten("fmax")
def fmax(self, other):
    return jnp.where((self >= other) | jnp.isnan(other), self, other)


@aten("fmin")
def fmin(self, other):
    return jnp.where((self <= other) | jnp.isnan(other), self, other)


@aten("clamp", "clip")
def clamp(self, min=None, max=None):
    """At a bound itself the derivative is 1; `jnp.clip` has one half there."""
    out = self if min is None else jnp.where(self < min, min, self)
    return out if max is None else jnp.where(out > max, max, out)


@aten("clamp_min")
def clamp_min(self, min):
    return clamp(self, min)


@aten("clamp_max")
def clamp_max(self, max):
    return clamp(self, None, max)


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(condition, self, other):
    return jnp.where(condition, self, other)


@aten("masked_fill")
def masked_fill(self, mask, value):
    return jnp.where(mask, value, self)


@aten("lerp")
def lerp(self, end, weight):
    return self + weight * (end - self)


@aten("addcmul")
def addcmul(self, tensor1, tensor2, value=1):
    return self + value * tensor1 * tensor2


@aten("addcdiv")
def addcdiv(self, tensor1, tensor2, value=1):
    return self + value * tensor1 / tensor2


@aten("nan_to_num")
def nan_to_num(self, nan=None, posinf=None, neginf=None):
    return jnp.nan_to_num(self, nan=nan or 0.0, posinf=posinf, neginf=neginf)


@aten("isin")
def isin(elements, test_elements, invert=False):
    return jnp.isin(elements, test_elements, invert=invert)


@aten("to", "_to_copy", "type_as")
def to(self, dtype=None, other=None):
    dtype = other.dtype if other is not None else dtype
    return self if dtype is None else self.astype(dtype)
