"""The findings of two audits side by side: what turned into a problem, or is none any more."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from scipy.stats import norm

from corollary.audit._numbers import read, short

#: the quantile that intervals at 95 % have been made with
NORMAL = 1.96


@dataclass(frozen=True)
class Change:
    """A finding of both audits: its numbers and marks, the smallest difference that its intervals show, a verdict.

    Numbers of a finding have no good or bad side by themselves: it is worse where it is a problem now and was none, and
    its number moved by more than both intervals explain. `smallest` is 0 for numbers that are exact.
    """

    name: str
    before: float
    after: float
    marks: tuple[str, str]
    smallest: float
    verdict: str
    sentence: str

    @property
    def turned(self) -> bool:
        return self.marks[0] != self.marks[1]

    def as_dict(self) -> dict:
        return asdict(self)


def changes(new: list[dict], old: list[dict], level: float) -> tuple[Change, ...]:
    """The findings that both lists of sections have a number for, corrected together."""
    before, after = _by_name(old), _by_name(new)
    pairs = [(before[name], after[name]) for name in after if name in before]
    # Bonferroni: a finding that follows from another is not independent of it
    wide = float(norm.isf(level / 2 / max(len(pairs), 1))) / NORMAL
    return tuple(_change(a, b, wide) for a, b in pairs)


def _by_name(sections: list[dict]) -> dict[str, dict]:
    findings = [f for section in sections for f in section["findings"]]
    return {f["name"]: f for f in findings if f["value"] is not None and f["mark"] != "not applicable"}


def _change(before: dict, after: dict, wide: float) -> Change:
    values = read(before["value"]), read(after["value"])
    marks = before["mark"], after["mark"]
    smallest = wide * math.hypot(*(_half(f) for f in (before, after)))
    moved = abs(values[1] - values[0])
    seen = moved > smallest or not math.isfinite(moved)
    verdict = "no difference seen"
    if seen and (marks[0] == "problem") != (marks[1] == "problem"):
        verdict = "worse" if marks[1] == "problem" else "better"
    unit = f" {after['unit']}" if after["unit"] else ""
    said = f"{short(values[0])} → {short(values[1])}{unit}, {marks[0]} → {marks[1]}"
    if verdict != "no difference seen":
        end = verdict
    elif seen:
        end = "moved, and neither became a problem nor ceased to be one"
    else:
        end = f"no difference seen; one of {short(smallest)} would have been"
    return Change(before["name"], *values, marks, smallest, verdict, f"{said}: {end}.")


def _half(finding: dict) -> float:
    """Half the width of the interval, 0 for a number that is exact."""
    if finding["exact"] or finding["interval"] is None:
        return 0.0
    low, high = map(read, finding["interval"])
    width = high - low
    return width / 2 if math.isfinite(width) else math.inf
