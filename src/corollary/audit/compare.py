"""Two networks on the same examples: which is better, by tests that are exact, and how much alike they are.

compare(subject, old_network)          # or another subject, a report, or the JSON file of one
audit(subject, against=old_network)    # findings are compared too, and all of it is in the report
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any, NamedTuple

import jax
import numpy as np

from corollary._types import NetworkLike
from corollary.audit import _agreement, _checks
from corollary.audit._agreement import Agreement
from corollary.audit._budget import BUDGETS
from corollary.audit._changes import Change, changes
from corollary.audit._errors import SubjectError, sentences
from corollary.audit._facts import raised
from corollary.audit._groups import groups_of
from corollary.audit._numbers import short
from corollary.audit._outcomes import Outcomes, digest, outcomes_of, read_outcomes
from corollary.audit._read import read_report
from corollary.audit.run import Report, audit
from corollary.audit.subject import Apply, Subject
from corollary.generalization import among_seeds, holm, mcnemar, sign_flips, standing_out
from corollary.network.parts import split

#: The share of pairs without a difference that show one, over all tests of a comparison.
LEVEL = 0.05
#: Of the differences that are said to be seen this share is.
POWER = 0.8
#: Losses of two seeds of one regression differ by less than this factor (benchmarks/compare.py --recipes).
SEEDS = 2.0
#: Fewer classes are too few to say how one of them usually changes.
CLASSES = 4
VERDICTS = ("better", "worse", "no difference seen")
#: What is compared on every example: less is better.
QUANTITIES = {"wrong": "error", "loss": "loss", "brier": "Brier score"}


@dataclass(frozen=True)
class PairedTest:
    """One quantity of both networks on the same examples, the p of its difference (all tests paid for), and a verdict.

    `smallest` is the difference that would have been seen four times of five; infinite if none would.
    """

    name: str
    before: float
    after: float
    p: float
    smallest: float
    verdict: str
    sentence: str

    def as_dict(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class Comparison:
    """A network against another: paired tests, findings of both audits, and how much alike they are."""

    other: str
    split: str
    examples: int
    tests: tuple[PairedTest, ...]
    findings: tuple[Change, ...] = ()
    agreement: tuple[Agreement, ...] = ()

    @property
    def verdict(self) -> str:
        """Worse if anything is, else better if anything is."""
        found = {entry.verdict for entry in (*self.tests, *self.findings)}
        return next((v for v in ("worse", "better") if v in found), "no difference seen")

    @property
    def lines(self) -> list[str]:
        """What it says, as it is printed: findings only where their mark turned."""
        head = f"Against {self.other}, on {self.examples} {'test' if self.split == 'test' else 'training'} examples"
        lines = [f"{head}: {self.verdict}."]
        lines += [f"  {t.name}: {t.sentence}" for t in self.tests]
        lines += [f"  {c.name}: {c.sentence}" for c in self.findings if c.turned]
        return lines + [f"  agreement of {a.name}: {a.sentence}" for a in self.agreement]

    def as_dict(self) -> dict:
        fields = {"other": self.other, "split": self.split, "examples": self.examples, "verdict": self.verdict}
        for name in ("tests", "findings", "agreement"):
            fields[name] = [part.as_dict() for part in getattr(self, name)]
        return fields | {"lines": self.lines}

    def __repr__(self) -> str:
        return "\n".join(self.lines)


def compare(
    subject: Subject,
    other: Subject | NetworkLike | Report | str | PathLike,
    *,
    twins: Sequence[NetworkLike] = (),
    report: Report | None = None,
    name: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """The network of `subject` against another one, on the test data (the training data where there are no others).

    `other` is a network of the same inputs, a subject with one, a report of an audit on the same data, or the path of
    such a report as JSON. Error, loss and Brier score are compared example by example (McNemar's test, flips of signs)
    and by flips of the signs of whole groups of alike examples, because two seeds of one recipe differ in groups. A
    difference is seen where both show it, and where it stands Holm's correction for all quantities; the class that
    changed most is looked at by itself, against how the others changed. Seeds of a regression differ everywhere at
    once, in loss by up to a factor of `SEEDS`: only what is beyond it is called better or worse, unless the spread of
    seeds is known from `twins`, two or more further networks of the recipe of `other`, and the subject stands out from
    it. Given the `report` of the subject the findings are compared too, and a network is audited for it.
    """
    if not isinstance(subject, Subject):
        raise TypeError(f"subject must be a Subject, got {type(subject).__name__}.")
    other = prepared(subject, other)
    new, old, key = outcomes_of(subject), other.outcomes, jax.random.key(0)
    twin, known, name = other.twin, other.fields, name or other.name
    budget = BUDGETS["quick" if report is None else report.budget]
    alike = [_agreement.predictions(new.predicted, old.predicted)]
    if twin is not None:
        alike += [f(subject, twin, budget, key) for f in (_agreement.tangent_kernels, _agreement.attributions)]
        if report is not None:
            known = audit(twin, budget=report.budget, progress=progress, actions=False).as_dict()
    found = () if report is None else changes(report.as_dict()["sections"], known["sections"], LEVEL)
    seeds = [outcomes_of(_twin(subject, each)) for each in twins]
    labels = None if new.wrong is None else np.asarray(subject.labels(new.split))
    labels = labels if labels is not None and labels.ndim == 1 else None
    tests = paired_tests(old, new, groups_of(subject, new.split), key, seeds, labels)
    return Comparison(name, new.split, len(new.loss), tests, found, tuple(alike))


def paired_tests(
    old: Outcomes,
    new: Outcomes,
    groups: np.ndarray,
    key: Any,
    seeds: Sequence[Outcomes] = (),
    labels: np.ndarray | None = None,
) -> tuple[PairedTest, ...]:
    """All quantities that both have, corrected together; `seeds` are further networks of the recipe of `old`.

    With the `labels` of the examples, from `CLASSES` on, the class that changed most is looked at by itself.
    """
    kept = {q: (getattr(old, q), getattr(new, q)) for q in QUANTITIES if getattr(old, q) is not None}
    kept = {q: pair for q, pair in kept.items() if pair[1] is not None}
    in_classes = labels is not None and new.wrong is not None and _binary(old.wrong) and _binary(new.wrong)
    classes = np.unique(labels, return_inverse=True)[1] if in_classes else None
    in_classes = in_classes and classes.max() + 1 >= CLASSES
    level = LEVEL / (len(kept) + in_classes)
    alone = new.wrong is None and not seeds
    results, plain = [], 1.0
    for i, (q, pair) in enumerate(kept.items()):
        spread = [np.mean(getattr(each, q), dtype=float) for each in (old, *seeds)] if seeds else None
        results.append(_tested(*pair, groups, level, jax.random.fold_in(key, i), spread))
        if alone:
            plain, results[-1] = results[-1][0], _beyond(*pair, groups, level, jax.random.fold_in(key, i))
    one = None
    if in_classes:
        one = standing_out(new.wrong == 0, old.wrong == 0, classes, int(classes.max()) + 1, level=level, power=POWER)
        results.append((float(one.p), float(one.smallest)))
    corrected = [float(p) for p in holm(np.array([min(p, 1.0) for p, _ in results]))]
    found = [
        _judged(f"{new.split} {QUANTITIES[q]}", *kept[q], p, smallest, q == "wrong", plain)
        for q, p, (_, smallest) in zip(kept, corrected, results, strict=False)
    ]
    if one is not None:
        rows, names = classes == int(one.group), np.unique(labels)
        said = _judged(
            f"{new.split} error of one class",
            old.wrong[rows],
            new.wrong[rows],
            corrected[-1],
            results[-1][1],
            True,
        )
        text = f"class {names[int(one.group)]}, that changed most: {said.sentence}"
        found.append(replace(said, sentence=text))
    return tuple(found)


def _tested(before, after, groups, level, key, spread) -> tuple[float, float]:
    """The largest p of the tests, which holds whichever of their premises does, and what all would have seen."""
    differences = np.asarray(after, float) - np.asarray(before, float)
    options = {"level": level, "power": POWER}
    found = [sign_flips(differences, groups=groups, key=key, **options)]
    if _binary(before) and _binary(after):
        found.append(mcnemar(after == 0, before == 0, **options))
    else:
        found.append(sign_flips(differences, key=key, **options))
    if spread is not None:
        found.append(among_seeds(np.mean(after, dtype=float), np.array(spread), **options))
    return max(float(f.p) for f in found), max(float(f.smallest) for f in found)


def _beyond(before, after, groups, level, key) -> tuple[float, float]:
    """The p of a loss that differs by no more than another seed may make, and the difference that would be seen."""
    before, after = np.asarray(before, float), np.asarray(after, float)
    if min(before.min(), after.min()) < 0:  # no number of times more or less
        return 1.0, np.inf
    up, smallest = _tested(SEEDS * before, after, groups, level, key, None)
    smallest += (SEEDS - 1) * before.mean()
    if after.mean() > SEEDS * before.mean():
        return up, smallest
    down = _tested(before, SEEDS * after, groups, level, key, None)[0]
    return down if SEEDS * after.mean() < before.mean() else 1.0, smallest


def _binary(wrong) -> bool:
    """Whether every example is right or wrong as a whole."""
    return bool(np.isin(wrong, (0, 1)).all())


def _judged(name, before, after, p, smallest, counted, plain=1.0) -> PairedTest:
    values = float(np.mean(before, dtype=float)), float(np.mean(after, dtype=float))
    said = f"{short(values[0])} → {short(values[1])}"
    if counted and _binary(before) and _binary(after):
        won, lost = int(np.sum((before == 1) & (after == 0))), int(np.sum((before == 0) & (after == 1)))
        said += f" ({lost} lost, {won} won)"
    verdict = "no difference seen" if p > LEVEL else "worse" if values[1] > values[0] else "better"
    if verdict != "no difference seen":
        end = f"{verdict}, p {p:.2g} after all tests"
    elif plain <= LEVEL:
        end = (
            f"no difference seen beyond that of another seed, which may be a factor of {SEEDS:g}; these two differ on "
            f"these examples, p {plain:.2g}, and further seeds would tell what that means: compare(twins=)"
        )
    elif smallest == 0:
        end = "no difference seen: every example fares the same"
    elif np.isinf(smallest):
        end = "no difference seen, and none could have been: there are too few examples, or groups of them"
    else:
        end = f"no difference seen; one of {short(smallest)} would have been, four times of five"
    return PairedTest(name, *values, p, smallest, verdict, f"{said}: {end}.")


class Other(NamedTuple):
    """What a subject is compared with, looked at: how its examples fared, a subject with its network, its report."""

    outcomes: Outcomes
    name: str
    twin: Subject | None = None
    fields: dict | None = None


def prepared(subject: Subject, other: Any) -> Other:
    """The other network, or a report; one sentence if it does not fit the subject."""
    if isinstance(other, Other):
        return other
    if isinstance(other, str | PathLike):
        fields = read_report(other)
        found = Other(read_outcomes(str(other), fields["examples"]), str(other), fields=fields)
    elif isinstance(other, Report):
        fields = other.as_dict()
        found = Other(read_outcomes("the other report", fields["examples"]), other.subject["name"], fields=fields)
    else:
        twin = _twin(subject, other)
        found = Other(outcomes_of(twin), type(twin.network).__name__, twin)
    own = subject.splits[-1]
    if (found.outcomes.split, found.outcomes.digest) != (own, digest(subject, own)):
        kind = "test" if found.outcomes.split == "test" else "training"
        raise SubjectError(f"{found.name} is about other {kind} examples: networks are compared on the same ones.")
    return found


def _twin(subject: Subject, other) -> Subject:
    """The other network with the data of the subject."""
    if isinstance(other, Subject):
        splits = subject.splits == other.splits and subject.loss_name == other.loss_name
        if splits and all(digest(subject, s) == digest(other, s) for s in subject.splits):
            return other
        other = other.network
    if not callable(other):
        raise TypeError(
            f"other must be a network, a Subject, a Report or the path of a report, got {type(other).__name__}."
        )
    with sentences():
        other = raised(other)
        params, fixed = split(other, name="other")
        x, wanted = subject.train[0], subject.outputs("train").shape[1:]
        try:
            row = _checks.output_shape(Apply(fixed), params, x)
        except SubjectError as error:
            raise SubjectError(f"the other network must take the inputs of this one: {error}") from None
        if row != wanted:
            raise SubjectError(f"the other network must have the outputs of this one, {wanted}, got {row}.")
        # where it started is not known
        return subject.replaced(initial_params=None).with_network(other)
