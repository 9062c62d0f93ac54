"""One answer of the audit: a number that was measured, the theorem that gives it meaning, what follows."""

import math
from dataclasses import asdict, dataclass

from corollary.evidence import Figure

#: From good to bad. `not applicable` says why in its sentence, and does not make a section worse.
MARKS = ("not applicable", "fine", "look", "problem")


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

    def __post_init__(self):
        if self.mark not in MARKS:
            raise ValueError(f"mark must be one of {', '.join(MARKS)}, got {self.mark!r}.")
        if self.value is None and self.mark != "not applicable":
            raise ValueError(f"the finding {self.name!r} has no value: it must say that it is not applicable.")
        if self.value is not None and not self.exact and self.interval is None:
            raise ValueError(f"the finding {self.name!r} must have an interval or say that it is exact.")

    @property
    def number(self) -> str:
        """The value as it is printed, with its uncertainty."""
        if self.value is None:
            return "–"
        unit = f" {self.unit}" if self.unit else ""
        if self.exact or self.interval is None:
            return f"{short(self.value)}{unit}"
        low, high = self.interval
        return f"{short(self.value)}{unit} [{short(low)}, {short(high)}]"


@dataclass(frozen=True)
class Section:
    """The findings to one question. `failed` is the sentence of what went wrong, if something did."""

    title: str
    findings: tuple[Finding, ...] = ()
    failed: str | None = None
    seconds: float = 0.0

    @property
    def mark(self) -> str:
        """The worst of its findings; a section that failed is a problem."""
        if self.failed is not None:
            return "problem"
        return max((f.mark for f in self.findings), key=MARKS.index, default="not applicable")

    @property
    def line(self) -> str:
        """What to read first: the sentence of the worst finding."""
        if self.failed is not None:
            return self.failed
        worst = [f for f in self.findings if f.mark == self.mark]
        return worst[0].sentence if worst else "Nothing could be measured."

    def as_dict(self) -> dict:
        fields = {"title": self.title, "mark": self.mark, "line": self.line, "seconds": round(self.seconds, 2)}
        return fields | {"failed": self.failed, "findings": [_plain(f) for f in self.findings]}


def _plain(finding: Finding) -> dict:
    fields = asdict(finding)
    fields["figure"] = None if finding.figure is None else finding.figure.spec
    return fields


def short(x: float) -> str:
    """Four digits that a person can read."""
    if x is None or not math.isfinite(x):
        return str(x)
    if x == 0:
        return "0"
    if 1e-3 <= abs(x) < 1e5:
        return f"{x:.4g}"
    return f"{x:.2e}"
