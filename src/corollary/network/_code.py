"""Functions compared by what they do: a lambda written in a loop finds the program that was compiled for the last one.

Two functions do the same if their code is the same, and so are their defaults, the values they enclose and the globals
they name, as these are now: arrays of NumPy, lists and dictionaries by what they hold, so that no program is found for
a function that has come to mean something else. An object of any other kind could change unseen: with one of those a
function is the same as itself alone.
"""

import functools
import hashlib
import types
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type(...))


class Code:
    """A function that equals another one that does the same."""

    __slots__ = ("function", "meaning")

    def __init__(self, function: types.FunctionType):
        self.function, self.meaning = function, _Reader(function).meaning(function, ())

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def __eq__(self, other) -> bool:
        return self.meaning == other.meaning if isinstance(other, Code) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.function.__code__)

    def __repr__(self) -> str:
        return f"<{self.function.__qualname__}>"


def by_code(function: Callable) -> Callable:
    """`function` as a part of the key under which a compiled program is found, as it is now.

    Plain functions are compared by what they do, everything else as it compares itself.
    """
    if isinstance(function, Code):
        return Code(function.function)
    if isinstance(function, functools.partial):
        return by_code(_filled(by_code(function.func), function.args, function.keywords))
    if isinstance(function, types.FunctionType):
        return Code(function)
    try:
        hash(function)
    except TypeError:  # found again only where it is the same object
        return Code(_calling(function))
    return function


def digest(function: Callable) -> str:
    """A fingerprint of what a function does, the same in every process, as far as it can be seen.

    Of objects that are neither data nor functions only the class is seen. Other versions of Python or of the libraries
    in use give other fingerprints.
    """
    found = by_code(function)
    meaning = found.meaning if isinstance(found, Code) else _Same((found,))
    return hashlib.sha256(repr(_stable(meaning)).encode()).hexdigest()[:16]


def _filled(function, args, keywords):
    names = tuple(sorted(keywords))
    values = tuple(keywords[name] for name in names)
    return lambda *more, **others: function(*args, *more, **dict(zip(names, values, strict=True)), **others)


def _calling(function):
    return lambda *args, **kwargs: function(*args, **kwargs)


class _Same(tuple):
    """Equal where the objects inside are one and the same."""

    def __eq__(self, other) -> bool:
        return isinstance(other, _Same) and len(self) == len(other) and all(map(lambda a, b: a is b, self, other))

    __hash__ = None


class _Reader:
    """What a function means: its code, and every value it can see, in a form that compares by content."""

    def __init__(self, function):
        self.function = function

    def meaning(self, function, above) -> tuple:
        named = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
        above = (*above, id(function))
        values = (
            *(function.__defaults__ or ()),
            *(value for _, value in sorted((function.__kwdefaults__ or {}).items())),
            *map(_content, function.__closure__ or ()),
            *(named[name] for name in sorted(named)),
        )
        return function.__code__, *(self.frozen(value, above) for value in values)

    def frozen(self, value: Any, above: tuple):
        if isinstance(value, float | complex):
            return type(value), repr(value)  # -0.0 is not 0.0, and NaN is NaN
        if isinstance(value, _CONSTANTS):
            return type(value), value
        if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
            return type(value), value.shape, str(value.dtype), _hash(value)
        if isinstance(value, tuple | list | dict):
            if id(value) in above:
                return "above", above.index(id(value))
            items = value if not isinstance(value, dict) else [part for item in value.items() for part in item]
            return type(value), *(self.frozen(item, (*above, id(value))) for item in items)
        if isinstance(value, Code):
            value = value.function
        if isinstance(value, types.FunctionType) and self._may_be_new(value):
            return ("above", above.index(id(value))) if id(value) in above else self.meaning(value, above)
        fixed = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, jax.Array, eqx.Module)
        if isinstance(value, fixed) or (callable(value) and type(value).__module__.startswith(("jax", "numpy"))):
            return _Same((value,))
        return _Same((value, self.function))

    def _may_be_new(self, function) -> bool:
        # functions of the same module may be written anew with it, and those made inside others are made anew by every
        # call; the rest of a library stays what it is
        return function.__module__ == self.function.__module__ or "<locals>" in function.__qualname__


def _names(code) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # of a function that refers to itself, before it has its name
        return cell


def _hash(array) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _stable(value):
    """A meaning without objects and addresses."""
    if isinstance(value, types.CodeType):
        return value.co_name, value.co_code.hex(), value.co_names, _stable(value.co_consts)
    if isinstance(value, _Same):
        return _described(value[0])
    if isinstance(value, tuple) and len(value) == 2 and value[0] is int and abs(value[1]) < 2**53:
        return _stable((float, repr(float(value[1]))))  # schedules make floats of whole numbers when they are called
    if isinstance(value, tuple):
        return tuple(map(_stable, value))
    if isinstance(value, frozenset):
        return sorted(map(repr, value))
    return value.__qualname__ if isinstance(value, type) else value


def _described(value):
    if isinstance(value, jax.core.Tracer):
        return "traced"
    if isinstance(value, jax.Array):
        value = jax.random.key_data(value) if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key) else value
        return value.shape, str(value.dtype), _hash(np.asarray(value))
    if isinstance(value, eqx.Module):
        leaves = jax.tree.leaves(value)
        return type(value).__qualname__, *(_described(a) if isinstance(a, jax.Array) else repr(type(a)) for a in leaves)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return name or type(value).__qualname__
