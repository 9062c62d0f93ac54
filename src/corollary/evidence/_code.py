"""The version of the code behind a claim: a digest of everything of ours that it reaches by name.

Exact in both directions: an edit makes the evidence of those claims stale that use what was edited, and of no others.
Docstrings, rows and the layout of the files do not count.
"""

import importlib.util
import sys
from functools import cache
from pathlib import Path

import corollary
from corollary.evidence._staleness._sources import Sources

PACKAGE = "corollary"


@cache
def code_version(module: str, name: str) -> str:
    """Twelve hex digits that change when something changes that the definition `name` of `module` reaches."""
    return sources(module.partition(".")[0]).version(module, name)


@cache
def sources(top: str = PACKAGE) -> Sources:
    """The sources of the package, and with them those of a user's own module and of what lies beside it.

    They are read once per process, as modules are imported once.
    """
    if top == PACKAGE:
        return Sources({PACKAGE: Path(corollary.__file__).parent})
    return Sources(_beside(top), base=sources())


def _beside(top: str) -> dict[str, Path]:
    """A module and the modules in its directory that it imports, at any remove."""
    origin = _origin(top)
    if origin is None:  # a notebook, for instance, has no file
        return {}
    found = {top: origin}
    place = origin.parent
    if place.name in ("site-packages", "dist-packages"):  # an installed package stands for itself
        return found
    open_ = [top]
    while open_:
        name = open_.pop()
        for table in Sources({name: found[name]}).tables.values():
            for used in {module.partition(".")[0] for module in table["uses"]} - {*found, PACKAGE}:
                file, package = place / f"{used}.py", place / used
                if file.is_file() or (package / "__init__.py").is_file():
                    found[used] = file if file.is_file() else package
                    open_.append(used)
    return found


def _origin(top: str) -> Path | None:
    """The file of a module, or the directory of a package."""
    origin = getattr(sys.modules.get(top), "__file__", None)
    if origin is None:
        try:
            spec = importlib.util.find_spec(top)
        except (ModuleNotFoundError, ValueError):
            return None
        origin = spec.origin if spec else None
    if origin is None or not origin.endswith(".py"):
        return None
    path = Path(origin).resolve()
    return path.parent if path.name == "__init__.py" else path
