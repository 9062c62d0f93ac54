"""The source files of the package and of a user's own claims, read once and kept under their digests."""

import ast
import hashlib
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from corollary.evidence._staleness import _cache
from corollary.evidence._staleness._closure import FRAME, Closures, Unit
from corollary.evidence._staleness._declared import declared
from corollary.evidence._staleness._table import table_of


class File(NamedTuple):
    """One module: its text, the text of the stub from which a package loads its names, a digest of data beside it."""

    path: Path
    source: str
    stub: str | None
    data: str = ""


class Sources:
    """The modules under some roots, each a package's directory or a file; a snapshot, taken when it is made.

    Those of `base` belong to it too.
    """

    def __init__(self, roots: dict[str, Path], base: "Sources | None" = None):
        self.roots, self.base = roots, base
        paths = {module: path for name, root in roots.items() for module, path in _modules(name, root)}
        data = {place: _data(place) for place in {path.parent for path in paths.values()}}
        self._own = {module: _read(path, data[path.parent]) for module, path in paths.items()}
        self.files: dict[str, File] = (base.files if base else {}) | self._own

    @cached_property
    def digests(self) -> dict[str, str]:
        """module -> digest of its file, its stub and the data beside it."""
        own = {module: _digest("\0".join([f.source, f.stub or "", f.data])) for module, f in self._own.items()}
        return (self.base.digests if self.base else {}) | own

    @cached_property
    def digest(self) -> str:
        """Twelve hex digits of all of it."""
        return _digest("\n".join(f"{m} {d}" for m, d in sorted(self.digests.items())))[:12]

    @cached_property
    def tables(self) -> dict[str, dict]:
        """module -> its table, with the claims and rows it declares."""
        name, reader = f"tables-{self._place}.json", _reader()
        kept = _cache.load(name)
        known = kept.get("files", {}) if kept.get("reader") == reader else {}
        found = {}
        for module, file in self._own.items():
            old, digest = known.get(module), self.digests[module]
            found[module] = old if old and old[0] == digest else [digest, _table(module, file)]
        if found != known:
            _cache.save(name, {"reader": reader, "files": found})
        return (self.base.tables if self.base else {}) | {module: table for module, (_, table) in found.items()}

    @cached_property
    def closures(self) -> Closures:
        return Closures(self.tables)

    @cached_property
    def versions(self) -> dict[str, str]:
        """`module:name` of every claim -> its code version."""
        name, state = f"versions-{self._place}.json", f"{self.digest} {_reader()}"
        kept = _cache.load(name)
        if kept.get("state") != state:
            kept = {
                "state": state,
                "versions": {
                    f"{module}:{entry['name']}": self.closures.version(self.roots_of(module, entry["name"]))
                    for module in self._own
                    for entry in self.tables[module]["claims"]
                },
            }
            _cache.save(name, kept)
        return kept["versions"]

    def version(self, module: str, name: str) -> str:
        """The code version of one definition."""
        return self.versions.get(f"{module}:{name}") or self.closures.version(self.roots_of(module, name))

    def roots_of(self, module: str, name: str) -> list[Unit]:
        """Where the closure of a claim begins; a claim that is no definition of its module begins with all of it."""
        frame = [(where, what) for where, what in FRAME if what in self.tables.get(where, {"names": ()})["names"]]
        if module not in self.tables:
            return frame
        return [(module, name if name in self.tables[module]["names"] else "*"), *frame]

    @property
    def _place(self) -> str:
        return _digest(" ".join(f"{name}={path}" for name, path in sorted(self.roots.items())))[:12]


def _read(path: Path, data: str) -> File:
    stub = path.with_suffix(".pyi")
    said = stub.read_text(encoding="utf-8") if stub.is_file() else None
    return File(path, path.read_text(encoding="utf-8"), said, data)


def _data(directory: Path) -> str:
    """A digest of the files that a package brings along for its modules to read; "" where there are none."""
    if not (directory / "__init__.py").is_file():
        return ""
    code = (".py", ".pyi", ".pyc", ".typed")
    files = [p for p in sorted(directory.iterdir()) if p.suffix not in code and p.is_file()]
    return _digest("".join(f"{p.name} {hashlib.sha256(p.read_bytes()).hexdigest()}\n" for p in files)) if files else ""


def _modules(name: str, root: Path) -> list[tuple[str, Path]]:
    """All modules of a package, or the one of a file."""
    if root.is_file():
        return [(name, root)]
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found.append((".".join([name, *parts]), path))
    return found


def _table(module: str, file: File) -> dict:
    try:
        tree = ast.parse(file.source)
        stub = ast.parse(file.stub or "")
    except SyntaxError:  # nothing can import it either; its text stands for it
        tree, stub = ast.parse(f"broken = {_digest(file.source)!r}"), ast.parse("")
    made = declared(tree, module)  # before the table, which takes the trees apart
    return table_of(tree, module, package=file.path.name == "__init__.py", stub=stub) | made | {"data": file.data}


def _reader() -> str:
    """A digest of the code that makes tables, which others do not outlive."""
    here = Path(__file__).parent
    return _digest("".join(p.read_text(encoding="utf-8") for p in sorted(here.glob("*.py"))))[:12]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
