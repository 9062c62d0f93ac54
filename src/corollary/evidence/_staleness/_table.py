"""The table of a file: every name its module defines, with a digest of the definition and what it reads.

A table is plain data, made from one file alone, so that it can be kept under the digest of that file.
"""

import ast

from corollary.evidence._staleness._names import Reader, bound, imported
from corollary.evidence._staleness._syntax import digest, is_docstring, mark_of

#: statements that bind names and run more code than the name's own
_COMPOUND = (ast.If, ast.Try, ast.For, ast.While, ast.With, ast.Match)


def table_of(tree: ast.Module, module: str, *, package: bool, stub: ast.Module) -> dict:
    """The table of a module; `stub` is the `.pyi` from which a package loads its names lazily.

    `imports`: name -> [module, attributes]. `stars`: modules whose names are all imported. `uses`: all modules imported
    outside functions. `names`: name -> what `_record` says of its definition. `effects`: the same of the statements
    that define nothing, or None.
    """
    home = module if package else module.rpartition(".")[0]
    statements = [s for s in tree.body if not is_docstring(s)]
    found: dict = {"imports": {}, "stars": [], "uses": [], "names": {}, "effects": None}
    parts: dict[str, list[ast.stmt]] = {}
    for statement in statements:
        if _only_for_types(statement):
            continue
        if isinstance(statement, ast.Import | ast.ImportFrom):
            _import(found, statement, home)
            continue
        names = _names(statement, home)
        for name in names:
            parts.setdefault(name, []).append(statement)
        if isinstance(statement, _COMPOUND):
            for node in ast.walk(statement):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    _import(found, node, home)
        if not names or isinstance(statement, _COMPOUND):
            parts.setdefault("", []).append(statement)
    used = list(found["uses"])
    for statement in stub.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            _import(found, statement, home)
    found["uses"] = used  # what a stub names is imported when it is used, not with the package
    for name, those in parts.items():
        record = _record(those, home)
        if name:
            found["names"][name] = record
        else:
            found["effects"] = record
    found["uses"] = sorted(set(found["uses"]))
    return found


def _record(statements: list[ast.stmt], home: str) -> dict:
    """What the statements of one name say: a digest, the chains they read and change, and the lines they stand on.

    `calls` are the functions that run when the module is imported: decorators, and the calls in a value. `alias` is the
    chain that the name stands for, `hook` whether a class hears of its subclasses. `constructors` are what the class
    methods of a class read, `attributes` all names after a dot.
    """
    reader = Reader(home)
    calls: set[str] = set()
    kind = "value"
    for statement in statements:
        decorated = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if decorated:
            kind = "class" if isinstance(statement, ast.ClassDef) else "function"
            marks = [d for d in statement.decorator_list if mark_of(d)]
            kept = [d for d in statement.decorator_list if d not in marks]
            outer = [*kept, *(statement.bases if kind == "class" else [])]
            statement.decorator_list = kept  # a mark is not read; the digest leaves it out by itself
        else:
            outer, marks = [n for n in ast.walk(statement) if isinstance(n, ast.Call)], []
        for node in outer:
            called = reader.chain(node.func if isinstance(node, ast.Call) else node)
            if called:
                calls.add(called)
        reader.visit(statement)
        if decorated:
            statement.decorator_list = [*kept, *marks]
    return {
        "kind": kind,
        "digest": digest(statements),
        "reads": sorted(reader.reads),
        "constructors": {name: sorted(reads) for name, reads in reader.constructors.items()},
        "attributes": sorted(reader.attributes),
        "changes": sorted(reader.changes),
        "calls": sorted(calls),
        "lines": [_lines(s) for s in statements],
        "alias": _alias(statements, reader),
        "hook": kind == "class" and any(_is_hook(s) for s in statements),
    }


def _import(found: dict, node: ast.Import | ast.ImportFrom, home: str) -> None:
    for name, module, attribute in imported(node, home):
        found["uses"] += [module, f"{module}.{attribute}"]
        if attribute == "*":
            found["stars"].append(module)
        else:
            found["imports"][name] = [module, attribute]
    if isinstance(node, ast.Import):
        found["uses"] += [alias.name for alias in node.names]


def _names(statement: ast.stmt, home: str) -> list[str]:
    """The names that a statement defines; an import is not a definition."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    names = [name for name, source in bound([statement], home).items() if source is None]
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        # table[key] = value defines nothing: it changes what is there
        if any(isinstance(t, ast.Attribute | ast.Subscript) for target in targets for t in ast.walk(target)):
            return []
    elif not isinstance(statement, _COMPOUND):
        return []
    return names


def _only_for_types(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test).rpartition(".")[2] == "TYPE_CHECKING"


def _alias(statements: list[ast.stmt], reader: Reader) -> str | None:
    """The chain that `name = chain` gives another name."""
    (first, *more) = statements
    plain = not more and isinstance(first, ast.Assign) and isinstance(first.value, ast.Name | ast.Attribute)
    return reader.chain(first.value) if plain else None


def _is_hook(statement: ast.ClassDef) -> bool:
    """Whether making a subclass runs code of the class."""
    return any(isinstance(s, ast.FunctionDef) and s.name == "__init_subclass__" for s in statement.body)


def _lines(statement: ast.stmt) -> list[int]:
    decorators = getattr(statement, "decorator_list", [])
    return [min(n.lineno for n in [statement, *decorators]), statement.end_lineno]
