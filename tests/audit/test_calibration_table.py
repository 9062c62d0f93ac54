"""docs/calibration.md has every constant of the sections, with its value: code that changes without it fails here."""

import ast
import re
from importlib import import_module
from numbers import Number
from pathlib import Path

import pytest

from corollary.audit import sections

DOCUMENT = Path(__file__).parents[2] / "docs" / "calibration.md"
FILES = sorted(p.stem for p in Path(sections.__file__).parent.glob("*.py") if p.stem != "__init__")
#: where a threshold may come from; what decides no mark is listed as effort
ORIGINS = ("population", "recipes", "theory", "judgement")


def numeric(value) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(map(numeric, value))
    return isinstance(value, Number) and not isinstance(value, bool)


def constants(stem) -> dict:
    """The constants of a section's file that are numbers, by name."""
    path = Path(sections.__file__).parent / f"{stem}.py"
    names = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        every = [e for t in targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
        names += [e.id for e in every if isinstance(e, ast.Name) and e.id.isupper()]
    module = import_module(f"corollary.audit.sections.{stem}")
    return {name: getattr(module, name) for name in names if numeric(getattr(module, name))}


def same(text: str, value) -> bool:
    """Whether the document prints this number, or these."""
    numbers = value if isinstance(value, tuple) else (value,)
    said = [float(part) for part in text.split()]
    return len(said) == len(numbers) and all(abs(a - b) <= 5e-3 * abs(b) for a, b in zip(said, numbers, strict=True))


def rows() -> list[list[str]]:
    """The rows of the table of thresholds: file, constant, value, what it decides, where it is from."""
    text = DOCUMENT.read_text(encoding="utf-8").partition("## Every threshold")[2].partition("\n## ")[0]
    cells = [[c.strip().strip("`") for c in line.strip("|").split("|")] for line in text.splitlines() if "|" in line]
    return [row for row in cells if row[0] in FILES]


def efforts() -> dict[str, dict[str, str]]:
    """Names and values of what decides no mark, by file: lines such as "- `_alike`: NUMBERS 8388608, LEAST 10"."""
    text = DOCUMENT.read_text(encoding="utf-8").partition("## How much is measured")[2].partition("\n## ")[0]
    lines = re.findall(r"^- `(\w+)`: (.+)$", text, re.MULTILINE)
    return {stem: dict(part.split(" ", 1) for part in rest.rstrip(".").split(", ")) for stem, rest in lines}


THRESHOLDS, EFFORTS = rows(), efforts()


@pytest.mark.parametrize("stem", FILES)
def test_every_constant_is_in_the_document_with_its_value(stem):
    said = {row[1]: row[2] for row in THRESHOLDS if row[0] == stem} | EFFORTS.get(stem, {})
    found = constants(stem)
    assert set(said) == set(found), f"{stem}: the document and the code name different constants"
    wrong = {name: (text, found[name]) for name, text in said.items() if not same(text, found[name])}
    assert not wrong


def test_every_threshold_says_what_it_decides_and_where_it_is_from():
    assert THRESHOLDS
    for stem, name, _, decides, origin in THRESHOLDS:
        assert decides, (stem, name)
        assert origin in ORIGINS, (stem, name, origin)


def test_a_changed_number_is_seen():
    assert same("0.5", 0.5)
    assert same("64 16", (64, 16))
    assert not same("0.5", 0.6)
    assert not same("64", (64, 16))
