"""What to do next: an action, what it treats, what it is expected to do, and how that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from corollary.audit._effects import effect_line
from corollary.audit._errors import SubjectError
from corollary.audit.finding import MARKS, Cause, Finding, causes
from corollary.audit.subject import Subject

HOW_KNOWN = ("theorem", "short run", "population")
#: Why an error is expected to rise without a leak.
FLATTERED = "The error now flatters: new examples will not come with the leak."
#: The most that a report advises.
MOST = 5

#: Quantities of an effect that every subject knows by name.
QUANTITIES = {
    "training loss": lambda subject: subject.mean_loss("train"),
    "test loss": lambda subject: subject.mean_loss("test"),
    "training error": lambda subject: subject.error("train"),
    "test error": lambda subject: subject.error("test"),
}


@dataclass(frozen=True)
class Effect:
    """What an action changes: `quantity` is `now` and is expected to be `then`, within `interval`.

    `measure(subject)` gives the quantity of a treated subject; those in `QUANTITIES` have one already.
    """

    quantity: str
    now: float
    then: float
    interval: tuple[float, float]
    measure: Callable[[Subject], float] | None = None

    def __post_init__(self):
        if self.measure is None and self.quantity not in QUANTITIES:
            raise ValueError(f"the quantity {self.quantity!r} needs measure, a function of a subject.")
        if not self.interval[0] <= self.then <= self.interval[1]:
            raise ValueError(f"then must lie in the interval {self.interval}, got {self.then}.")

    def measured(self, subject: Subject) -> float:
        """The quantity of a treated subject."""
        return float((self.measure or QUANTITIES[self.quantity])(subject))

    @property
    def line(self) -> str:
        """The effect as it is printed."""
        return effect_line(self.quantity, self.now, self.then, self.interval)

    def as_dict(self) -> dict:
        return {"quantity": self.quantity, "now": self.now, "then": self.then, "interval": list(self.interval)}


def by_hand(subject: Subject, *, key) -> None:
    """The `apply` of an action that a person must take: no program can."""


@dataclass(frozen=True)
class Action:
    """One thing to do.

    `what` is an imperative with its number, `treats` the name of the finding it is for, `how_known` one of `HOW_KNOWN`.
    `apply(subject, key=key)` returns the treated subject, or is `by_hand`. `cost` is in trainings: 1 for what trains
    again, 0.1 for what does not. `note` is what a reader has to know of the effect.
    """

    what: str
    treats: str
    effect: Effect
    how_known: str
    apply: Callable[..., Subject | None]
    cost: float = 1.0
    note: str = ""

    def __post_init__(self):
        if self.how_known not in HOW_KNOWN:
            raise ValueError(f"how_known must be one of {', '.join(HOW_KNOWN)}, got {self.how_known!r}.")

    @property
    def gain(self) -> float:
        """The share of the quantity that is won or lost by it, between 0 and 1, per cost."""
        now, then = self.effect.now, self.effect.then
        largest = max(abs(now), abs(then))
        return abs(now - then) / largest / self.cost if largest > 0 else 0.0

    def as_dict(self) -> dict:
        fields = {"what": self.what, "treats": self.treats, "effect": self.effect.as_dict()}
        return fields | {"how_known": self.how_known, "by_hand": self.apply is by_hand}


def advise(
    subject: Subject,
    findings: Sequence[Finding],
    explains: Mapping[str, Sequence[str]],
    remedies: Mapping[str, Callable[[Subject, Finding], Action | None]],
) -> Iterator[Action]:
    """For each cause among the findings of a section what the first remedy says, of its own or of what follows.

    `remedies` has functions of the subject and a finding by the names of findings; None says that nothing is known. A
    remedy whose trials end in a `SubjectError`, such as a training that diverges, is none.
    """
    for cause in causes(findings, explains):
        for finding in (cause.finding, *cause.follows):
            remedy = remedies.get(finding.name)
            action = None if remedy is None else _tried_out(remedy, subject, finding)
            if action is not None:
                yield action
                break


def _tried_out(remedy, subject: Subject, finding: Finding) -> Action | None:
    try:
        return remedy(subject, finding)
    except SubjectError:
        return None


def ranked(actions: Iterable[Action], found: Sequence[Cause]) -> tuple[Action, ...]:
    """At most `MOST` actions: those for causes, the worst and the most gain per cost first, then for what follows.

    What treats a finding that is not marked, or that a marked one explains which has an action itself, is left out.
    """
    actions = list(actions)
    treated = {action.treats for action in actions}
    place = {}
    for i, cause in enumerate(found):
        place[cause.finding.name] = -MARKS.index(cause.mark), i
        # without an action for the cause, what follows from it is better than nothing
        if cause.finding.name not in treated:
            place |= {f.name: (-MARKS.index(cause.mark), i) for f in cause.follows}
    wanted = [action for action in actions if action.treats in place]
    return tuple(sorted(wanted, key=lambda a: (place[a.treats][0], -a.gain, place[a.treats][1]))[:MOST])
