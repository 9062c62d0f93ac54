"""The process that an audit of the command line runs in.

It is told what is asked for, and speaks in messages: "step" with a title at the start of each step; at last "report"
with the page and with the findings as JSON, or "refused" or "failed" with a sentence.
"""

import json
import socket
from collections.abc import Callable
from dataclasses import replace

from corollary.audit._accepted import Accepted
from corollary.audit._asked import Asked
from corollary.audit._checkpoints import checkpoints
from corollary.audit._compile import settle
from corollary.audit._errors import SubjectError
from corollary.evidence._compiled import cache_compilations
from corollary.evidence._errors import UserError, described
from corollary.evidence._lines import send

MOST = 500  # characters of what others say


def work(end: socket.socket) -> None:
    """Answer the one question that comes."""
    (fields,) = json.loads(end.makefile("rb").readline())
    asked = Asked(**fields)
    settle(asked.network)
    cache_compilations()
    try:
        send(end, *answer(asked, lambda title: send(end, "step", title)))
    except OSError:  # the other end is gone
        return


def answer(asked: Asked, progress: Callable[[str], None]) -> tuple[str, ...]:
    """The last message: what was found, or a sentence on why there is nothing."""
    try:
        from corollary.audit._kinds import Special
        from corollary.audit.compare import prepared
        from corollary.audit.load import load, load_checkpoint, load_other
        from corollary.audit.path import audit_path
        from corollary.audit.report import html
        from corollary.audit.run import audit

        progress("Reading the network" if asked.network else "Training a network on the digits")
        fields = asked._asdict()
        budget, attempts, against = (fields.pop(name) for name in ("budget", "attempts", "against"))
        pattern, accepted = fields.pop("checkpoints"), [Accepted(*entry) for entry in fields.pop("accepted")]
        said = {"name": asked.name, "command": asked.command, "attempts": attempts}
        subject = load(**fields)
        if isinstance(subject, Special) and (against is not None or pattern is not None):
            option = "--against" if against is not None else "--checkpoints"
            raise SubjectError(f"{option} is for networks with a loss and data, not for a {type(subject).__name__}.")
        if against is not None:  # what does not fit is said before anything is measured
            said |= {"against": prepared(subject, load_other(against, subject, asked)), "against_name": against}
        course = None
        if pattern is not None:
            steps, files = checkpoints(pattern)
            networks = [load_checkpoint(file, subject, asked) for file in files]
            course = audit_path(subject, networks, steps=steps, names=files, budget=budget, progress=progress)
        report = audit(subject, budget=budget, progress=progress, **said)
        along = 0.0 if course is None else sum(each.seconds for each in course.reports)
        report = replace(report, course=course, seconds=report.seconds + along)
        return "report", html(report, accepted), report.json()
    except UserError as error:
        return "refused", str(error)
    except MemoryError:
        return "failed", "There is not enough memory for this (MemoryError)."
    except BaseException as error:  # of a user's own code, or of a network that nobody thought of
        return "failed", f"The audit stopped: {described(error).splitlines()[0][:MOST]}"
