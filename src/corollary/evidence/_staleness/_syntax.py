"""What a definition says, without what it says about itself: syntax trees with docstrings and rows left out.

The text of a tree depends neither on the layout of the file nor on the version of Python that parsed it.
"""

import ast
import hashlib
from collections.abc import Iterable

#: Decorators that only record where a definition belongs. What they record is no part of what it computes.
MARKS = ("claim", "implements")

#: fields of a tree that mean nothing when it runs
_SILENT = ("ctx", "kind", "type_comment", "type_ignores")


def digest(nodes: Iterable[ast.AST]) -> str:
    """Twelve hex digits of what these statements compute."""
    parts: list[str] = []
    for node in nodes:
        _write(node, parts)
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def mark_of(decorator: ast.expr) -> str | None:
    """The name of a decorator that only records, or None."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name if name in MARKS else None


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _write(value, parts: list[str]) -> None:
    if isinstance(value, ast.AST):
        parts.append(type(value).__name__)
        for name in value._fields:
            inner = getattr(value, name, None)
            if name in _SILENT or inner is None or inner == []:
                continue
            if name == "decorator_list":
                inner = _decorators(inner)
            elif name == "body" and isinstance(inner, list) and is_docstring(inner[0]):
                inner = inner[1:]
            parts.append(name)
            _write(inner, parts)
    elif isinstance(value, list):
        parts.append("[")
        for inner in value:
            _write(inner, parts)
        parts.append("]")
    else:
        parts.append(f"{type(value).__name__} {value!r}")


def _decorators(decorators: list[ast.expr]) -> list:
    """Decorators without marks; of `@claim` it counts whether the statement is expected to hold."""
    kept: list = []
    for decorator in decorators:
        mark = mark_of(decorator)
        if mark is None:
            kept.append(decorator)
        elif mark == "claim" and isinstance(decorator, ast.Call):
            kept += ["erratum" for keyword in decorator.keywords if keyword.arg == "erratum"]
    return kept
