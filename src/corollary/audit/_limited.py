"""The audit in a process of its own, which ends at its limits of time and memory and leaves nothing behind."""

import time
from collections.abc import Callable
from multiprocessing import connection
from typing import NamedTuple

from corollary.audit._asked import Asked
from corollary.audit._errors import SubjectError
from corollary.evidence._child import TICK, Child, uninterrupted
from corollary.evidence._errors import Stopped
from corollary.evidence._lines import TooLong, send

BATCH = 100  # messages taken at once, so that a talkative process cannot hide from its limits
LIMITS = "--time-limit and --memory-limit set other limits."


class Answer(NamedTuple):
    """The report as a page, and as JSON."""

    page: str
    findings: str


def limited(asked: Asked, *, time_limit: float, memory_limit: float | None, progress: Callable[[str], None]) -> Answer:
    """What the audit found; a sentence if it was refused, failed, or met a limit. `progress` hears of each step."""
    child = None
    try:
        with uninterrupted():
            child = Child("corollary.audit._child")
        began = time.monotonic()
        try:
            send(child.end, asked._asdict())
        except OSError:
            child.dead = True
        while True:
            connection.wait([child.end, child.process.sentinel], timeout=TICK)
            child.look()
            found = _heard(child, progress)
            if found is not None:
                return found
            if child.dead or child.lines.ended:
                raise Stopped(f"The audit ended early: its process died ({child.died()}).")
            if problem := child.exceeded(began, time_limit, memory_limit):
                raise Stopped(f"The audit was ended. {problem} {LIMITS}")
    finally:
        if child is not None:
            child.close()


def _heard(child: Child, progress: Callable[[str], None]) -> Answer | None:
    """Take what the process has said; the answer, if that was it."""
    try:
        for message in child.lines.take(None if child.dead else BATCH):
            match message:
                case ["step", str(title)]:
                    progress(title)
                case ["report", str(page), str(findings)]:
                    return Answer(page, findings)
                case ["refused", str(sentence)]:
                    raise SubjectError(sentence)
                case ["failed", str(sentence)]:
                    raise Stopped(sentence)
                case _:
                    raise Stopped("The audit was ended: what it ran wrote into the connection of its process.")
    except TooLong:
        raise Stopped("The audit was ended: its report is too large.") from None
    return None
