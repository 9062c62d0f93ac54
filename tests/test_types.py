"""Every public signature is annotated, and says about shapes what the body checks."""

import ast
import importlib
import inspect
import typing
from pathlib import Path

import pytest

from corollary._types import LossName
from corollary.network import LOSSES

SOURCE = Path(__file__).resolve().parent.parent / "src" / "corollary"
TABLES = sorted(path for path in SOURCE.rglob("__init__.pyi") if path.parent != SOURCE)
SPECIAL = ("__init__", "__call__", "__matmul__")


def room(table: Path) -> str:
    return ".".join(table.parent.relative_to(SOURCE).parts)


def public(table: Path):
    """The file, the qualified name and the syntax of every function and method that a table offers."""
    trees = {}
    for line in ast.parse(table.read_text(encoding="utf-8")).body:
        if not isinstance(line, ast.ImportFrom) or not line.module:
            continue
        path = table.parents[line.level - 1].joinpath(*line.module.split(".")).with_suffix(".py")
        tree = trees.setdefault(path, ast.parse(path.read_text(encoding="utf-8")))
        for node in (node for node in tree.body if getattr(node, "name", None) == line.names[0].name):
            inside = node.body if isinstance(node, ast.ClassDef) else [node]
            for function in inside:
                if isinstance(function, ast.FunctionDef) and shown(function.name, node):
                    yield path, f"{node.name}.{function.name}" if node is not function else node.name, function


def shown(name: str, owner: ast.stmt) -> bool:
    return not isinstance(owner, ast.ClassDef) or not name.startswith("_") or name in SPECIAL


def parameters(function: ast.FunctionDef) -> list[ast.arg]:
    given = function.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [p for p in every if p is not None and p.arg not in ("self", "cls")]


@pytest.mark.parametrize("table", TABLES, ids=room)
def test_every_public_signature_is_annotated(table):
    missing = []
    for path, name, function in public(table):
        missing += [f"{path.stem}.{name}({p.arg})" for p in parameters(function) if p.annotation is None]
        if function.returns is None and function.name != "__init__":
            missing.append(f"{path.stem}.{name} -> ?")
    assert not missing


@pytest.mark.parametrize("table", TABLES, ids=room)
def test_annotations_name_what_exists(table):
    package = importlib.import_module(f"corollary.{room(table)}")
    for name in package.__all__:
        value = getattr(package, name)
        functions = vars(value).values() if inspect.isclass(value) else [value]
        for function in (inspect.unwrap(f) for f in functions if inspect.isfunction(f)):
            # what a dataclass writes by itself lives in no file
            if function.__module__.startswith("corollary.") and function.__code__.co_filename.endswith(".py"):
                typing.get_type_hints(function)


@pytest.mark.parametrize("path", sorted(p for p in SOURCE.rglob("*.py") if p.name != "_types.py"), ids=lambda p: p.stem)
def test_annotations_are_not_evaluated_on_import(path):
    source = path.read_text(encoding="utf-8")
    assert "from jaxtyping import" not in source or "\nfrom __future__ import annotations\n" in source


def test_the_names_of_losses_are_those_that_there_are():
    assert set(typing.get_args(LossName)) == set(LOSSES)


# Shapes: `x = real("x", x, "n d", dims)` and `x: Float[ArrayLike, "n d"]` say the same.

KINDS = {"real": "Float", "labels": "Int"}


def validators(tree: ast.Module) -> dict[str, str]:
    """What the validators are called in a file."""
    return {
        alias.asname or alias.name: alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "corollary._validate"
        for alias in node.names
        if alias.name in KINDS
    }


def axes(node: ast.expr | None, default: str) -> list[str] | None:
    """The axes of a validator's shape, `_` where only the body knows; None where the shape is not written out."""
    if node is None:
        return default.split()
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.split()
    if isinstance(node, ast.JoinedStr):
        # `names` holds the axes of a space of any dimension, of which only the body knows the number
        parts = [str(part.value) if isinstance(part, ast.Constant) else "_" for part in node.values]
        names = [p.value.id for p in node.values if isinstance(p, ast.FormattedValue) and isinstance(p.value, ast.Name)]
        return None if "names" in names else "".join(parts).split()
    return None


def checked(function: ast.FunctionDef, calls: dict[str, str]):
    """Parameter, kind and axes for every parameter that a validator of the body takes as it came."""
    assigned: dict[str, int] = {}
    for node in ast.walk(function):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            for name in (n.id for n in ast.walk(target) if isinstance(n, ast.Name)):
                assigned[name] = min(assigned.get(name, node.end_lineno), node.end_lineno)
    for node in ast.walk(function):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in calls):
            continue
        if len(node.args) < 2 or not isinstance(node.args[1], ast.Name):
            continue
        name, kind = node.args[1].id, calls[node.func.id]
        if node.lineno > assigned.get(name, node.lineno):  # another array of the same name by now
            continue
        place = 2 if kind == "real" else 3
        keywords = {k.arg: k.value for k in node.keywords}
        shape = node.args[place] if len(node.args) > place else keywords.get("shape")
        if kind == "real" and shape is None:
            continue
        yield name, KINDS[kind], axes(shape, "n")


def declared(annotation: ast.expr) -> list[tuple[str, list[str]]]:
    """Kind and axes of the arrays that an annotation allows."""
    found = [("Float", []) for n in ast.walk(annotation) if isinstance(n, ast.Name) and n.id in ("Scalar", "float")]
    for node in ast.walk(annotation):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and len(node.slice.elts) == 2:
            array, shape = node.slice.elts
            if isinstance(array, ast.Name) and array.id in ("Array", "ArrayLike") and isinstance(shape, ast.Constant):
                found.append((ast.unparse(node.value), shape.value.split()))
    return found


def agrees(said: list[str], done: list[str]) -> bool:
    return len(said) == len(done) and all(a == "_" or "_" in b or a == b for a, b in zip(said, done, strict=True))


def disagreements(function: ast.FunctionDef, calls: dict[str, str]) -> list[str]:
    annotations = {p.arg: p.annotation for p in parameters(function) if p.annotation is not None}
    out = []
    for name, kind, done in checked(function, calls):
        if name not in annotations or done is None:
            continue
        if not any(k == kind and agrees(said, done) for k, said in declared(annotations[name])):
            out.append(f'{name}: {ast.unparse(annotations[name])}, but the body checks {kind} "{" ".join(done)}"')
    return out


@pytest.mark.parametrize("table", TABLES, ids=room)
def test_shapes_are_those_that_the_body_checks(table):
    names = {}
    for path, name, function in public(table):
        calls = names.setdefault(path, validators(ast.parse(path.read_text(encoding="utf-8"))))
        assert not disagreements(function, calls), f"{path.stem}.{name}"


@pytest.mark.parametrize(
    ("annotation", "body", "good"),
    [
        ('Float[ArrayLike, "n d"]', 'real("x", x, "n d", dims)', True),
        ('Float[ArrayLike, "n d"] | None', 'real("x", x, "n d")', True),
        ('Float[ArrayLike, "n _"]', 'real("x", x, f"n {width}")', True),
        ("Scalar", 'positive("x", real("x", x, ""))', True),
        ('Float[ArrayLike, "d n"]', 'real("x", x, "n d", dims)', False),
        ('Float[ArrayLike, "n"]', 'real("x", x, "n d")', False),
        ('Float[ArrayLike, "n"]', 'labels("x", x, 3)', False),
        ("Scalar", 'real("x", x, "n")', False),
        ("Array", 'real("x", x, "n")', False),
    ],
)
def test_a_wrong_shape_is_found(annotation, body, good):
    (function,) = ast.parse(f"def f(x: {annotation}):\n    x = {body}\n    return x").body
    assert (not disagreements(function, {"real": "real", "labels": "labels"})) == good
