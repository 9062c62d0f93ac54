"""Functions compared by what they do: a lambda written in a loop finds the program that was compiled for the last one.

Two functions do the same if they are one object, or if code, defaults, enclosed values and the globals they name are
the same. Values that could change unseen (lists, NumPy arrays, objects) are never the same, so that no program is found
for a function that has come to mean something else.
"""

import functools
import types
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None))


class Code:
    """A function that equals another one that does the same."""

    __slots__ = ("function", "meaning")

    def __init__(self, function: types.FunctionType):
        self.function, self.meaning = function, _meaning(function, function.__module__, ())

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def __eq__(self, other) -> bool:
        if not isinstance(other, Code):
            return NotImplemented
        return self.function is other.function or self.meaning == other.meaning

    def __hash__(self) -> int:
        return hash(self.function.__code__)

    def __repr__(self) -> str:
        return f"<{self.function.__qualname__}>"


def by_code(function: Callable) -> Callable:
    """`function` as a part of the key under which a compiled program is found.

    Plain functions are compared by what they do, everything else as it compares itself.
    """
    if isinstance(function, Code):
        return function
    if isinstance(function, functools.partial):
        return by_code(_filled(by_code(function.func), function.args, function.keywords))
    if isinstance(function, types.FunctionType):
        return Code(function)
    try:
        hash(function)
    except TypeError:  # found again only where it is the same object
        return Code(lambda *args, **kwargs: function(*args, **kwargs))
    return function


def _filled(function, args, keywords):
    names = tuple(sorted(keywords))
    values = tuple(keywords[name] for name in names)
    return lambda *more, **others: function(*args, *more, **dict(zip(names, values, strict=True)), **others)


class _Only:
    """Equal to itself alone."""


class _Same(tuple):
    """Equal where the object inside is one and the same."""

    def __eq__(self, other) -> bool:
        return isinstance(other, _Same) and self[0] is other[0]

    __hash__ = None


def _meaning(function, home, above) -> tuple:
    named = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
    above = (*above, function.__code__)
    values = (
        *(function.__defaults__ or ()),
        *(value for _, value in sorted((function.__kwdefaults__ or {}).items())),
        *map(_content, function.__closure__ or ()),
        *(named[name] for name in sorted(named)),
    )
    return function.__code__, *(_frozen(value, home, above) for value in values)


def _frozen(value: Any, home: str, above: tuple):
    if isinstance(value, _CONSTANTS):
        return type(value), value
    if isinstance(value, tuple):
        return tuple(_frozen(v, home, above) for v in value)
    if isinstance(value, Code):
        return value.meaning
    if isinstance(value, types.FunctionType) and value.__module__ == home:
        # functions of the same module may be written anew with it; those of libraries stay what they are
        return value.__code__ if value.__code__ in above else _meaning(value, home, above)
    fixed = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, jax.Array, eqx.Module)
    if isinstance(value, fixed) or (callable(value) and type(value).__module__.startswith(("jax", "numpy"))):
        return _Same((value,))
    return _Only()


def _names(code) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # of a function that refers to itself, before it has its name
        return _Only()
