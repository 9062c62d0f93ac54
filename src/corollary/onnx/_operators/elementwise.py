"""Functions of each entry: arithmetic, elementary functions and activations."""

from __future__ import annotations

from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from corollary.onnx._table import is_float, namespace, operator, static

# functions that NumPy and JAX call by one name
for name, function in {
    "Abs": "abs",
    "Acos": "arccos",
    "Acosh": "arccosh",
    "Asin": "arcsin",
    "Asinh": "arcsinh",
    "Atan": "arctan",
    "Atanh": "arctanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "isnan",
    "Log": "log",
    "Neg": "negative",
    "Round": "round",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}.items():
    operator(name)(lambda node, x, function=function: getattr(namespace(x), function)(x))

ARITHMETIC = {"Add": "add", "Sub": "subtract", "Mul": "multiply"}


def aligned(node, x, y):
    """The arrays of a binary operator; before version 7 the second one's axes begin where `axis` says."""
    if node.version >= 7 or not node["broadcast"] or np.ndim(y) == 0:
        return x, y
    axis = node["axis"]
    first = x.ndim - y.ndim if axis is None else axis % x.ndim
    return x, y.reshape(*y.shape, *(1 for _ in range(x.ndim - first - y.ndim)))


for name, function in ARITHMETIC.items():
    operator(name)(
        lambda node, x, y, function=function: getattr(namespace(x, y), function)(*aligned(node, x, y)),
    )


@operator("Div")
def div(node, x, y):
    """The quotient, of integers towards zero."""
    x, y = aligned(node, x, y)
    xp = namespace(x, y)
    if is_float(x):
        with np.errstate(divide="ignore", invalid="ignore"):  # a graph may choose another value where y is 0
            return xp.divide(x, y)
    if xp is jnp:
        return jax.lax.div(*jnp.broadcast_arrays(x, y))
    y = y.astype(x.dtype)
    return (np.sign(x) * np.sign(y) * (np.abs(x) // np.maximum(np.abs(y), 1))).astype(x.dtype)


@operator("Mod")
def mod(node, x, y):
    """The remainder, with the sign of the divisor, or with that of the dividend if `fmod` is set."""
    xp = namespace(x, y)
    return xp.fmod(x, y) if node["fmod"] else xp.mod(x, y)


@operator("Pow")
def power(node, x, y):
    """The power, of the type of the base."""
    x, y = aligned(node, x, y)
    if is_float(x):
        # a small whole number that is known has a derivative at negative bases and at zero
        whole = isinstance(y, np.ndarray) and y.size == 1 and float(y.reshape(())) in range(-64, 65)
        exponent = int(y.reshape(())) if whole else y
        result = namespace(x, y).power(x, exponent)
        return result.reshape(np.broadcast_shapes(x.shape, np.shape(y)))
    xp = namespace(x, y)
    return xp.power(x.astype(np.float32) if is_float(y) else x, y).astype(x.dtype)


@operator("Max")
def maximum(node, *xs):
    return reduce(namespace(*xs).maximum, xs)


@operator("Min")
def minimum(node, *xs):
    return reduce(namespace(*xs).minimum, xs)


@operator("Sum")
def total(node, *xs):
    return reduce(namespace(*xs).add, xs)


@operator("Mean")
def mean(node, *xs):
    return reduce(namespace(*xs).add, xs) / len(xs)


@operator("Reciprocal")
def reciprocal(node, x):
    return 1 / x


@operator("Erf")
def erf(node, x):
    return jax.lax.erf(x) if namespace(x) is jnp else special.erf(x).astype(x.dtype)


@operator("IsInf")
def is_inf(node, x):
    xp = namespace(x)
    positive = node["detect_positive"] and xp.isposinf(x)
    return xp.logical_or(positive, node["detect_negative"] and xp.isneginf(x)) & xp.ones(x.shape, bool)


@operator("Clip")
def clip_by_attributes(node, x):
    return clip(node, x, node["min"], node["max"])


@operator("Clip", since=11)
def clip(node, x, low=None, high=None):
    """The smaller of `high` and the larger of `x` and `low`, each where it is given."""
    xp = namespace(x)
    x = x if low is None else xp.maximum(x, xp.asarray(low, x.dtype))
    return x if high is None else xp.minimum(x, xp.asarray(high, x.dtype))


@operator("Identity")
def identity(node, x):
    return x


@operator("Dropout")
def dropout(node, x, ratio=None, training=None):
    """Itself, and a mask that keeps everything: dropping out is for training."""
    if training is not None and np.asarray(static(training, "the mode of Dropout")).any():
        raise node.refuse("in training mode: export the network in inference mode")
    return (x, np.ones(x.shape, bool)) if len(node.outputs) > 1 else x


# ---- activations, in the notation of their definitions ----


@operator("Relu")
def relu(node, x):
    return jax.nn.relu(x)


@operator("LeakyRelu")
def leaky_relu(node, x):
    return jnp.where(x < 0, node["alpha"] * x, x)


@operator("PRelu")
def prelu(node, x, slope):
    if node.version < 7 and slope.ndim == 1 and slope.size > 1:  # one slope per channel
        slope = slope.reshape(-1, *(1 for _ in range(x.ndim - 2)))
    return jnp.where(x < 0, slope * x, x)


@operator("ThresholdedRelu")
def thresholded_relu(node, x):
    return jnp.where(x > node["alpha"], x, 0)


@operator("Elu")
def elu(node, x):
    return jnp.where(x < 0, node["alpha"] * jnp.expm1(jnp.minimum(x, 0)), x)


@operator("Celu")
def celu(node, x):
    return jnp.where(x < 0, node["alpha"] * jnp.expm1(jnp.minimum(x, 0) / node["alpha"]), x)


@operator("Selu")
def selu(node, x):
    return node["gamma"] * jnp.where(x < 0, node["alpha"] * jnp.expm1(jnp.minimum(x, 0)), x)


@operator("Sigmoid")
def sigmoid(node, x):
    return jax.nn.sigmoid(x)


@operator("HardSigmoid")
def hard_sigmoid(node, x):
    return jnp.maximum(0, jnp.minimum(1, node["alpha"] * x + node["beta"]))


@operator("HardSwish")
def hard_swish(node, x):
    return x * jnp.maximum(0, jnp.minimum(1, x / 6 + 0.5))


@operator("Swish")
def swish(node, x):
    alpha = 1.0 if node["alpha"] is None else node["alpha"]
    return x * jax.nn.sigmoid(alpha * x)


@operator("Mish")
def mish(node, x):
    return x * jnp.tanh(jax.nn.softplus(x))


@operator("Gelu")
def gelu(node, x):
    return jax.nn.gelu(x, approximate=node["approximate"] == "tanh")


@operator("Softplus")
def softplus(node, x):
    return jax.nn.softplus(x)


@operator("Softsign")
def softsign(node, x):
    return x / (1 + jnp.abs(x))


@operator("Shrink")
def shrink(node, x):
    bias, threshold = node["bias"], node["lambd"]
    return jnp.where(x < -threshold, x + bias, jnp.where(x > threshold, x - bias, 0)).astype(x.dtype)


def flattened(function):
    """A function along an axis as it was before version 13: along all axes from that one on, as if they were one."""

    def of_matrix(node, x):
        axis = node["axis"] % max(x.ndim, 1)
        return function(x.reshape(*x.shape[:axis], -1), axis=-1).reshape(x.shape)

    return of_matrix


def hardmax(x, axis):
    """One at the first largest entry along the axis, zero elsewhere."""
    return jax.nn.one_hot(jnp.argmax(x, axis), x.shape[axis], dtype=x.dtype, axis=axis)


for name, function in {"Softmax": jax.nn.softmax, "LogSoftmax": jax.nn.log_softmax, "Hardmax": hardmax}.items():
    operator(name)(flattened(function))
    operator(name, since=13)(lambda node, x, function=function: function(x, axis=node["axis"]))
