"""Which rows are covered: by a claim that measures them, or by a public object that implements them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from corollary.catalog._registry import IMPLEMENTED
from corollary.catalog._rows import Row, rows, waived

if TYPE_CHECKING:
    from corollary.evidence._staleness._sources import Sources


@dataclass(frozen=True, slots=True)
class Covered:
    """One row and everything that covers it; `waived` is the reason why nothing has to."""

    row: Row
    claims: tuple[str, ...]
    objects: tuple[str, ...]
    waived: str | None

    @property
    def by(self) -> tuple[str, ...]:
        """Claims first, then objects."""
        return self.claims + self.objects

    @property
    def missing(self) -> bool:
        return not self.by and self.waived is None


class Summary(NamedTuple):
    """Counts of rows of one chapter: `rows = covered + waived + missing`.

    A row with a claim and an object counts in `by_claim` and in `by_object`; a waived row that something
    covers all the same counts as covered.
    """

    text: str
    chapter: str
    rows: int
    covered: int
    by_claim: int
    by_object: int
    waived: int


def coverage() -> list[Covered]:
    """Every row with its claims and objects, read from the sources."""
    claims, objects = _named_by_claims(), _named_by_objects()
    reasons = waived()
    return [
        Covered(row, tuple(claims.get(id, ())), tuple(objects.get(id, ())), reasons.get(id))
        for id, row in rows().items()
    ]


def unknown_rows() -> dict[str, tuple[str, ...]]:
    """Row ids that a claim or an object names and that do not exist, with those who name them."""
    known, unknown = rows(), {}
    for named in (_named_by_claims(), _named_by_objects()):
        for id, who in named.items():
            if id not in known:
                unknown[id] = (*unknown.get(id, ()), *who)
    return unknown


def summary(covered: Iterable[Covered]) -> list[Summary]:
    """The counts of each chapter, in the order in which the chapters first appear."""
    chapters: dict[tuple[str, str], list[Covered]] = {}
    for one in covered:
        chapters.setdefault((one.row.text, one.row.chapter), []).append(one)
    return [
        Summary(
            text,
            chapter,
            rows=len(group),
            covered=sum(bool(one.by) for one in group),
            by_claim=sum(bool(one.claims) for one in group),
            by_object=sum(bool(one.objects) for one in group),
            waived=sum(one.waived is not None and not one.by for one in group),
        )
        for (text, chapter), group in chapters.items()
    ]


def _named_by_claims() -> dict[str, list[str]]:
    from corollary.evidence import claims  # late: the catalog itself stays light

    named: dict[str, list[str]] = {}
    for id, claim in claims().items():
        for row in dict.fromkeys(claim.rows):
            named.setdefault(row, []).append(id)
    return named


def _named_by_objects() -> dict[str, list[str]]:
    from corollary import ROOMS
    from corollary.evidence._code import sources

    named = implemented(sources(), (*ROOMS, "network"))
    for row, names in IMPLEMENTED.items():  # of a user's own modules; ours are read without importing them
        named.setdefault(row, []).extend(name for name in names if not name.startswith("corollary."))
    return {row: list(dict.fromkeys(names)) for row, names in named.items() if names}


def implemented(sources: "Sources", rooms: Iterable[str]) -> dict[str, list[str]]:
    """row -> the objects of the rooms that are decorated with it, by the names under which users import them."""
    named: dict[str, list[str]] = {}
    inside = tuple(f"corollary.{room}" for room in rooms)
    for module, table in sources.tables.items():
        if f"{module}.".startswith(tuple(f"{room}." for room in inside)):
            for name, those in table["implements"]:
                for row in those:
                    named.setdefault(row, []).append(_public(sources, module, name))
    return named


def _public(sources: "Sources", module: str, name: str) -> str:
    """The name under which users import an object: private modules left out where the package exports it."""
    top, *path = [part for part in module.split(".") if not part.startswith("_")]
    meant = sources.closures.behind(top, [*path, *name.split(".")])
    known = meant and meant <= {(module, name.partition(".")[0]), (module, "*")}
    return ".".join([top, *path, name]) if known else f"{module}.{name}"
