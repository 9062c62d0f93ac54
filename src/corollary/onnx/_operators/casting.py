"""Constants, and values of one type as another.

Floating-point numbers keep the precision in which the graph is computed: a cast among floating-point types leaves
them alone, halves are single precision.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from corollary.onnx._table import is_float, namespace, operator


@operator("Constant")
def constant(node):
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64),
                        ("value_ints", np.int64), ("value_string", object), ("value_strings", object)):  # fmt: skip
        if node[name] is not None:
            return np.asarray(node[name], dtype)
    return node["value"] if node["value"] is not None else node["sparse_value"]


@operator("Cast")
def cast(node, x):
    from onnx import helper

    if node["to"] == 8 or x.dtype.kind in "OSU":
        raise node.refuse("for strings")
    return converted(x, helper.tensor_dtype_to_np_dtype(node["to"]), node["saturate"])


@operator("CastLike")
def cast_like(node, x, like):
    if x.dtype.kind in "OSU" or like.dtype.kind in "OSU":
        raise node.refuse("for strings")
    return converted(x, like.dtype, node["saturate"])


def converted(x, dtype, saturate=True):
    """The values in another type; what is too large for a small float is its largest number, or NaN."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return x != 0
    if jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize == 1:
        return small(x, dtype, saturate)
    if jnp.issubdtype(dtype, jnp.floating):
        wide = np.dtype(np.float32) if dtype.itemsize < 4 else dtype
        if namespace(x) is np:
            return x.astype(wide)
        return x if is_float(x) and x.dtype.itemsize >= 4 else x.astype(jax.dtypes.canonicalize_dtype(wide))
    if namespace(x) is np:
        with np.errstate(invalid="ignore"):
            return x.astype(dtype)
    return x.astype(jax.dtypes.canonicalize_dtype(dtype))


def small(x, dtype, saturate):
    """The nearest number of a floating-point type of eight bits or fewer."""
    xp = namespace(x)
    largest = float(jnp.finfo(dtype).max)
    x = x.astype(np.float32)
    beyond = xp.abs(x) > largest
    rounded = xp.clip(x, -largest, largest).astype(dtype)
    if saturate is None or saturate:
        return rounded
    infinite = x.astype(dtype)
    return xp.where(beyond, infinite, rounded)
