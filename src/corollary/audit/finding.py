"""One answer of the audit: a number that was measured, the theorem that gives it meaning, what follows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from corollary.audit._numbers import ranged
from corollary.audit._numbers import short as short
from corollary.evidence import Figure

#: From good to bad. `not applicable` says why in its sentence, and does not make a section worse.
MARKS = ("not applicable", "fine", "look", "problem")
#: The marks of what is wrong, or may be.
MARKED = MARKS[2:]
#: What the answer of a section begins with.
ANSWERS = ("Yes", "No", "Partly", "Cannot tell")


@dataclass(frozen=True)
class Premise:
    """One premise of a theorem on this network: whether it `holds` (None: not known), and what was measured."""

    text: str
    holds: bool | None
    measured: str = ""


@dataclass(frozen=True)
class Finding:
    """One measured number and what the theory makes of it.

    `value` has an `interval` (at 95 %, or a bound where `certain` says so) or is `exact`. `sentence` says what
    follows, no more strongly than the `premises` allow; `theorem` is the statement it rests on and `claim` the id of
    the claim that measures that statement. A finding without a value says in its sentence why there is none.

    `headline` says in a few words what is wrong, for people; `name` says what was measured and stays the same. A
    finding that is not marked has none, whatever it is made with.
    """

    name: str
    mark: str
    sentence: str
    value: float | None = None
    interval: tuple[float, float] | None = None
    exact: bool = False
    unit: str = ""
    theorem: str = ""
    claim: str | None = None
    premises: tuple[Premise, ...] = ()
    figure: Figure | None = None
    headline: str = ""

    def __post_init__(self):
        if self.mark not in MARKED:
            object.__setattr__(self, "headline", "")
        if self.mark not in MARKS:
            raise ValueError(f"mark must be one of {', '.join(MARKS)}, got {self.mark!r}.")
        if self.value is None and self.mark != "not applicable":
            raise ValueError(f"the finding {self.name!r} has no value: it must say that it is not applicable.")
        if self.value is not None and not self.exact and self.interval is None:
            raise ValueError(f"the finding {self.name!r} must have an interval or say that it is exact.")

    @property
    def title(self) -> str:
        """The headline, or the name where there is none."""
        return self.headline or self.name

    @property
    def number(self) -> str:
        """The value as it is printed, with its uncertainty."""
        if self.value is None:
            return "–"
        return ranged(self.value, None if self.exact else self.interval, self.unit)


@dataclass(frozen=True)
class Cause:
    """A marked finding that no other one explains, and the marked findings that follow from it."""

    finding: Finding
    follows: tuple[Finding, ...] = ()

    @property
    def mark(self) -> str:
        """The worst of the finding and of what follows from it."""
        return max((f.mark for f in (self.finding, *self.follows)), key=MARKS.index)

    def as_dict(self) -> dict:
        return {"finding": self.finding.name, "mark": self.mark, "follows": [f.name for f in self.follows]}


def causes(findings: Sequence[Finding], explains: Mapping[str, Sequence[str]]) -> tuple[Cause, ...]:
    """The marked findings under their causes, the worst first.

    `explains` has the names of findings that follow from one, at one remove. Where several causes explain a finding it
    stands under the first of them; of findings that explain each other in a circle the worst is the cause.
    """
    marked = {f.name: f for f in findings if f.mark in MARKED}
    reached = {name: _reached(name, marked, explains) for name in marked}
    # what reaches a cause is reached by it: they explain each other
    first = [n for n in marked if all(other in reached[n] for other in marked if n in reached[other])]
    taken: set[str] = set()
    found = []
    for name in sorted(first, key=lambda name: -MARKS.index(marked[name].mark)):
        if name not in taken:
            follows = [n for n in reached[name] if n != name and n not in taken]
            taken |= {name, *follows}
            found.append(Cause(marked[name], tuple(marked[n] for n in follows)))
    return tuple(sorted(found, key=lambda cause: -MARKS.index(cause.mark)))


def _reached(name: str, marked, explains) -> list[str]:
    """The marked findings that follow from one at any remove, the nearest first."""
    found, rest = [], [name]
    while rest:
        for other in explains.get(rest.pop(0), ()):
            if other in marked and other not in found:
                found.append(other)
                rest.append(other)
    return found


@dataclass(frozen=True)
class Section:
    """The findings to one question, its answer, and the marked findings under their causes.

    `failed` is the sentence of what went wrong, if something did.
    """

    title: str
    findings: tuple[Finding, ...] = ()
    answer: str = "Cannot tell: nothing could be measured."
    causes: tuple[Cause, ...] = ()
    failed: str | None = None
    seconds: float = 0.0

    def __post_init__(self):
        if not self.answer.startswith(ANSWERS):
            raise ValueError(f"an answer must begin with {', '.join(ANSWERS)}, got {self.answer!r}.")

    @property
    def mark(self) -> str:
        """The worst of its findings; a section that failed is a problem, and one that cannot tell is not fine."""
        if self.failed is not None:
            return "problem"
        worst = max((f.mark for f in self.findings), key=MARKS.index, default="not applicable")
        unknown = worst == "fine" and self.answer.startswith(ANSWERS[-1])
        return "not applicable" if unknown else worst

    def as_dict(self) -> dict:
        fields = {"title": self.title, "mark": self.mark, "answer": self.answer, "seconds": round(self.seconds, 2)}
        fields |= {"causes": [cause.as_dict() for cause in self.causes], "failed": self.failed}
        return fields | {"findings": [_plain(f) for f in self.findings]}


def _plain(finding: Finding) -> dict:
    fields = asdict(finding)
    fields["figure"] = None if finding.figure is None else finding.figure.spec
    return fields
