"""All claims, without running any code of theirs: those of the package are read from its sources.

Everything that `@claim` and a signature declare is literal, so that listing claims needs neither JAX nor an import.
"""

import difflib
import fnmatch
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from corollary.evidence import _parameters
from corollary.evidence._claim import _REGISTRY, PACKAGE, Claim, id_of, presets_of
from corollary.evidence._code import sources
from corollary.evidence._errors import UnknownClaim, UserError, described

#: what the annotation of a parameter may say
_WORDS = {name: getattr(_parameters, name) for name in ("Size", "Count", "Positive", "Probability", "Real", "Range")}
_WORDS |= {"Annotated": Annotated, "Literal": Literal, "bool": bool, "int": int, "float": float}

#: modules that were loaded from a path -> the path, so that a worker can do the same
FILES: dict[str, str] = {}


def claims() -> dict[str, Claim]:
    """All claims by id: those of the package, and those of the modules and files that `COROLLARY_CLAIMS` names."""
    for name in filter(None, map(str.strip, os.environ.get("COROLLARY_CLAIMS", "").split(","))):
        try:
            with redirect_stdout(sys.stderr):  # what it prints must not get between the lines that the command prints
                load(name)
        except UserError:
            raise
        except (Exception, SystemExit) as error:  # whatever stands in it
            why = str(error) if isinstance(error, ImportError) else described(error)
            raise UserError(f"COROLLARY_CLAIMS names {name}, which cannot be imported: {why.rstrip('.')}.") from None
    return dict(sorted((_package() | _REGISTRY).items()))


def load(name: str, file: str | None = None) -> None:
    """Import a module with claims; `name` may be a path to a Python file, and `file` says where a module came from."""
    path = file or (name if name.endswith(".py") or os.sep in name else None)
    if path is None:
        importlib.import_module(name)
        return
    place = Path(path).expanduser().resolve()
    module = place.stem
    if not place.is_file():
        raise UserError(f"There is no file {path} with claims.")
    if module in sys.modules:
        if FILES.get(module) != str(place):
            raise UserError(f"The claims in {path} need another file name: there is a module {module} already.")
        return
    if str(place.parent) not in sys.path:
        sys.path.append(str(place.parent))  # what it imports may lie beside it
    spec = importlib.util.spec_from_file_location(module, place)
    made = sys.modules[module] = importlib.util.module_from_spec(spec)
    FILES[module] = str(place)
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[module], FILES[module]
        raise


def select(patterns: Iterable[str], *, words: bool = False) -> list[Claim]:
    """The claims whose id matches any of the globs, each once; a pattern that matches none is an error.

    With `words`, a pattern that is no glob and no id finds the claims that have it in their id or title.
    """
    known, chosen = claims(), {}
    for pattern in patterns:
        hits = fnmatch.filter(known, pattern)
        if words and not hits and not any(sign in pattern for sign in "*?["):
            word = pattern.casefold()
            hits = [id for id, c in known.items() if word in id.casefold() or word in c.title.casefold()]
        if not hits:
            raise UnknownClaim(f"No claim matches {pattern!r}.{_nearest(pattern, known)}")
        chosen |= {hit: known[hit] for hit in hits}
    return list(chosen.values())


@cache
def _package() -> MappingProxyType[str, Claim]:
    found = {}
    for module, table in sources().tables.items():
        for entry in table["claims"] if module.startswith(PACKAGE) else ():
            made = _indexed(module, entry)
            if made.id in found:
                raise ValueError(f"There are two claims with the id {made.id}.")
            found[made.id] = made
    return MappingProxyType(found)


def _indexed(module: str, entry: dict) -> Claim:
    id = id_of(module, entry["name"])
    try:
        if not entry["literal"]:
            raise NameError
        parameters = {
            name: _parameters.parameter(entry["name"], name, _hint(annotation), default)
            for name, annotation, default in entry["parameters"]
        }
    except NameError:  # it says something that only its module knows
        importlib.import_module(module)
        return _REGISTRY[id]
    return Claim(
        id,
        module,
        entry["title"],
        entry["statement"],
        tuple(entry["rows"]),
        parameters,
        entry.get("erratum"),
        entry.get("no_control"),
        presets_of(parameters, entry.get("full"), entry.get("large")),
    )


@cache
def _hint(annotation: str):
    """The annotation of a parameter as an object."""
    return eval(annotation, {"__builtins__": {}}, _WORDS)  # from our own sources, as an import would


def _nearest(pattern: str, known: Iterable[str]) -> str:
    tails: dict[str, list[str]] = {}
    for each in known:  # a name without its path is the likeliest thing to be typed
        tails.setdefault(each.rsplit(".", 1)[-1], []).append(each)
    near = difflib.get_close_matches(pattern, known, n=3, cutoff=0.5)
    for tail in difflib.get_close_matches(pattern.rsplit(".", 1)[-1], tails, n=3, cutoff=0.6):
        near += [each for each in tails[tail] if each not in near]
    return "".join(f"\n  {each}" for each in [" The nearest:", *near[:5]]) if near else " `corollary list` shows them."
