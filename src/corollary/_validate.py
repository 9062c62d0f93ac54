"""Arguments checked at the boundary: one sentence naming the argument, what came and what is expected.

Shapes and types are always known and always checked. Values are checked where they are concrete; inside a
trace (`jit`, `vmap`, `grad`) they are not there to be looked at. They are looked at with NumPy: a JAX operation on a
concrete array inside a trace is traced too.
"""

import jax
import jax.numpy as jnp
import numpy as np


def concrete(value) -> bool:
    """Whether the numbers of `value` can be looked at now."""
    return not isinstance(value, jax.core.Tracer)


def real(name: str, value, shape: str | None = None, dims: dict | None = None, *, finite: bool = True):
    """`value` as a real floating-point array of the given shape.

    `shape` names the axes, as in `"n d"`; `""` is a scalar, a leading `...` allows any batch axes, digits fix an
    axis. `dims` binds the names over several arguments: what the first one binds, the others must match.
    """
    out = _array(name, value)
    if jnp.issubdtype(out.dtype, jnp.complexfloating):
        raise TypeError(f"{name} must be real, got dtype {out.dtype}.")
    if not jnp.issubdtype(out.dtype, jnp.floating):
        out = out.astype(jnp.result_type(float))
    _match(name, out.shape, shape, dims)
    # look at what came: in a trace even the conversion of a constant is traced
    if finite and all(map(concrete, jax.tree.leaves(value))) and not _finite(value):
        seen = np.asarray(value, float)
        raise ValueError(f"{name} must be finite, got {_offender(seen, ~np.isfinite(seen))}.")
    return out


def labels(name: str, value, classes: int | None, shape: str = "n", dims: dict | None = None):
    """`value` as integer class labels in `0..classes-1` (any non-negative integers when `classes` is None)."""
    out = _array(name, value)
    if not (jnp.issubdtype(out.dtype, jnp.integer) or out.dtype == jnp.bool_):
        if not concrete(out):
            raise TypeError(f"{name} must hold integer class labels, got dtype {out.dtype}.")
        if (broken := (v := np.asarray(out)) != np.round(v)).any():
            raise ValueError(f"{name} must hold whole numbers as class labels, got {_offender(out, broken)}.")
    _match(name, out.shape, shape, dims)
    if concrete(out):
        v = np.asarray(out)
        bad = v < 0 if classes is None else (v < 0) | (v >= classes)
        if bad.any():
            expected = "0 or more" if classes is None else f"0 to {classes - 1}"
            raise ValueError(f"{name} must hold labels from {expected}, got {_offender(out, bad)}.")
    return out.astype(jnp.result_type(int))


def within(name: str, value, low: float = -np.inf, high: float = np.inf, *, open: str = ""):
    """Require `low <= value <= high` entrywise; `open` is any of `"low"`, `"high"`, `"both"`."""
    if not concrete(value):
        return value
    v = np.asarray(value)
    below = v <= low if open in ("low", "both") else v < low
    above = v >= high if open in ("high", "both") else v > high
    bad = below | above | np.isnan(v)
    if bad.any():
        raise ValueError(f"{name} must be {interval(low, high, open)}, got {_offender(v, bad)}.")
    return value


def positive(name: str, value):
    """Require `value > 0` entrywise."""
    return within(name, value, 0.0, open="low")


def whole(name: str, value, low: int = 1, high: int | None = None) -> int:
    """`value` as a Python integer in `[low, high]`: a size or a count, static under `jit`."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(
            f"{name} must be a Python integer, not a value traced by jit: make it static (static_argnames)."
        )
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < low or (high is not None and value > high):
        expected = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name} must be {expected}, got {value}.")
    return int(value)


def one_of(name: str, value, choices):
    """Require `value` to be one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return value


def interval(low, high, open: str = "") -> str:
    """The words for an interval: 'positive', 'at least 2', 'in (0, 1]'."""
    left, right = ("(" if open in ("low", "both") else "["), (")" if open in ("high", "both") else "]")
    if np.isinf(high):
        if low == 0:
            return "positive" if left == "(" else "zero or more"
        return f"greater than {low:g}" if left == "(" else f"at least {low:g}"
    if np.isinf(low):
        return f"less than {high:g}" if right == ")" else f"at most {high:g}"
    return f"in {left}{low:g}, {high:g}{right}"


def _finite(value) -> bool:
    if isinstance(value, jax.Array) and value.size > 2**16 and next(iter(value.devices())).platform != "cpu":
        with jax.ensure_compile_time_eval():  # look at it where it is: on an accelerator copying takes longest
            return bool(jnp.isfinite(value).all())
    seen = np.asarray(value)
    return bool(np.isfinite(seen if seen.dtype.kind == "f" else np.asarray(value, float)).all())


def _array(name, value):
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of numbers, got {type(value).__name__}.") from None


def _match(name, got, shape, dims):
    if shape is None:
        return
    axes, dims = shape.split(), {} if dims is None else dims
    batch = bool(axes) and axes[0] == "..."
    axes = axes[1:] if batch else axes
    tail = got[len(got) - len(axes) :] if batch else got
    spelled = "(" + ", ".join((["..."] if batch else []) + axes) + ("," if len(axes) == 1 and not batch else "") + ")"
    if len(tail) != len(axes):
        raise ValueError(f"{name} must have shape {spelled}, got {tuple(got)}.")
    for axis, size in zip(axes, tail, strict=True):
        want = int(axis) if axis.isdigit() else dims.setdefault(axis, size)
        if size != want:
            known = "" if axis.isdigit() else f" with {axis} = {want}"
            raise ValueError(f"{name} must have shape {spelled}{known}, got {tuple(got)}.")
        if size == 0:
            raise ValueError(f"{name} must not be empty, got shape {tuple(got)}.")


def _offender(values, bad) -> str:
    values, bad = np.asarray(values), np.asarray(bad)
    if values.ndim == 0:
        return f"{values}"
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{values[at]} at index {at[0] if len(at) == 1 else at}"
