"""A network along its training: every finding as a curve over checkpoints, when its mark turned, and what turned first.

    course = audit_path(subject, [network_100, network_200, network_300], steps=[100, 200, 300])
    print(course)

The subject is the network at the end, with its data; checkpoints are of the same architecture, so that its programs are
compiled once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import altair as alt
import equinox as eqx
import jax
import numpy as np

from corollary._types import NetworkLike
from corollary.audit import _checks
from corollary.audit._errors import SubjectError, sentences
from corollary.audit._facts import raised
from corollary.audit.finding import MARKS, short
from corollary.audit.run import Report, audit
from corollary.audit.subject import Apply, Objective, Subject
from corollary.evidence import Figure, picture
from corollary.network.parts import matched, require_network, split

BAD = ("look", "problem")


@dataclass(frozen=True)
class Curve:
    """A finding along the training: its number and its mark at every step (None where it was not measured).

    `turns` are the steps at which the mark changed, each with the marks before and after. `onset` is the step from
    which on it was marked until the end, None if it is not marked there.
    """

    name: str
    steps: tuple[int, ...]
    values: tuple[float | None, ...]
    marks: tuple[str, ...]

    @property
    def turns(self) -> tuple[tuple[int, str, str], ...]:
        seen = [(s, m) for s, m in zip(self.steps, self.marks, strict=True) if m != "not applicable"]
        pairs = pairwise(seen)
        return tuple((step, old, new) for (_, old), (step, new) in pairs if old != new)

    @property
    def onset(self) -> int | None:
        found = None
        for step, mark in zip(reversed(self.steps), reversed(self.marks), strict=True):
            if mark in BAD:
                found = step
            elif mark != "not applicable":
                break
        return found

    @property
    def sentence(self) -> str:
        """Its number at both ends, and when its mark turned."""
        numbers = [v for v in self.values if v is not None]
        said = f"{short(numbers[0])} → {short(numbers[-1])}" if numbers else "never measured"
        turns = ", ".join(f"{old} → {new} at step {step}" for step, old, new in self.turns)
        return f"{said}; {turns or f'{self.marks[-1]} all the way'}."

    @property
    def figure(self) -> Figure:
        """The number against the step, coloured by its mark."""
        rows = [
            {"step": s, "value": v, "mark": m}
            for s, v, m in zip(self.steps, self.values, self.marks, strict=True)
            if v is not None and np.isfinite(v)
        ]
        base = alt.Chart(alt.Data(values=rows), width=360, height=160, title=self.name)
        line = base.mark_line(color="#8895a1").encode(x=alt.X("step:Q", title="step"), y=alt.Y("value:Q", title=None))
        colours = alt.Scale(domain=["fine", "look", "problem"], range=["#2e7d32", "#b26a00", "#c62828"])
        points = base.mark_point(filled=True, size=60).encode(
            x="step:Q", y="value:Q", color=alt.Color("mark:N", scale=colours, title=None)
        )
        return picture(self.name, line + points)

    def as_dict(self) -> dict:
        turns = [{"step": step, "before": old, "after": new} for step, old, new in self.turns]
        fields = {"name": self.name, "values": list(self.values), "marks": list(self.marks)}
        return fields | {"turns": turns, "onset": self.onset, "sentence": self.sentence}


@dataclass(frozen=True)
class Course:
    """The audits of a network along its training: the `reports` at `steps`, and `curves` of all findings."""

    steps: tuple[int, ...]
    reports: tuple[Report, ...]

    @property
    def curves(self) -> tuple[Curve, ...]:
        found = [{f.name: f for f in report.findings} for report in self.reports]
        names = list(dict.fromkeys(name for findings in reversed(found) for name in findings))
        return tuple(
            Curve(
                name,
                self.steps,
                tuple(f[name].value if name in f else None for f in found),
                tuple(f[name].mark if name in f else "not applicable" for f in found),
            )
            for name in names
        )

    @property
    def turned(self) -> tuple[Curve, ...]:
        """The findings whose mark turned: those marked at the end by when that began, then those that healed."""
        turned = [curve for curve in self.curves if curve.turns]
        return tuple(sorted(turned, key=lambda c: (c.onset is None, c.onset or 0, -MARKS.index(c.marks[-1]))))

    @property
    def first(self) -> tuple[str, ...]:
        """What turned first, of all that is marked at the end and was not at the first step; causes before the rest."""
        late = [c for c in self.curves if c.onset is not None and c.onset > self.steps[0]]
        begun = min((c.onset for c in late), default=None)
        names = [c.name for c in late if c.onset == begun]
        causes = [cause.finding.name for cause in self.reports[-1].causes]
        return tuple(sorted(names, key=lambda name: causes.index(name) if name in causes else len(causes)))

    @property
    def answer(self) -> str:
        """What turned first, and when, in a sentence."""
        if self.first:
            begun = next(c.onset for c in self.curves if c.name == self.first[0])
            more = f", with {', '.join(self.first[1:])}" if self.first[1:] else ""
            return f"Of what is marked at the end {self.first[0]} turned first, at step {begun}{more}."
        marked = [c.name for c in self.curves if c.onset is not None]
        if marked:
            return f"What is marked at the end was so from the first checkpoint on: {', '.join(marked)}."
        return "Nothing is marked at the end."

    @property
    def lines(self) -> list[str]:
        """What it says, as it is printed: the findings whose mark turned."""
        span = f"{len(self.steps)} checkpoints, steps {self.steps[0]} to {self.steps[-1]}"
        return [f"Along the training ({span}): {self.answer}", *(f"  {c.name}: {c.sentence}" for c in self.turned)]

    def as_dict(self) -> dict:
        fields = {"steps": list(self.steps), "first": list(self.first), "answer": self.answer, "lines": self.lines}
        return fields | {"curves": [curve.as_dict() for curve in self.curves]}

    def __repr__(self) -> str:
        return "\n".join(self.lines)


def audit_path(
    subject: Subject,
    networks: Sequence[NetworkLike],
    *,
    steps: Sequence[int] | None = None,
    budget: str = "quick",
    progress: Callable[[str], None] | None = None,
    names: Sequence[str] | None = None,
) -> Course:
    """Audit checkpoints of a network, from the first to the last, with the data and facts of `subject`.

    `steps` are their numbers of training steps, in order; 1, 2, ... if they are not given. A network of another
    architecture is refused with one sentence, by its name in `names`, before anything is measured.
    """
    if not isinstance(subject, Subject):
        raise TypeError(f"subject must be a Subject, got {type(subject).__name__}.")
    networks = list(networks)
    names = [f"networks[{i}]" for i in range(len(networks))] if names is None else list(names)
    steps = checked_steps(range(1, len(networks) + 1) if steps is None else steps, len(networks))
    subjects = [at_checkpoint(subject, network, name) for network, name in zip(networks, names, strict=True)]
    reports = []
    for each, step in zip(subjects, steps, strict=True):
        if progress is not None:
            progress(f"Step {step}")
        reports.append(audit(each, budget=budget, actions=False))
    return Course(steps, tuple(reports))


def checked_steps(steps: Sequence[int], count: int) -> tuple[int, ...]:
    steps = tuple(steps)
    whole = all(isinstance(step, int | np.integer) and step >= 0 for step in steps)
    if count == 0:
        raise SubjectError("there must be at least one checkpoint.")
    if len(steps) != count or not whole or any(a >= b for a, b in pairwise(steps)):
        raise SubjectError(f"steps must be {count} whole numbers in increasing order, one for each checkpoint.")
    return tuple(map(int, steps))


def at_checkpoint(subject: Subject, network: NetworkLike, name: str) -> Subject:
    """The subject with parameters and buffers of a checkpoint in its own program; one sentence if it is another's."""
    with sentences():
        require_network(network)
        try:
            parts = split(raised(network), subject.trainable, name=name)
            params = matched(name, parts.params, subject.params)
            buffers, _ = eqx.partition(parts.fixed, eqx.is_array)
            own, static = eqx.partition(subject.apply.fixed, eqx.is_array)
            fixed = eqx.combine(matched(name, buffers, own), static)
        except ValueError as error:
            raise SubjectError(f"{name} is of another architecture: {error}") from None
    other = copy.copy(subject)
    other.params = jax.tree.map(lambda new, old: new.astype(old.dtype), params, subject.params)
    other.objective = Objective(Apply(fixed), subject.loss)
    few = jax.tree.map(lambda a: a[: _checks.FEW], subject.train[0])
    try:
        theirs = Apply(parts.fixed)(parts.params, few)
        same = np.allclose(other.apply(other.params, few), theirs, rtol=1e-3, atol=1e-5, equal_nan=True)
    except (TypeError, ValueError):
        same = False
    if not same:  # arrays of the same shapes in another program
        raise SubjectError(f"{name} is of another architecture: its arrays fit, but give other outputs.")
    other._look_at_outputs()
    return other
