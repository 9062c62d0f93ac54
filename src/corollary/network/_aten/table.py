"""The table of operators, and how the arguments of a call find those of the function that computes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

OPERATORS: dict[str, Callable] = {}

# where and how PyTorch stores and computes a result: nothing that its values depend on
STORAGE = {"device", "layout", "pin_memory", "memory_format", "non_blocking", "copy", "implicit"}
COMPUTATION = {"cudnn_enable", "cudnn_enabled", "compute_mode"}


class NotSupported(ValueError):
    """An operator, or an argument of one, that the table does not have."""


def aten(*names: str) -> Callable:
    """Enter a function into the table, for all overloads of an operator, `add`, or for one of them, `max.dim`."""

    def enter(function):
        for name in names:
            assert name not in OPERATORS, name
            OPERATORS[name] = function
        return function

    return enter


def found(name: str, overload: str) -> Callable | None:
    """The function of an operator's overload."""
    return OPERATORS.get(f"{name}.{overload}") or OPERATORS.get(name)


def bound(name: str, function: Callable, schema: list[tuple[str, bool, Any]], args, kwargs) -> dict[str, Any]:
    """The arguments of a call by name, so that it makes no difference how they were given.

    `schema` has the name of each argument, whether it has a default, and that. One that the function does not take is
    left out if it has its default value or only says how a result is stored or computed, and refused otherwise.
    """
    given = dict(zip([argument for argument, _, _ in schema], args, strict=False)) | kwargs
    takes = inspect.signature(function).parameters
    arguments = {}
    for argument, has_default, default in schema:
        value = given.get(argument, default)
        if argument in takes:
            if argument in given or has_default:
                arguments[argument] = value
        elif argument not in STORAGE | COMPUTATION and argument in given and value != default:
            raise NotSupported(f"{name} with {argument}={value}")
    return arguments
