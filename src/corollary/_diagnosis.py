"""What is wrong with the arguments of a call that failed, read off the annotations of the function."""

from __future__ import annotations

import builtins
import inspect
import re
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args, get_origin

import jax
import jax.numpy as jnp
import numpy as np

from corollary._validate import real

_ARRAY = re.compile(r"""(\w+)\[(?:ArrayLike|Array), ?["']([^"']*)["']\]""")
_OR = re.compile(r" \| (?![^\[]*\])")  # outside brackets
_ARRAYS = {"Scalar": ("Float", ""), "float": ("Float", ""), "ArrayLike": ("Shaped", "..."), "Array": ("Shaped", "...")}


def _is_loss(value: Any) -> bool:
    return isinstance(value, str) or callable(value)


def _is_key(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and (jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key) or dtype == np.uint32)


def _is_tree(value: Any) -> bool:
    leaves = jax.tree.leaves(value)
    return bool(leaves) and not any(isinstance(leaf, str | bytes) or np.size(leaf) == 0 for leaf in leaves)


def _is_data(value: Any) -> bool:
    leaves = jax.tree.leaves(value)
    return bool(leaves) and all(np.ndim(leaf) for leaf in leaves)


def _is_dtype(value: Any) -> bool:
    try:
        return jnp.dtype(value) is not None
    except TypeError:
        return False


def _is_choice(value: Any) -> bool:
    return all(isinstance(leaf, bool) or callable(leaf) for leaf in jax.tree.leaves(value))


#: What is no array: how an annotation begins, or an argument that means the same everywhere; what to call it, and how
#: to tell.
_OTHERS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("data", "arrays with the examples along their first axis", _is_data),
    ("trainable", "a function of an array, or a pytree of booleans", _is_choice),
    ("None", "None", lambda value: value is None),
    ("int", "an integer", lambda value: isinstance(value, int | np.integer) or getattr(value, "shape", None) == ()),
    ("bool", "True or False", lambda value: isinstance(value, bool | np.bool)),
    ("str", "a string", lambda value: isinstance(value, str)),
    ("Callable", "a function", callable),
    ("NetworkLike", "a network, which is called with one example", callable),
    ("LossLike", "the name of a loss, or a function of an output and a target", _is_loss),
    ("PyTree", "a pytree of arrays that are not empty", _is_tree),
    ("DTypeLike", "a dtype", _is_dtype),
    ("DTypeLikeInexact", "a dtype", _is_dtype),
    ("PRNGKeyArray", "a key such as jax.random.key(0)", _is_key),
)


def diagnosis(function: Callable, args: tuple, kwargs: dict, error: Exception) -> Exception | None:
    """The sentence for `error`, which `function` met with these arguments; None where they are not what is wrong."""
    if type(error).__module__.startswith("jax"):  # about tracing: JAX says it best
        return None
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:  # an argument is missing, or there is one too many: Python says it best
        return None
    declared = {name: _alternatives(function.__annotations__.get(name, "")) for name in given}
    dims: dict[str, int] = {}
    for name, value in given.items():
        problems = [_problem(name, value, text, dims, function.__globals__) for text in declared[name]]
        if None not in problems:
            return problems[0]
    if _in_a_function_of(given, error):
        return None
    arrays = {name: jnp.asarray(v) for name, v in given.items() if v is not None and _taken(v, declared[name])}
    return _together(function.__name__, given, arrays, error)


def _in_a_function_of(given: dict[str, Any], error: Exception) -> bool:
    """Whether a function among the arguments failed itself: then the fault lies where it is written."""
    functions = [leaf for leaf in jax.tree.leaves(list(given.values())) if callable(leaf)]
    files = {getattr(f, "__module__", None) or type(f).__module__ for f in functions}
    return any(frame.f_globals.get("__name__") in files for frame, _ in traceback.walk_tb(error.__traceback__))


def _alternatives(annotation: Any) -> list[str]:
    return _OR.split(annotation.__name__ if isinstance(annotation, type) else str(annotation))


def _array(text: str) -> tuple[str, str] | None:
    """Kind and axes of the array that an annotation means."""
    found = _ARRAY.fullmatch(text)
    return (found[1], found[2]) if found else _ARRAYS.get(text)


def _taken(value: Any, texts: list[str]) -> bool:
    """Whether a value is taken as an array; without an annotation numbers are."""
    return any(map(_array, texts)) or (texts == [""] and isinstance(value, int | float | np.ndarray | jax.Array))


def _problem(name: str, value: Any, text: str, dims: dict[str, int], names: dict[str, Any]) -> Exception | None:
    """Why `value` is not what `text` says, if it is not; binds the names of its axes in `dims` if it is."""
    if found := _array(text):
        return _wrong_array(name, value, *found, dims)
    plain = text.partition("[")[0]
    for start, words, fits in _OTHERS:
        if start in (plain, name):
            return None if fits(value) else TypeError(f"{name} must be {words}, got {type(value).__name__}.")
    first, *rest = plain.split(".")
    kind = names.get(first, getattr(builtins, first, None))
    for part in rest:
        kind = getattr(kind, part, None)
    if get_origin(kind) is Literal and not (isinstance(value, str) and value in get_args(kind)):
        return ValueError(f"{name} must be one of {', '.join(map(repr, get_args(kind)))}.")
    letters = isinstance(value, str) and kind is Sequence and "str" not in text  # a sequence, but none of numbers
    if isinstance(kind, type) and (letters or not _is_a(value, kind)):
        return TypeError(f"{name} must be of type {kind.__name__}, got {type(value).__name__}.")
    return None


def _is_a(value: Any, kind: type) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:  # typing.Any, or a protocol
        return True


def _wrong_array(name: str, value: Any, kind: str, axes: str, dims: dict[str, int]) -> Exception | None:
    try:
        array = jnp.asarray(value)
    except OverflowError:
        return ValueError(f"{name} must fit into {64 if jax.config.jax_enable_x64 else 32} bits, got {value!r:.50}.")
    except (TypeError, ValueError):
        return TypeError(f"{name} must be an array of numbers, got {type(value).__name__}.")
    if kind == "Int" and not (jnp.issubdtype(array.dtype, jnp.integer) or array.dtype == bool):
        return TypeError(f"{name} must hold integers, got dtype {array.dtype}.")
    if kind == "Float":
        named = " ".join(f"_{place}" if axis == "_" else axis for place, axis in enumerate(axes.split()))
        known = re.fullmatch(r"(\.\.\.)?[\w ]*", named)  # of other axes only the body knows what they are
        try:
            real(name, array, named if known else None, dims, finite=False)
        except (TypeError, ValueError) as problem:
            return problem
    return None


def _together(function: str, given: dict[str, Any], arrays: dict[str, jax.Array], error: Exception) -> Exception | None:
    """What may be wrong with arrays each of which is what its annotation says."""
    half = [name for name, array in arrays.items() if array.dtype in (jnp.float16, jnp.bfloat16)]
    if half:
        return TypeError(f"{function} does not work in {arrays[half[0]].dtype}: {half[0]} must be float32 or float64.")
    for name in arrays:
        try:
            real(name, given[name])
        except ValueError as problem:
            return problem
        except TypeError:  # complex, where that is meant
            pass
    if any(array.ndim for array in arrays.values()) or (arrays and isinstance(error, IndexError)):  # an axis is missing
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        return ValueError(f"{function} cannot take these shapes: {shapes}.")
    return None
