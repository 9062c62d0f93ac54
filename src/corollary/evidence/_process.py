"""A worker process as its parent sees it: the task that it has, and what has arrived of it."""

import json
import os
import time
import uuid
from dataclasses import asdict
from datetime import UTC, datetime

from corollary.evidence._check import Check, Figure
from corollary.evidence._child import Child, gigabytes
from corollary.evidence._evidence import Evidence, from_json
from corollary.evidence._index import claims
from corollary.evidence._lines import LIMIT, TooLong, send
from corollary.evidence._run import evidence_of
from corollary.evidence._task import Task
from corollary.evidence._tree import descendants, memory

START_UP = 180.0  # seconds for a worker to import JAX and the claim: a cold disk under load is slow
BATCH = 100  # messages taken at once from one worker, so that a talkative one cannot hide from its limits
RESULTS = 200  # after which a worker is replaced: it grows by some megabytes with each


class Worker(Child):
    """A worker process as its parent sees it, and what has arrived of the task that it has.

    It is the worker number `share` of `jobs`, and keeps to its part of the cores: workers that each run as many threads
    as the machine has cores spend most of their time waiting for each other.
    """

    def __init__(self, share: int = 0, jobs: int = 1):
        super().__init__("corollary.evidence._worker", cores(share, jobs))
        self.share, self.task, self.ready, self.results = share, None, False, 0

    def deal(self, task: Task) -> None:
        self.task, self.checks, self.figures, self.leaks, self.foul = task, [], [], [], None
        self.dealt, self.began, self.started = time.monotonic(), None, datetime.now(UTC).isoformat(timespec="seconds")
        self.name = uuid.uuid4().hex
        try:
            send(self.end, self.name, asdict(task))
        except OSError:
            self.dead = True

    def listen(self, on_event) -> Evidence | None:
        """Take what the worker has said; the evidence, if that was it."""
        self.look()
        try:
            for message in self.lines.take(None if self.dead else BATCH):
                found = self._hear(message, on_event)
                if found is not None:
                    self.results += 1
                    return found
        except TooLong:
            self.foul = f"It sent a message of more than {gigabytes(LIMIT)}."
        self.dead = self.dead or self.lines.ended
        return None

    def _hear(self, message, on_event) -> Evidence | None:
        match message:
            case ["", "ready", ""]:
                self.ready = True
            case [self.name, "start", ""]:
                self.began = time.monotonic()
                on_event(self.task, "start")
            case [self.name, "leak", str(text)]:
                self.leaks.append(text)
            case [self.name, "error", str(text)]:
                return self.cut_short(text)
            case [self.name, "check" | "figure" | "end" as kind, str(text)]:
                return self._take(kind, text, on_event)
            case _:
                self.foul = "It wrote into the connection of its worker what is no result of its own."
        return None

    def _take(self, kind: str, text: str, on_event) -> Evidence | None:
        try:
            match kind:
                case "check":
                    self.checks.append(Check(**json.loads(text)))
                    on_event(self.task, "check")
                case "figure":
                    self.figures.append(Figure(**json.loads(text)))
                case "end":
                    found = from_json(text)
                    if (found.claim, found.seed, found.parameters) == self._asked():
                        return found
                    self.foul = "It answered for another task."
        except (ValueError, TypeError, KeyError):
            self.foul = "It wrote into the connection of its worker what cannot be read."
        return None

    def _asked(self) -> tuple:
        return self.task.claim_id, self.task.seed, self.task.parameters

    def problem(self, time_limit: float | None, memory_limit: float | None) -> str | None:
        """Why the task must end here, in a sentence."""
        if self.foul:
            return self.foul
        if self.dead:
            n = len(self.checks)
            when = f"after {n} check{'s' * (n > 1)}" if n else "before its first check"
            return f"The worker died ({self.died()}) {when}."
        if self.began is None and time.monotonic() - self.dealt > START_UP:
            return f"The worker did not start within {START_UP:g} s."
        return self.exceeded(self.began, time_limit, memory_limit)

    def worn(self, memory_limit: float | None) -> bool:
        """Whether a new one should take the next task: after many results, when large, or with leaks or children."""
        if self.leaks or self.results >= RESULTS or descendants(self.process.pid):
            return True
        size = memory(self.process.pid)
        return memory_limit is not None and size is not None and size > memory_limit / 2

    def cut_short(self, error: str) -> Evidence:
        """The evidence of a task that did not come to its end: the checks that had arrived, and why."""
        t, seconds = self.task, 0.0 if self.began is None else time.monotonic() - self.began
        checks, figures = tuple(self.checks), tuple(self.figures)
        # as it is declared: its module may be what could not be imported
        claim = claims()[t.claim_id]
        return evidence_of(claim, t.seed, t.scale, t.parameters, checks, figures, error, seconds, self.started)


def cores(share: int, jobs: int) -> set[int] | None:
    """The cores of worker number `share` of `jobs`: disjoint while there are enough; None where it cannot be said."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    ours = sorted(os.sched_getaffinity(0))
    return set(ours[share::jobs]) or {ours[share % len(ours)]}
