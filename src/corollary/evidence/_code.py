"""The version of the code behind a claim: a digest of its module and of everything of ours that it imports.

Finer than a digest of the package: editing one room does not make the evidence of the others stale.
"""

import ast
import hashlib
import importlib.util
from functools import cache
from pathlib import Path

from corollary.evidence._evidence import versions

ROOT = "corollary"


@cache
def code_version(module: str) -> str:
    """Twelve hex digits that change when the claim's module, what it imports of ours, or JAX changes."""
    digest = hashlib.sha256(versions()["jax"].encode())
    for name in sorted(_closure(module)):
        digest.update(name.encode() + b"\0" + _read(name))
    return digest.hexdigest()[:12]


def _closure(module: str) -> set[str]:
    seen, open_ = set(), [module]
    while open_:
        name = open_.pop()
        if name not in seen:
            seen.add(name)
            open_ += _imports(name)
    return seen


@cache
def _imports(module: str) -> tuple[str, ...]:
    found = set()
    for node in ast.walk(ast.parse(_read(module))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    ours = {name for name in found if name.split(".")[0] == ROOT and _source(name) is not None}
    # importing a.b runs a too; the top package only forwards
    parents = {name.rsplit(".", 1)[0] for name in ours if name.count(".") > 1}
    return tuple((ours | parents) - {ROOT})


def _read(module: str) -> bytes:
    path = _source(module)
    return path.read_bytes() if path else b""


@cache
def _source(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ModuleNotFoundError, ValueError):  # a notebook or a script has no module to look up
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None
