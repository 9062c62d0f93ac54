"""Sums, means, extremes and norms along axes, positions of extremes, and running sums."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from corollary.onnx._table import integers, is_float, namespace, operator, static


def axes_of(node, x, axes):
    """The axes to reduce, from the input or the attribute: all of them if none are given; None if nothing is done."""
    given = node["axes"] if axes is None else integers(axes, f"the axes of {node.op}")
    if given:
        return tuple(axis % x.ndim for axis in given)
    return None if node["noop_with_empty_axes"] else tuple(range(x.ndim))


def reduction(name, of, entrywise=lambda x: x):
    """Enter a reduction `of(xp, x, axes, keepdims)`; without any axis to reduce it is a function of each entry."""

    def reduce(node, x, axes=None):
        axes = axes_of(node, x, axes)
        if axes is None:
            return entrywise(x)
        result = of(namespace(x), x, axes, bool(node["keepdims"]))
        return result if result.dtype == x.dtype else result.astype(x.dtype)

    operator(name)(reduce)


def norm(xp, x, axes, keepdims):
    """The Euclidean norm, whose derivative at zero is taken to be zero."""
    square = xp.sum(x * x, axis=axes, keepdims=keepdims)
    if xp is np:
        return np.sqrt(square)
    zero = square == 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, square)))


def extreme(function):
    """The largest or smallest entry; of none, the least or greatest number that there is."""

    def of(xp, x, axes, keepdims):
        if all(x.shape[axis] for axis in axes):
            return getattr(xp, function)(x, axis=axes, keepdims=keepdims)
        least, most = (-np.inf, np.inf) if is_float(x) else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
        return getattr(xp, function)(x, axis=axes, keepdims=keepdims, initial=least if function == "max" else most)

    return of


def log_sum_exp(xp, x, axes, keepdims):
    if xp is np:
        with np.errstate(divide="ignore"):
            return special.logsumexp(x, axis=axes, keepdims=keepdims)
    if not all(x.shape[axis] for axis in axes):
        return jnp.log(jnp.sum(jnp.exp(x), axis=axes, keepdims=keepdims))
    return jax.nn.logsumexp(x, axis=axes, keepdims=keepdims)


reduction("ReduceSum", lambda xp, x, a, k: xp.sum(x, axis=a, keepdims=k))
reduction("ReduceMean", lambda xp, x, a, k: xp.mean(x, axis=a, keepdims=k))
reduction("ReduceProd", lambda xp, x, a, k: xp.prod(x, axis=a, keepdims=k))
reduction("ReduceMax", extreme("max"))
reduction("ReduceMin", extreme("min"))
reduction("ReduceL1", lambda xp, x, a, k: xp.sum(xp.abs(x), axis=a, keepdims=k), abs)
reduction("ReduceL2", norm, abs)
reduction("ReduceLogSum", lambda xp, x, a, k: xp.log(xp.sum(x, axis=a, keepdims=k)), lambda x: namespace(x).log(x))
reduction("ReduceLogSumExp", log_sum_exp)
reduction("ReduceSumSquare", lambda xp, x, a, k: xp.sum(x * x, axis=a, keepdims=k), lambda x: x * x)


@operator("ArgMax", "ArgMin")
def position_of_extreme(node, x):
    """The first position of the largest (smallest) entry along an axis, or the last one if asked."""
    xp, axis = namespace(x), node["axis"]
    find = xp.argmax if node.op == "ArgMax" else xp.argmin
    last = node["select_last_index"]
    found = x.shape[axis] - 1 - find(xp.flip(x, axis), axis=axis) if last else find(x, axis=axis)
    return xp.expand_dims(found, axis) if node["keepdims"] else found


@operator("CumSum", "CumProd")
def cumulative(node, x, axis):
    """Sums (products) up to each entry along an axis; without the entry if `exclusive`, from the end if `reverse`."""
    xp, axis = namespace(x), int(static(axis, f"the axis of {node.op}").reshape(()))
    along = [slice(None)] * x.ndim
    neutral = 0 if node.op == "CumSum" else 1
    if node["reverse"]:
        x = xp.flip(x, axis)
    if node["exclusive"]:
        along[axis] = slice(0, x.shape[axis] - 1)
        pads = [(0, 0)] * x.ndim
        pads[axis] = (1, 0)
        x = xp.pad(x[tuple(along)], pads, constant_values=neutral)
    result = (xp.cumsum if node.op == "CumSum" else xp.cumprod)(x, axis=axis).astype(x.dtype)
    return xp.flip(result, axis) if node["reverse"] else result
