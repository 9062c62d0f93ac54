"""The house keeps its shape: one table per package, imports that point one way, files where one guess finds them."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import corollary

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
SOURCE = ROOT / "src" / "corollary"
CLAIMS = SOURCE / "claims"
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.pyi"))

# What rooms may import that is no room: checks of arguments, the catalog, and private files of the house itself.
SHARED = {"_validate", "_show", "_charts", "_engine", "network", "onnx", "catalog"}
# Private files that another room uses, to be moved to where both may import them. This list only shrinks.
BORROWED: set[tuple[str, str]] = set()


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def files(room: str) -> list[Path]:
    return [path for path in sorted((SOURCE / room).rglob("*.py")) if path.name != "__init__.py"]


@cache
def imports(path: Path) -> frozenset[str]:
    """What a file imports of ours, without the leading `corollary`: packages, files and names in them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return frozenset(name.removeprefix("corollary.") for name in found if name.startswith("corollary."))


@pytest.mark.parametrize("package", PACKAGES, ids=dotted)
def test_every_name_of_a_table_is_there_and_shadows_no_other_file(package):
    module = importlib.import_module(dotted(package))
    names = {found.name for found in pkgutil.iter_modules(module.__path__)}
    for name in module.__all__:
        value = getattr(module, name)
        if name in names and not inspect.ismodule(value):  # what has the name of a file is defined in that file
            assert inspect.unwrap(value).__module__ == f"{module.__name__}.{name}", name


ORDERS = {
    "the name first": "values = [getattr(m, n) for m, n in names]; files = [importlib.import_module(f) for f in paths]",
    "the file first": "files = [importlib.import_module(f) for f in paths]; values = [getattr(m, n) for m, n in names]",
}


@pytest.mark.parametrize("order", ORDERS)
def test_a_name_means_the_same_whether_its_file_was_imported_before_or_not(order):
    script = f"""
import importlib, inspect, pathlib
names, paths = [], []
for package in {[dotted(package) for package in PACKAGES]}:
    module = importlib.import_module(package)
    for name in module.__all__:
        path = pathlib.Path(module.__file__).parent / (name + ".py")
        if path.exists() and ("from ." + name + " import " + name) in path.with_name("__init__.pyi").read_text():
            names.append((module, name)); paths.append(package + "." + name)
assert len(names) > 10
{ORDERS[order]}
for (module, name), value, file in zip(names, values, files):
    assert value is getattr(module, name) and inspect.unwrap(value) is getattr(file, name), (module, name)
    assert not inspect.ismodule(value), (module, name)
from corollary.nets import fit
assert callable(fit)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_package_offers_its_rooms():
    assert set(corollary.ROOMS) <= set(dir(corollary))
    assert all(inspect.ismodule(getattr(corollary, room)) for room in corollary.ROOMS)


def test_a_public_name_has_one_meaning_in_all_rooms():
    meanings: dict[str, list] = {}
    for package in PACKAGES:
        if package != SOURCE and package.relative_to(SOURCE).parts[0] in corollary.ROOMS:
            module = importlib.import_module(dotted(package))
            for name in module.__all__:
                if not inspect.ismodule(value := getattr(module, name)):
                    meanings.setdefault(name, []).append(value)
    assert {name for name, values in meanings.items() if any(value is not values[0] for value in values)} == set()


def test_no_star_imports():
    places = [path for place in ("src", "tests", "benchmarks", "examples") for path in (ROOT / place).rglob("*.py")]
    ours = [path for path in places if ".peers" not in path.parts]  # benchmarks install their peers there
    texts = {path: path.read_text(encoding="utf-8") for path in ours}
    suspects = [
        path for path, text in texts.items() if re.search(r"import[\s\\(]*\*", text)
    ]  # the others need no parser
    trees = {path: ast.walk(ast.parse(texts[path])) for path in suspects}
    assert not [
        path
        for path, nodes in trees.items()
        if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in nodes)
    ]


def test_rooms_import_only_the_rooms_before_them():
    wrong = set()
    for number, room in enumerate(corollary.ROOMS):
        allowed = {*corollary.ROOMS[: number + 1], *SHARED}
        for path in files(room):
            for name in imports(path):
                first = name.split(".")[0]
                if first not in allowed and not first.startswith("_"):
                    wrong.add((dotted(path), name))
    assert wrong == set()


def test_what_knows_no_theory_imports_no_room():
    for place in ("evidence", "catalog"):
        for path in files(place):
            assert not {name.split(".")[0] for name in imports(path)} & {*corollary.ROOMS, "claims", "audit"}, path


def test_claims_do_not_import_the_audit():
    assert not [path for path in files("claims") if any(name.split(".")[0] == "audit" for name in imports(path))]


def test_private_files_are_imported_in_their_own_room_only():
    borrowed = set()
    for place in (*corollary.ROOMS, "audit", "claims"):
        for path in files(place):
            for name in imports(path):
                room, *rest = name.split(".")
                private = next((i for i, part in enumerate(rest) if part.startswith("_")), None)
                if room in corollary.ROOMS and room != place and private is not None:
                    borrowed.add((dotted(path).removeprefix("corollary."), ".".join([room, *rest[: private + 1]])))
    assert borrowed == BORROWED


def stands_for(name: str, directory: Path, *, private: bool) -> bool:
    """Whether a file of claims or tests is that of a room's file: its name, alone or with a subject after it.

    `experiments_...` belong to no one file. Tests, but not claims, may be those of a private file, without its `_`.
    """
    names = {path.stem for path in directory.glob("*.py") if path.name != "__init__.py"}
    names = {each.removeprefix("_") if private else each for each in names}
    return name.startswith("experiments_") or any(name == each or name.startswith(f"{each}_") for each in names)


def test_claims_are_where_the_file_they_are_about_is():
    for path in files("claims"):
        place = path.relative_to(CLAIMS)
        if not path.name.startswith("_"):  # shared by the claims of a room
            assert place.parts[0] in corollary.ROOMS, place
            assert stands_for(path.stem, SOURCE / place.parent, private=False), place


def test_tests_are_where_the_file_they_are_about_is():
    for room in corollary.ROOMS:
        for path in (TESTS / room).rglob("test_*.py"):
            place = path.relative_to(TESTS)
            assert stands_for(path.stem.removeprefix("test_"), SOURCE / place.parent, private=True), place


def test_every_public_file_of_a_room_has_tests():
    missing = set()
    for room in corollary.ROOMS:
        for path in files(room):
            directory = TESTS / path.parent.relative_to(SOURCE)
            own = [*directory.glob(f"test_{path.stem}.py"), *directory.glob(f"test_{path.stem}_*.py")]
            if not path.name.startswith("_") and not own:
                missing.add(dotted(path))
    assert missing == set()
