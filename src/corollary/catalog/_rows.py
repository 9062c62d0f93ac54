"""The rows: one for each model, algorithm, quantity, theorem, experiment and exercise of the texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

#: letter of a text -> short citation (the ETH notes are read in two versions, hence five texts)
TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "B": "Lucchi, *Foundations of Deep Learning*",
        "M": "Spiliopoulos, Sowers, Sirignano, *Mathematical Foundations of Deep Learning Models and"
        " Algorithms*, AMS GSM 252",
        "T": "Arora et al., *Theory of Deep Learning*",
        "E": "ETH *Deep Learning* notes",
    }
)

KINDS = ("MODEL", "ALGO", "QUANTITY", "THEOREM", "EXPERIMENT", "EXERCISE")


@dataclass(frozen=True, slots=True)
class Row:
    """One item of the texts. `text + chapter` is the part of the id before the dot: M and 02 in M02.05."""

    id: str
    kind: str
    title: str
    text: str
    chapter: str
    section: str


@cache
def rows() -> Mapping[str, Row]:
    """All rows by id, text after text and in the order of each text."""
    found = {}
    for text in TEXTS:
        for id, kind, title, section in _table(f"rows/{text}.tsv", "id", "kind", "title", "section"):
            chapter = id.partition(".")[0].removeprefix(text)
            found[id] = Row(id, kind, title, text, chapter, section)
    return MappingProxyType(found)


@cache
def chapters() -> Mapping[str, str]:
    """The title of each chapter by the part of a row's id before the dot: M02 is Linear Regression."""
    return MappingProxyType(dict(_table("chapters.tsv", "chapter", "title")))


@cache
def waived() -> Mapping[str, str]:
    """Rows that have no content of their own to run, each with the reason in one sentence."""
    return MappingProxyType({id: reason for id, reason in _table("waived.tsv", "id", "reason")})


def _table(name: str, *columns: str) -> list[list[str]]:
    """The lines of a tab-separated file of this package, without its header."""
    header, *lines = files("corollary.catalog").joinpath(name).read_text(encoding="utf-8").splitlines()
    cells = [line.split("\t") for line in lines]
    if header.split("\t") != list(columns) or any(len(line) != len(columns) for line in cells):
        raise ValueError(f"catalog/{name} must have the columns {', '.join(columns)} in every line.")
    return cells
