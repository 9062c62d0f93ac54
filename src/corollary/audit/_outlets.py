"""What an audit leaves for machines: JSON, JUnit's XML, Markdown and SARIF, what is accepted, and when a run fails."""

import json
from os import PathLike
from typing import NamedTuple

from corollary.audit._accepted import Accepted, read_accepted, require_known
from corollary.audit._checkpoints import checkpoints as checkpoints
from corollary.audit._errors import SubjectError
from corollary.audit._junit import junit
from corollary.audit._markdown import markdown
from corollary.audit._marked import FAIL_ON, failing
from corollary.audit._sarif import require_place as require_place
from corollary.audit._sarif import sarif


class Gate(NamedTuple):
    """Which findings make a run fail, and which were accepted."""

    fail_on: str | None
    accepted: tuple[Accepted, ...] = ()

    def judged(self, findings: str) -> dict:
        """The fields of a report, with what was accepted."""
        return json.loads(findings) | {"accepted": [entry._asdict() for entry in self.accepted]}

    def failing(self, fields: dict) -> list[str]:
        """What makes the run fail; one sentence if something was accepted that is no finding."""
        require_known(tuple(entry.finding for entry in self.accepted), fields, "--accept")
        return [] if self.fail_on is None else failing(fields, self.fail_on)


def gate(fail_on: str | None, accept: str | PathLike | None, against: str | None = None) -> Gate:
    """What was asked for, looked at before the audit."""
    if fail_on is not None and fail_on not in FAIL_ON:
        raise SubjectError(f"--fail-on must be one of {', '.join(FAIL_ON)}, got {fail_on!r}.")
    if fail_on == "worse" and against is None:
        raise SubjectError("--fail-on worse needs something to be worse than: --against FILE.")
    return Gate(fail_on, () if accept is None else read_accepted(accept))


def texts(fields: dict, fail_on: str | None, network: str | None) -> dict:
    """For each option functions that make its file."""
    return {
        "--json": lambda: json.dumps(fields) + "\n",
        "--junit": lambda: junit(fields, fail_on),
        "--markdown": lambda: markdown(fields, fail_on),
        "--sarif": lambda: sarif(fields, network),
    }
