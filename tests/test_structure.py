"""The house keeps its shape: one table per package, imports that point one way, files where one guess finds them."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import corollary

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "corollary"
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.pyi"))


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


@pytest.mark.parametrize("package", PACKAGES, ids=dotted)
def test_every_name_of_a_table_is_there_and_shadows_no_other_file(package):
    module = importlib.import_module(dotted(package))
    files = {found.name for found in pkgutil.iter_modules(module.__path__)}
    for name in module.__all__:
        value = getattr(module, name)
        if name in files and not inspect.ismodule(value):  # what has the name of a file is defined in that file
            assert value.__module__ == f"{module.__name__}.{name}", name


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
    assert value is getattr(file, name) is getattr(module, name), (module, name)
    assert not inspect.ismodule(value), (module, name)
from corollary.nets import fit
assert callable(fit)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_package_offers_its_rooms():
    assert set(corollary.ROOMS) <= set(dir(corollary))
    assert all(inspect.ismodule(getattr(corollary, room)) for room in corollary.ROOMS)


def test_no_star_imports():
    files = [path for place in ("src", "tests", "benchmarks", "examples") for path in (ROOT / place).rglob("*.py")]
    assert not [path for path in files if "import *" in path.read_text(encoding="utf-8") and path != Path(__file__)]
