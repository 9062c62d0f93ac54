"""The findings of a report that was read back from JSON, what of them was accepted, and which make a run fail."""

from collections.abc import Iterator
from typing import NamedTuple

from corollary.audit._numbers import ranged, read

#: What `--fail-on` takes, and the marks that make a run fail. `worse` is a matter of the comparison.
FAIL_ON = {"problem": ("problem",), "look": ("look", "problem"), "worse": ()}
#: The name of what stands for a section that stopped.
STOPPED = "the section itself"


class Item(NamedTuple):
    """A finding, or a section that stopped, in a few words. `reason` says why it was accepted; None: it was not."""

    section: str
    name: str
    mark: str
    sentence: str
    number: str = ""
    reason: str | None = None
    stopped: bool = False
    headline: str = ""

    @property
    def title(self) -> str:
        """The headline, or the name where there is none."""
        return self.headline or self.name

    @property
    def details(self) -> str:
        """The name where a headline stands before it, and the number; in parentheses, where there is one of them."""
        said = ", ".join(filter(None, (self.name if self.headline else "", self.number)))
        return f"({said})" if said else ""

    @property
    def line(self) -> str:
        """The mark, what is wrong and where."""
        place = f"{self.name}; {self.section}" if self.headline else self.section
        return f"{self.mark}: {self.title} ({place})"

    def fails(self, fail_on: str | None) -> bool:
        """Whether it makes a run fail."""
        return self.reason is None and self.mark in FAIL_ON[fail_on or "problem"]


def items(fields: dict) -> Iterator[Item]:
    """What the report of these fields says, in its order."""
    accepted = {entry["finding"]: f"{entry['reason']} (until {entry['until']})" for entry in fields.get("accepted", ())}
    for section in fields["sections"]:
        title = section["title"]
        for f in section["findings"]:
            # a report of an earlier version has no headlines
            said = f["name"], f["mark"], f["sentence"], _number(f), accepted.get(f["name"])
            yield Item(title, *said, headline=f.get("headline", ""))
        if section["failed"] is not None:
            # by its title: a section that stops is one thing to know
            yield Item(title, STOPPED, "problem", section["failed"], reason=accepted.get(title), stopped=True)


def failing(fields: dict, fail_on: str) -> list[str]:
    """A line for all that makes the run fail."""
    found = [item.line for item in items(fields) if item.fails(fail_on)]
    if fail_on == "worse":
        found += [f"worse: {entry['name']}. {entry['sentence']}" for entry in worse(fields)]
    return found


def worse(fields: dict) -> list[dict]:
    """What the comparison found to be worse and nobody accepted."""
    comparison = fields.get("comparison")
    accepted = {entry["finding"] for entry in fields.get("accepted", ())}
    entries = [] if comparison is None else [*comparison["tests"], *comparison["findings"]]
    return [entry for entry in entries if entry["verdict"] == "worse" and entry["name"] not in accepted]


def _number(finding: dict) -> str:
    if finding["value"] is None:
        return ""
    ends = None if finding["exact"] or finding["interval"] is None else [read(end) for end in finding["interval"]]
    return ranged(read(finding["value"]), ends, finding["unit"])
