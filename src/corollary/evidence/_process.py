"""A worker process as its parent sees it: what has arrived, how long it has taken, how large it is."""

import json
import multiprocessing
import os
import signal
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import resource_tracker
from pathlib import Path

from corollary.evidence._check import Check, Figure
from corollary.evidence._evidence import Evidence, from_json
from corollary.evidence._run import evidence_of
from corollary.evidence._worker import find, work

START_UP = 180.0  # seconds for a worker to import JAX and the claim: a cold disk under load is slow
BATCH = 100  # messages taken at once from one worker, so that a talkative one cannot hide from its limits


class Worker:
    """A worker process as its parent sees it, and what has arrived of the task that it has.

    It is the worker number `share` of `jobs`, and keeps to its part of the cores: workers that each run as many threads
    as the machine has cores spend most of their time waiting for each other.
    """

    def __init__(self, share: int = 0, jobs: int = 1):
        self.share = share
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, cores(share, jobs)), daemon=True)
        self.process.start()
        theirs.close()  # so that the worker's death closes the pipe
        self.task, self.ready, self.dead = None, False, False

    def deal(self, task) -> None:
        self.task, self.checks, self.figures = task, [], []
        self.dealt, self.began, self.started = time.monotonic(), None, datetime.now(UTC).isoformat(timespec="seconds")
        try:
            self.connection.send(task)
        except OSError:
            self.dead = True

    def listen(self, on_event) -> Evidence | None:
        """Take what the worker has said; the evidence, if that was it."""
        # looked at before the pipe: what a process wrote before it died is there to be read
        self.dead = self.dead or not self.process.is_alive()
        count = 0
        try:
            while (self.dead or count < BATCH) and self.connection.poll():
                kind, text = self.connection.recv()
                count += 1
                match kind:
                    case "ready":
                        self.ready = True
                    case "start":
                        self.began = time.monotonic()
                        on_event(self.task, "start")
                    case "check":
                        self.checks.append(Check(**json.loads(text)))
                        on_event(self.task, "check")
                    case "figure":
                        self.figures.append(Figure(**json.loads(text)))
                    case "end":
                        return from_json(text)
                    case "error":
                        return self.cut_short(text)
        except (EOFError, OSError):
            self.dead = True
        return None

    def problem(self, time_limit: float | None, memory_limit: float | None) -> str | None:
        """Why the task must end here, in a sentence."""
        if self.dead:
            self.process.join(timeout=5)
            code, n = self.process.exitcode, len(self.checks)
            how = "lost" if code is None else f"signal {-code}" if code < 0 else f"exit status {code}"
            return f"The worker died ({how}) {f'after {n} check' + 's' * (n > 1) if n else 'before its first check'}."
        now = time.monotonic()
        if self.began is None and now - self.dealt > START_UP:
            return f"The worker did not start within {START_UP:g} s."
        if self.began is not None and time_limit is not None and now - self.began > time_limit:
            return f"It took longer than the limit of {time_limit:g} s."
        size = _resident(self.process.pid)
        if memory_limit is not None and size is not None and size > memory_limit:
            return f"It used {_gigabytes(size)} of memory, more than the limit of {_gigabytes(memory_limit)}."
        return None

    def cut_short(self, error: str) -> Evidence:
        """The evidence of a task that did not come to its end: the checks that had arrived, and why."""
        t, seconds = self.task, 0.0 if self.began is None else time.monotonic() - self.began
        checks, figures = tuple(self.checks), tuple(self.figures)
        claim = find(t.claim_id, t.module, t.file)
        return evidence_of(claim, t.seed, t.scale, t.parameters, checks, figures, error, seconds, self.started)

    def end(self) -> None:
        self.process.kill()
        self.process.join(timeout=5)
        self.connection.close()


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


def _resident(pid: int) -> int | None:
    """Bytes of memory that a process holds now, where the system tells."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


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
