"""A problem of one section can take away what the answer of another one rests on: then that cannot tell."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from corollary.audit._answer import because
from corollary.audit.finding import Section

YES = "Yes: "


def unsettled(sections: Sequence[Section], unsettles: Mapping[str, Sequence[str]]) -> tuple[Section, ...]:
    """The sections, none of which says yes against a problem of another one.

    `unsettles` has the titles of the sections that a finding puts in doubt by the name of the finding.
    """
    problems = [f for section in sections for f in section.findings if f.mark == "problem"]
    doubts = {title: f.sentence for f in problems for title in unsettles.get(f.name, ())}

    def settled(section: Section) -> Section:
        if section.title not in doubts or not section.answer.startswith(YES):
            return section
        rest = section.answer.removeprefix(YES)
        return replace(section, answer=because("Cannot tell", doubts[section.title], f"{rest[0].upper()}{rest[1:]}"))

    return tuple(map(settled, sections))
