"""A worker process as its parent sees it: what has arrived, how long it has taken, how large it is."""

import json
import multiprocessing
import os
import signal
import socket
import time
import uuid
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from multiprocessing import resource_tracker
from pathlib import Path
from time import sleep

from corollary.evidence._check import Check, Figure
from corollary.evidence._evidence import Evidence, from_json
from corollary.evidence._lines import LIMIT, Lines, TooLong, send
from corollary.evidence._run import evidence_of
from corollary.evidence._start import start
from corollary.evidence._task import Task
from corollary.evidence._tree import MARK, descendants, end_tree, memory
from corollary.evidence._worker import find

START_UP = 180.0  # seconds for a worker to import JAX and the claim: a cold disk under load is slow
BATCH = 100  # messages taken at once from one worker, so that a talkative one cannot hide from its limits
LOOK = 0.4  # seconds between two looks at the memory of a worker and of what it started
RESULTS = 200  # after which a worker is replaced: it grows by some megabytes with each
TOO_LARGE = "It used"


class Worker:
    """A worker process as its parent sees it, and what has arrived of the task that it has.

    It is the worker number `share` of `jobs`, and keeps to its part of the cores: workers that each run as many threads
    as the machine has cores spend most of their time waiting for each other.
    """

    def __init__(self, share: int = 0, jobs: int = 1):
        self.share, self.mark = share, uuid.uuid4().hex
        self.end, theirs = socket.socketpair()
        context = multiprocessing.get_context("spawn")
        self.process = context.Process(target=start, args=(theirs, cores(share, jobs)), daemon=True)
        os.environ[MARK] = self.mark  # which it inherits, and all that it starts
        try:
            self.process.start()
        finally:
            del os.environ[MARK]
        theirs.close()  # so that the worker's death closes the connection
        self.lines = Lines(self.end)
        self.task, self.ready, self.dead, self.results, self.looked = None, False, False, 0, 0.0

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
        # looked at before the messages: what a process wrote before it died is there to be read
        self.dead = self.dead or not self.process.is_alive()
        try:
            for message in self.lines.take(None if self.dead else BATCH):
                found = self._hear(message, on_event)
                if found is not None:
                    self.results += 1
                    return found
        except TooLong:
            self.foul = f"It sent a message of more than {_gigabytes(LIMIT)}."
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
            code, n = self._exit_code(), len(self.checks)
            how = (
                "its connection is closed" if code is None else f"signal {-code}" if code < 0 else f"exit status {code}"
            )
            return f"The worker died ({how}) {f'after {n} check' + 's' * (n > 1) if n else 'before its first check'}."
        now = time.monotonic()
        if self.began is None and now - self.dealt > START_UP:
            return f"The worker did not start within {START_UP:g} s."
        if self.began is not None and time_limit is not None and now - self.began > time_limit:
            return f"It took longer than the limit of {time_limit:g} s."
        if memory_limit is None or now - self.looked < LOOK:
            return None
        self.looked, size = now, memory(self.process.pid)
        if size is not None and size > memory_limit:
            return f"{TOO_LARGE} {_gigabytes(size)} of memory, more than the limit of {_gigabytes(memory_limit)}."
        return None

    def _exit_code(self) -> int | None:
        """How it ended; None if it lives on behind a connection that it closed, where `join` would wait for ever."""
        for _ in range(50):
            if self.process.exitcode is not None:
                break
            sleep(0.02)
        return self.process.exitcode

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
        claim = find(t.claim_id, t.module, t.file)
        return evidence_of(claim, t.seed, t.scale, t.parameters, checks, figures, error, seconds, self.started)

    def kill(self) -> None:
        """End it with all that it started, without waiting."""
        end_tree(self.process.pid, self.mark)
        self.process.kill()

    def close(self) -> None:
        """Kill it, wait for its end, and close the connection."""
        self.kill()
        self.process.join()  # a process that was killed ends
        self.end.close()


def cores(share: int, jobs: int) -> set[int] | None:
    """The cores of worker number `share` of `jobs`: disjoint while there are enough; None where it cannot be said."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    ours = sorted(os.sched_getaffinity(0))
    return set(ours[share::jobs]) or {ours[share % len(ours)]}


@contextmanager
def uninterrupted():
    """Hold Ctrl-C back: a new worker must be on the list before we can be asked to end all that are.

    It inherits the blocked signal, and so does not print a traceback of its own when a terminal sends it to both.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # would otherwise be started, and unblock the signal, on the first spawn
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def physical_memory() -> int | None:
    """Bytes of memory that this machine, or the container we are in, has."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        return min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no such file, or "max"
        return total


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.2f} GB"
