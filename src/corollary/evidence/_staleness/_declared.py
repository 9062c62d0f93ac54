"""What a file declares about itself: its claims, and the rows that its objects implement. All of it is literals."""

import ast
import inspect
from collections.abc import Iterator

from corollary.evidence._staleness._syntax import mark_of


def declared(tree: ast.Module, module: str) -> dict:
    """`claims`: what `@claim` and the signature say; `implements`: [name, rows] of every decorated object."""
    aliases = {
        statement.targets[0].id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    }
    functions = [s for s in tree.body if isinstance(s, ast.FunctionDef)]
    return {
        "claims": [c for f in functions for c in _claim(f, aliases)],
        "implements": [list(found) for found in _implements(tree.body, "")],
    }


def _claim(function: ast.FunctionDef, aliases: dict[str, ast.expr]) -> Iterator[dict]:
    for decorator in function.decorator_list:
        if mark_of(decorator) != "claim" or not isinstance(decorator, ast.Call):
            continue
        title, _, statement = inspect.cleandoc(ast.get_docstring(function, clean=False) or "").partition("\n")
        entry = {"name": function.name, "title": title.strip(), "statement": statement.strip(), "literal": True}
        try:
            entry |= {keyword.arg: ast.literal_eval(keyword.value) for keyword in decorator.keywords}
            entry["parameters"] = [
                [a.arg, ast.unparse(_plain(a.annotation, aliases)), ast.literal_eval(default)]
                for a, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
            ]
        except (ValueError, TypeError, AttributeError):  # not a literal: whoever needs it must import the module
            entry["literal"] = False
        yield entry


def _plain(annotation: ast.expr, aliases: dict[str, ast.expr]) -> ast.expr:
    """An annotation, with a name that the module gives to a range replaced by the range."""
    return aliases.get(annotation.id, annotation) if isinstance(annotation, ast.Name) else annotation


def _implements(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, list[str]]]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            for decorator in reversed(statement.decorator_list):  # they run from the innermost
                if mark_of(decorator) == "implements" and isinstance(decorator, ast.Call):
                    yield prefix + statement.name, [a.value for a in decorator.args if isinstance(a, ast.Constant)]
        if isinstance(statement, ast.ClassDef):
            yield from _implements(statement.body, f"{prefix}{statement.name}.")
