"""How sections put their answers: a word, then the sentence of the finding that decides."""

from collections.abc import Sequence

from corollary.audit.finding import Finding


def by_name(findings: Sequence[Finding]) -> dict[str, Finding]:
    """The findings by their names."""
    return {f.name: f for f in findings}


def first(findings: Sequence[Finding], names: Sequence[str], mark: str) -> Finding | None:
    """The first of these names, in their order, whose finding has this mark."""
    found = by_name(findings)
    return next((found[name] for name in names if name in found and found[name].mark == mark), None)


def because(word: str, *sentences: str) -> str:
    """The word, a colon, and sentences of which the first goes on after it."""
    start, *rest = sentences
    if start[1:2].islower() or start[1:2] == " ":
        start = start[0].lower() + start[1:]
    return " ".join([f"{word}: {start}", *rest])
