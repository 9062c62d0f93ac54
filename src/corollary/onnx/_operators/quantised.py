"""Quantised operators as what they stand for, in floating point.

A quantised tensor is kept as the whole numbers that it holds, in floating point, and gradients pass through the
rounding: a derivative of a rounded function is zero almost everywhere and says nothing.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from corollary.onnx._model import defaults
from corollary.onnx._operators import recurrent
from corollary.onnx._operators.casting import small
from corollary.onnx._table import find, floating, namespace, operator


def spread(node, x, value):
    """Scale or zero point against x: a number, one per slice of an axis, or one per block along it."""
    if value is None or value.size == 1:
        return None if value is None else value.reshape(())
    axis, block = (1 if node["axis"] is None else node["axis"]) % x.ndim, node["block_size"]
    if value.ndim == 1 and not block:
        return value.reshape(-1, *(1 for _ in range(x.ndim - 1 - axis)))
    repeat = block or -(-x.shape[axis] // value.shape[axis])
    blocks = namespace(value).repeat(value, repeat, axis=axis)
    return blocks[tuple(slice(n) if i == axis else slice(None) for i, n in enumerate(x.shape))]


def limits(dtype):
    info = jnp.iinfo(dtype)
    return int(info.min), int(info.max)


def rounded(x):
    """The nearest whole number, half to even, with the derivative of x."""
    return np.round(x) if namespace(x) is np else x + jax.lax.stop_gradient(jnp.round(x) - x)


def quantise(x, scale, zero, dtype):
    """Whole numbers of an integer type that stand for x, in floating point."""
    low, high = limits(dtype)
    if namespace(x, scale) is jnp:  # or XLA multiplies by the reciprocal, which rounds the other way at some ties
        scale = jax.lax.optimization_barrier(jnp.broadcast_to(scale, jnp.shape(x)))
    nearest = rounded(x / scale)
    return namespace(nearest).clip(nearest if zero is None else nearest + zero.astype(x.dtype), low, high)


def dequantise(x, scale, zero):
    x = floating(x)
    return (x if zero is None else x - floating(zero)) * scale


@operator("QuantizeLinear")
def quantize_linear(node, x, scale, zero=None):
    from onnx import helper

    if zero is not None:
        dtype = zero.dtype
    else:
        dtype = helper.tensor_dtype_to_np_dtype(node["output_dtype"]) if node["output_dtype"] else np.dtype(np.uint8)
    x, scale, zero = floating(x), spread(node, x, floating(scale)), spread(node, x, zero)
    if jnp.issubdtype(dtype, jnp.floating):
        shifted = x / scale if zero is None else x / scale + floating(zero)
        return small(shifted, np.dtype(dtype), node["saturate"])
    return quantise(x, scale, zero, dtype)


@operator("DequantizeLinear")
def dequantize_linear(node, x, scale, zero=None):
    return dequantise(x, spread(node, x, floating(scale)), spread(node, x, zero))


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(node, x):
    """To whole numbers from 0 to 255 that reach from the least to the greatest entry, zero included."""
    xp = namespace(x)
    low, high = xp.minimum(0, xp.min(x)), xp.maximum(0, xp.max(x))
    scale = (high - low) / 255
    scale = xp.where(scale == 0, 1, scale).astype(x.dtype)
    zero = xp.clip(xp.round(-low / scale), 0, 255)
    return quantise(x, scale, zero, np.uint8), scale, zero


def per_row(value, ndim, axis):
    """A zero point or scale with one entry per row or column, against a matrix; a single one as it is."""
    if value is None or value.size == 1:
        return None if value is None else floating(value).reshape(())
    if value.ndim > 1:
        return floating(value)
    return floating(value).reshape(-1, 1) if axis == 0 else floating(value)


@operator("MatMulInteger")
def matmul_integer(node, a, b, a_zero=None, b_zero=None):
    a, b = floating(a), floating(b)
    a = a if a_zero is None else a - per_row(a_zero, a.ndim, 0)
    b = b if b_zero is None else b - per_row(b_zero, b.ndim, 1)
    return namespace(a, b).matmul(a, b)


@operator("QLinearMatMul")
def qlinear_matmul(node, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    a = dequantise(a, per_row(a_scale, a.ndim, 0), per_row(a_zero, a.ndim, 0))
    b = dequantise(b, per_row(b_scale, b.ndim, 1), per_row(b_zero, b.ndim, 1))
    y = namespace(a, b).matmul(a, b)
    return quantise(y, per_row(y_scale, y.ndim, 0), per_row(y_zero, y.ndim, 0), y_zero.dtype)


def convolution(node, x, w, bias=None):
    return find("", "Conv", node.version)(replace(node, op="Conv"), x, w, bias)


def per_output(value, w):
    """One number per output channel of a kernel."""
    return None if value is None else floating(value).reshape(-1, *(1 for _ in range(w.ndim - 1)))


@operator("ConvInteger")
def conv_integer(node, x, w, x_zero=None, w_zero=None):
    x, w = floating(x), floating(w)
    x = x if x_zero is None else x - floating(x_zero).reshape(())
    return convolution(node, x, w if w_zero is None else w - per_output(w_zero, w))


@operator("QLinearConv")
def qlinear_conv(node, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias=None):
    x = dequantise(x, x_scale.reshape(()), x_zero.reshape(()))
    bias = None if bias is None else floating(bias) * x_scale.reshape(()) * w_scale.reshape(-1)
    y = convolution(node, x, dequantise(w, per_output(w_scale, w), per_output(w_zero, w)), bias)
    return quantise(y, y_scale.reshape(()), y_zero.reshape(()), y_zero.dtype)


@operator("DynamicQuantizeLSTM", domain="com.microsoft")
def dynamic_quantize_lstm(
    node, x, w, r, bias=None, lengths=None, start=None, cell=None, peepholes=None, *scales_and_zeros
):
    """An LSTM of quantised weights, transposed; its inputs and states are not rounded here, as onnxruntime does."""

    def weights(value, scale, zero):
        scale, zero = (floating(a).reshape(value.shape[0], 1, -1) for a in (scale, zero))
        return dequantise(value, scale, zero).swapaxes(1, 2)

    w_scale, w_zero, r_scale, r_zero = scales_and_zeros
    node = replace(node, op="LSTM", attributes={**defaults("", "LSTM", 14), **node.attributes})
    w, r = weights(w, w_scale, w_zero), weights(r, r_scale, r_zero)
    return recurrent.lstm(node, x, w, r, bias, lengths, start, cell, peepholes)
