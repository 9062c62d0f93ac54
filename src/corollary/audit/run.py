"""The audit itself: every section in turn, what fails in one of them delivered beside the rest."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

import jax

from corollary import __version__
from corollary._memory import give_back_beyond, let_go_of_programs
from corollary._text import first_line
from corollary._validate import one_of, whole
from corollary.audit._budget import BUDGETS, OF_TEXT, SECTIONS
from corollary.audit._effects import amount
from corollary.audit._errors import SubjectError
from corollary.audit._kinds import Special
from corollary.audit._numbers import plain
from corollary.audit._outcomes import Outcomes, outcomes_of
from corollary.audit._owned_up import owned_up
from corollary.audit._plan import too_long
from corollary.audit._text import is_text
from corollary.audit._unsettled import unsettled
from corollary.audit.action import Action, ranked
from corollary.audit.finding import Cause, Finding, Section, causes
from corollary.audit.subject import Subject

if TYPE_CHECKING:
    from corollary.audit.compare import Comparison
    from corollary.audit.path import Course

#: The version of report.schema.json, which says what is in a report as JSON.
SCHEMA = 1
# What is freed may stay with the process up to here: handing it back takes time, and there are many findings.
ROOM = 2**31


@dataclass(frozen=True)
class Trial:
    """An action that was taken: what its quantity came to, or a sentence on why there is no number."""

    action: Action
    measured: float | None
    problem: str | None = None

    @property
    def line(self) -> str:
        """Promised beside measured."""
        if self.measured is None:
            return f"Tried: {self.problem}"
        low, high = self.action.effect.interval
        inside = "inside" if low <= self.measured <= high else "outside"
        quantity = self.action.effect.quantity
        return f"Tried: {quantity} {amount(quantity, self.measured)}, {inside} what was promised."

    def as_dict(self) -> dict:
        return {"what": self.action.what, "measured": self.measured, "line": self.line}


@dataclass(frozen=True)
class Report:
    """What the audit found: a summary of the subject, the sections in order, causes over all of them, what to do."""

    subject: dict
    sections: tuple[Section, ...]
    budget: str
    seconds: float
    causes: tuple[Cause, ...] = ()
    actions: tuple[Action, ...] = ()
    trials: tuple[Trial, ...] = ()
    examples: Outcomes | None = None
    comparison: Comparison | None = None
    course: Course | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(f for section in self.sections for f in section.findings)

    @property
    def advice(self) -> str:
        """What stands in place of actions: nothing to do and what was looked at, or what no action is known for."""
        if self.actions:
            return "One thing to do." if len(self.actions) == 1 else f"{len(self.actions)} things to do."
        if self.causes:
            return f"No action is known for: {'; '.join(cause.finding.title for cause in self.causes)}."
        looked = ", ".join(f"{s.title} {sum(f.value is not None for f in s.findings)}" for s in self.sections)
        return f"Nothing to do. How many numbers were measured for each question: {looked}."

    def as_dict(self) -> dict:
        fields = {"schema": SCHEMA, "corollary": __version__, "budget": self.budget, "seconds": round(self.seconds, 2)}
        fields |= {"subject": self.subject, "causes": [c.as_dict() for c in self.causes]}
        fields |= {"actions": [a.as_dict() for a in self.actions], "advice": self.advice}
        fields |= {"trials": [t.as_dict() for t in self.trials]}
        for name in ("examples", "comparison", "course"):
            part = getattr(self, name)
            fields[name] = None if part is None else part.as_dict()
        return fields | {"sections": [s.as_dict() for s in self.sections]}

    def json(self) -> str:
        """The report as JSON, in the form of report.schema.json beside this file."""
        return json.dumps(plain(self.as_dict()), allow_nan=False)

    def save(self, path: str | PathLike) -> None:
        """Write the report as one HTML file that needs nothing else."""
        from corollary.audit.report import html

        with open(path, "w", encoding="utf-8") as file:
            file.write(html(self))


def audit(
    subject: Subject | Special,
    *,
    budget: str = "quick",
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
    name: str | None = None,
    command: str | None = None,
    attempts: int = 0,
    against: Any = None,
    against_name: str | None = None,
    actions: bool = True,
) -> Report:
    """Audit a network: all sections, or those of a subject of another kind.

    `progress` is called with the title of each before it starts.

    `name` and `command` stand at the top of the report. The first `attempts` actions are taken, each on the subject as
    it is, and what they do is set beside what was promised. `against` is another network, a subject, a report or the
    path of one as JSON: `compare` says what is better and worse, and calls it `against_name`. Without `actions` nothing
    is advised, which saves the trainings behind what is promised.
    """
    one_of("budget", budget, tuple(BUDGETS))
    whole("attempts", attempts, 0)
    special = isinstance(subject, Special)
    if not special and not isinstance(subject, Subject):
        raise TypeError(f"subject must be a Subject, a QSubject or a Sampler, got {type(subject).__name__}.")
    if special and against is not None:
        raise SubjectError(f"a {type(subject).__name__} cannot be compared with another one: leave against out.")
    began = time.perf_counter()
    asked = subject.sections if special else (*SECTIONS, *(OF_TEXT if is_text(subject) else ()))
    modules = [import_module(f"corollary.audit.sections.{name}") for name in asked]
    sections = []
    for i, module in enumerate(modules):
        if progress is not None:
            progress(module.TITLE)
        let_go_of_programs()  # of other networks that were audited in this process
        sections.append(_section(module, subject, BUDGETS[budget], jax.random.fold_in(jax.random.key(seed), i)))
    sections = unsettled(sections, _joined(module.UNSETTLES for module in modules if hasattr(module, "UNSETTLES")))
    reason = None if special else too_long(subject, BUDGETS[budget])
    facts = (subject.summary() if special else summary(subject)) | {"left_out": _left_out(sections, reason)}
    facts["name"] = type(getattr(subject, "network", subject)).__name__ if name is None else name
    facts["command"] = f"corollary.audit.audit(subject, budget={budget!r}, seed={seed})" if command is None else command
    facts["date"] = time.strftime("%d %B %Y, %H:%M")
    found = causes([f for s in sections for f in s.findings], _all(modules))
    advised = []
    for module, section in zip(modules, sections, strict=True):
        try:
            advised += module.actions(subject, section.findings) if actions and section.failed is None else ()
        except Exception as error:  # what was found stands without it
            facts["notes"].append(f"What to do about {module.TITLE!r} could not be worked out: {first_line(error)}.")
    advice = ranked(advised, found)
    trials = []
    for action in advice[:attempts]:
        if progress is not None:
            progress(f"Trying: {action.what}")
        trials.append(tried(action, subject, jax.random.key(seed)))
    seconds = time.perf_counter() - began
    examples = None if special else outcomes_of(subject)
    report = Report(facts, tuple(sections), budget, seconds, found, advice, tuple(trials), examples)
    if against is None:
        return report
    from corollary.audit.compare import compare

    if progress is not None:
        progress("Comparing")
    compared = compare(subject, against, report=report, name=against_name, progress=progress)
    return replace(report, comparison=compared, seconds=time.perf_counter() - began)


def tried(action: Action, subject: Subject | Special, key) -> Trial:
    """The action taken, and its effect measured."""
    try:
        treated = action.apply(subject, key=key)
        if treated is None:
            return Trial(action, None, "a person must do this.")
        return Trial(action, action.effect.measured(treated))
    except SubjectError as error:
        return Trial(action, None, str(error))


def _all(modules) -> dict[str, tuple[str, ...]]:
    """What explains what, in all sections together."""
    return _joined(module.EXPLAINS for module in modules)


def _joined(parts) -> dict[str, tuple[str, ...]]:
    out: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for name, names in part.items():
            out[name] = (*out.get(name, ()), *names)
    return out


def _left_out(sections, reason: str | None) -> str | None:
    """The names of the findings that were left out for that reason, in a sentence."""
    names = [f.name for section in sections for f in section.findings if f.sentence == reason]
    return f"Left out, and measured with --budget full: {', '.join(names)}." if names else None


def _section(module, subject, budget, key) -> Section:
    """The section's findings; what it had found before it failed is kept."""
    began, found = time.perf_counter(), []
    failed = None
    try:
        for finding in module.findings(subject, budget, key):
            found.append(finding)
            give_back_beyond(ROOM)
        said = module.answer(tuple(found))
    except Exception as error:  # a network may break in ways nobody thought of: the other sections must not suffer
        why = "there is not enough memory for it (MemoryError)" if isinstance(error, MemoryError) else str(error)
        first = why.strip().splitlines()
        failed = f"This section stopped: {first[0] if first else type(error).__name__}"
        said = f"Cannot tell: {failed[0].lower()}{failed[1:]}"
    arranged = causes(found, module.EXPLAINS)
    said = said if failed else owned_up(said, arranged)
    return Section(module.TITLE, tuple(found), said, arranged, failed, time.perf_counter() - began)


def summary(subject: Subject) -> dict:
    """What stands at the top of a report."""
    out = {
        "parameters": subject.size,
        "leaves": len(jax.tree.leaves(subject.params)),
        "inputs": [list(a.shape[1:]) for a in jax.tree.leaves(subject.train[0])],
        "loss": subject.loss_name,
        "classes": subject.classes,
        "learning_rate": subject.learning_rate,
        "batch_size": subject.batch_size,
        "notes": list(subject.notes),
        "left_out": None,
    }
    for split in subject.splits:
        out[split] = {"examples": subject.count(split), "loss": subject.mean_loss(split)}
        try:
            out[split]["error"] = subject.error(split)
        except ValueError:  # a loss of one's own may not say what an error is
            out[split]["error"] = None
    return out
