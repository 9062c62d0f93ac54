"""The audit as a test: `assert_healthy(subject)` in a pytest function.

    def test_the_network():
        assert_healthy(make_subject(), ignore={"sharpness": "known, a longer training is under way"})

It raises an AssertionError that names what is wrong, what follows from it, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from corollary._validate import one_of
from corollary.audit._accepted import require_known
from corollary.audit._marked import FAIL_ON, items
from corollary.audit.run import Report, audit
from corollary.audit.subject import Subject

LEVELS = ("problem", "look")


def assert_healthy(
    subject: Subject,
    *,
    ignore: Iterable[str] | Mapping[str, str] = (),
    fail_on: str = "problem",
    budget: str = "quick",
) -> Report:
    """Audit the subject, and fail if a finding is marked `fail_on` or worse; the report otherwise.

    `ignore` are names of findings, or of sections that stop, that make nothing fail; a dictionary says why. A name that
    the audit does not have is a ValueError.
    """
    __tracebackhide__ = True  # of pytest: what is wrong is in the subject, not here
    one_of("fail_on", fail_on, LEVELS)
    reasons = _reasons(ignore)
    return judged(audit(subject, budget=budget), reasons, fail_on)


def judged(report: Report, ignore: Mapping[str, str], fail_on: str) -> Report:
    """The report, unless it has what makes it fail."""
    __tracebackhide__ = True
    entries = [{"finding": name, "reason": reason, "until": ""} for name, reason in ignore.items()]
    fields = report.as_dict() | {"accepted": entries}
    require_known(tuple(ignore), fields, "ignore")
    found = [item for item in items(fields) if item.fails(fail_on)]
    if found:
        count = "1 finding is" if len(found) == 1 else f"{len(found)} findings are"
        lines = [f"{report.subject['name']}: {count} marked {' or '.join(FAIL_ON[fail_on])}."]
        lines += [f"{i.line} {i.number}. {i.sentence}" for i in found]
        lines += [f"to do: {action.what}: {action.effect.line}" for action in report.actions]
        raise AssertionError("\n".join(lines))
    return report


def _reasons(ignore) -> dict[str, str]:
    """Why each name is ignored."""
    if isinstance(ignore, str) or not isinstance(ignore, Iterable):
        raise TypeError(f"ignore must hold names of findings, got {ignore!r}.")
    reasons = dict(ignore) if isinstance(ignore, Mapping) else dict.fromkeys(ignore, "ignored")
    for name in reasons:
        if not isinstance(name, str):
            raise TypeError(f"ignore must hold names of findings, got {name!r}.")
    return {name: str(reason) for name, reason in reasons.items()}
