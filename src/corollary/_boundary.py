"""The boundary of the rooms: an argument that a function cannot take ends in one sentence of ours.

Functions check themselves what they know to check (`corollary._validate`). What gets past that and fails further in, in
JAX, NumPy or Python, is explained here: which argument it was, what it is and what it should be, as its annotation
says. A package's table puts every function that it offers behind `guarded`, so that none needs to do this by itself;
what the files of a room call among themselves does not pass it. Arguments and results go through untouched, and
arguments are looked at only after a failure, so that it costs next to nothing and no result can depend on it. Whole
numbers of more than 64 bits alone are refused at once: a loop would count for ever.
"""

import dis
import functools
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType, TracebackType

from lazy_loader import attach_stub

_HERE = str(Path(__file__).resolve().parent)

#: What a wrong argument can end in; what runs out of memory, is interrupted or fails inside XLA is another matter.
_CAUSES = (ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)


def attach(package: str, file: str) -> tuple[Callable, Callable, list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package: the names of its stub, its functions behind the boundary."""
    load, names, every = attach_stub(package, file)

    def load_guarded(name: str):
        found = load(name)
        if isinstance(found, FunctionType):
            found = guarded(found)
            found.__module__ = package  # where it is found again, also by pickle
            vars(sys.modules[package])[name] = found
        return found

    whole = set(re.findall(r"^from \. import (\w+)", Path(file).with_suffix(".pyi").read_text(), re.MULTILINE))
    if whole:
        sys.modules[package].__class__ = _offering(whole, type(sys.modules[package]))
    return load_guarded, names, every


def _offering(whole: set[str], base: type) -> type:
    """The class of a package that offers files whole: their functions are guarded as soon as they are imported.

    lazy_loader may have given the package a class of its own, `base`.
    """

    class Package(base):
        def __setattr__(self, name: str, value):
            if name in whole and isinstance(value, ModuleType) and not hasattr(value, "__path__"):
                for own, found in [*vars(value).items()]:
                    if isinstance(found, FunctionType) and found.__module__ == value.__name__ and own[0] != "_":
                        setattr(value, own, guarded(found))
            super().__setattr__(name, value)

    return Package


def guarded(function: FunctionType) -> FunctionType:
    """`function`; what it cannot take is a ValueError or a TypeError with a sentence of ours."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        for value in (*args, *kwargs.values()):
            if type(value) is int and value.bit_length() > 64:
                raise _beyond(value, function, args, kwargs)
        try:
            return function(*args, **kwargs)
        except _CAUSES as error:
            if _raised_here(error.__traceback__):
                raise
            from corollary._diagnosis import diagnosis  # not before it is needed: it imports JAX

            found = diagnosis(function, args, kwargs, error)
            if found is None:
                raise
            raise found from error

    return call


def _beyond(value: int, function: FunctionType, args: tuple, kwargs: dict) -> ValueError:
    names = [*inspect.signature(function).parameters][: len(args)]
    given = dict(zip(names, args, strict=False)) | kwargs
    name = next((name for name, one in given.items() if one is value), "a number")
    return ValueError(f"{name} must fit into 64 bits, got a whole number of {value.bit_length()} bits.")


def _raised_here(trace: TracebackType) -> bool:
    """Whether an exception comes from a `raise` of ours. JAX takes its own frames out: the last line is not enough."""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return code.co_filename.startswith(_HERE) and dis.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"
