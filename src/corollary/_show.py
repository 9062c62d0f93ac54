"""How results print: their numbers to four digits, and the shapes of what is too large to read."""

import dataclasses
from typing import Any

import jax
import numpy as np

FEW = 6  # entries that are printed one by one
LOOKED_AT = 1 << 20  # larger arrays are not brought over from the device for the sake of a line of text


def shown(result: Any, names: tuple[str, ...] | None = None) -> str:
    """`Trace(value=3.142, error=0.02)`: the `__repr__` of results that are named tuples or Equinox modules.

    `names` are the attributes to show; the fields unless given. What a trace has not computed yet appears as its shape.
    """
    names = _fields(result) if names is None else names
    return f"{type(result).__name__}({', '.join(f'{n}={written(_attribute(result, n))}' for n in names)})"


def written(value: Any) -> str:
    """One value in few characters."""
    if _is_array(value):
        return _array(value)
    if value is None or isinstance(value, bool | int | str):
        return repr(value)
    if isinstance(value, float | complex):
        return f"{value:.4g}"
    if hasattr(value, "_fields") or type(value).__repr__ is shown:
        return shown(value)
    if isinstance(value, tuple | list) and len(value) <= FEW:
        inside = ", ".join(map(written, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    count = sum(leaf.size for leaf in jax.tree.leaves(value) if _is_array(leaf))
    return f"<{type(value).__name__}: {count:,} numbers>"


def _attribute(result, name: str):
    try:
        return getattr(result, name)
    except jax.errors.ConcretizationTypeError:  # a property that looks at numbers which a trace does not have
        return None


def _fields(result) -> tuple[str, ...]:
    if hasattr(result, "_fields"):
        return result._fields
    return tuple(field.name for field in dataclasses.fields(result))


def _is_array(value) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _array(value) -> str:
    form = f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, jax.core.Tracer | jax.ShapeDtypeStruct) or not 0 < value.size <= LOOKED_AT:
        return form
    try:
        numbers = np.asarray(value)
    except (RuntimeError, TypeError):  # deleted, on another machine, or a key
        return form
    if numbers.ndim == 0:
        return _number(numbers[()])
    if numbers.ndim > 1:
        real = numbers.dtype.kind not in "bc"
        return form + (f" from {_number(numbers.min())} to {_number(numbers.max())}" if real else "")
    if numbers.size <= FEW:
        return f"[{', '.join(map(_number, numbers))}]"
    return f"[{', '.join(map(_number, numbers[:3]))}, …, {_number(numbers[-1])}] ({numbers.size})"


def _number(value) -> str:
    if value.dtype.kind in "biu":
        return str(value)
    return f"{complex(value) if value.dtype.kind == 'c' else float(value):.4g}"
