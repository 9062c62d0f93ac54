"""Findings that somebody knows of and lives with for a while: which, why, and until when."""

import difflib
import json
from datetime import date
from os import PathLike
from typing import NamedTuple

from corollary.audit._errors import SubjectError

KEYS = ("finding", "reason", "until")
FORM = 'a list of {"finding": name, "reason": text, "until": "YYYY-MM-DD"}'


class Accepted(NamedTuple):
    """A finding (or a section that stops, by its title) that makes no run fail until the end of a day."""

    finding: str
    reason: str
    until: str


def read_accepted(path: str | PathLike, today: date | None = None) -> tuple[Accepted, ...]:
    """What a file accepts; one sentence if it is not in that form, or a date is past."""
    try:
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)
    except OSError as error:
        raise SubjectError(f"--accept {path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise SubjectError(f"--accept {path} is not JSON: it must hold {FORM}.") from None
    if not isinstance(entries, list) or not all(map(_in_form, entries)):
        raise SubjectError(f"--accept {path} must hold {FORM}.")
    found = tuple(Accepted(*(entry[key] for key in KEYS)) for entry in entries)
    for i, entry in enumerate(found):
        try:
            until = date.fromisoformat(entry.until)
        except ValueError:
            text = f"the date of {entry.finding!r} must be YYYY-MM-DD, got {entry.until!r}"
            raise SubjectError(f"--accept {path}: {text}.") from None
        if until < (today or date.today()):
            text = f"{entry.finding!r} was accepted until {entry.until}, which is past: mend it, or give another date"
            raise SubjectError(f"--accept {path}: {text}.")
        if entry.finding in {other.finding for other in found[:i]}:
            raise SubjectError(f"--accept {path} has {entry.finding!r} twice.")
    return found


def _in_form(entry) -> bool:
    return (
        isinstance(entry, dict)
        and sorted(entry) == sorted(KEYS)
        and all(isinstance(entry[key], str) and entry[key].strip() for key in KEYS)
    )


def require_known(names: tuple[str, ...], fields: dict, who: str) -> None:
    """One sentence if a name is that of no finding, and of no section, of a report."""
    known = [f["name"] for section in fields["sections"] for f in section["findings"]]
    known += [section["title"] for section in fields["sections"]]
    if fields.get("comparison") is not None:
        known += [entry["name"] for entry in fields["comparison"]["tests"]]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ", whose findings --json lists."
            raise SubjectError(f"{who} names {name!r}, which is no finding of this audit{hint}")
