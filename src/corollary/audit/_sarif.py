"""A report in SARIF 2.1.0, which code scanning shows beside the code: only where there is code, `file.py:function`."""

import ast
import json
import os
import re
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from corollary import __version__
from corollary._text import visible
from corollary.audit._asked import function_in
from corollary.audit._errors import SubjectError
from corollary.audit._marked import Item, items

LEVELS = {"look": "warning", "problem": "error"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def require_place(network: str | None) -> None:
    """One sentence if the network has no place in a file of code."""
    if function_in(network) is None:
        raise SubjectError(
            "--sarif needs a network that is file.py:function: code scanning refuses results without a place."
        )


def sarif(fields: dict, network: str) -> str:
    """The file: a rule for each finding that is marked, and a result at the function that made the subject."""
    file, function = function_in(network)
    marked = [item for item in items(fields) if item.mark in LEVELS]
    place = {
        "artifactLocation": {"uri": _uri(file)},
        "region": {"startLine": line_of(file, function)},
    }
    rules = {_rule(item): item for item in marked}
    driver = {"name": "corollary", "version": __version__, "rules": [_described(id, rules[id]) for id in rules]}
    results = [_result(item, list(rules).index(_rule(item)), place, network) for item in marked]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def line_of(file: str, function: str) -> int:
    """The line that a function of a file begins in; the first if it comes from elsewhere."""
    try:
        with open(file, "rb") as source:
            tree = ast.parse(source.read())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return 1
    kinds = ast.FunctionDef | ast.ClassDef
    found = [node.lineno for node in tree.body if isinstance(node, kinds) and node.name == function]
    return found[-1] if found else 1


def _rule(item: Item) -> str:
    name = item.section if item.stopped else item.name
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return f"corollary/{words}"


def _described(id: str, item: Item) -> dict:
    return {"id": id, "shortDescription": {"text": visible(f"{item.section} {item.name}")}}


def _result(item: Item, rule: int, place: dict, network: str) -> dict:
    title = f"{item.title} {item.details}".rstrip()
    text = visible(f"{title}: {item.sentence}")
    # one finding of one subject is the same alert, whatever its numbers are today
    mark = sha256(f"{network} {_rule(item)}".encode(errors="backslashreplace")).hexdigest()[:32]
    out = {"ruleId": _rule(item), "ruleIndex": rule, "level": LEVELS[item.mark], "message": {"text": text}}
    out |= {"locations": [{"physicalLocation": place}], "partialFingerprints": {"finding/v1": mark}}
    if item.reason is not None:
        out["suppressions"] = [{"kind": "external", "justification": visible(item.reason)}]
    return out


def _uri(file: str) -> str:
    """The file as seen from here, as code scanning wants it."""
    path = os.path.relpath(file)
    if path.startswith(os.pardir):
        return Path(file).resolve().as_uri()
    return quote(Path(path).as_posix().encode(errors="surrogateescape"))
