"""A process that runs code of others, as its parent sees it: how long it took, how large it is, how it ended."""

import multiprocessing
import os
import signal
import socket
import time
import uuid
from contextlib import contextmanager
from multiprocessing import resource_tracker
from time import sleep

from corollary.evidence._lines import Lines
from corollary.evidence._start import start
from corollary.evidence._tree import MARK, end_tree, memory

TICK = 0.5  # seconds between two looks at the time and the memory of a child
LOOK = 0.4  # seconds that are at least between two looks at the memory of a child and of what it started
SHARE = 0.8  # of the machine's memory that children have together unless somebody says otherwise
TOO_LARGE = "It used"


class Child:
    """A process that calls `work(end)` of a module, with its end of a connection, and that ends with its parent.

    It leads a group of its own, and what it starts counts with it and ends with it.
    """

    def __init__(self, module: str, cores: set[int] | None = None):
        self.mark = uuid.uuid4().hex
        self.end, theirs = socket.socketpair()
        context = multiprocessing.get_context("spawn")
        self.process = context.Process(target=start, args=(theirs, cores, module), daemon=True)
        os.environ[MARK] = self.mark  # which it inherits, and all that it starts
        try:
            self.process.start()
        finally:
            del os.environ[MARK]
        theirs.close()  # so that the child's death closes the connection
        self.lines = Lines(self.end)
        self.dead, self.looked = False, 0.0

    def look(self) -> None:
        """Notice its death; before messages are taken, because what it wrote before it died is there to be read."""
        self.dead = self.dead or not self.process.is_alive()

    def died(self) -> str:
        """How it ended, in words."""
        code = self._exit_code()
        if code is None:
            return "its connection is closed"
        return f"signal {-code}" if code < 0 else f"exit status {code}"

    def exceeded(self, began: float | None, time_limit: float | None, memory_limit: float | None) -> str | None:
        """Which limit it is beyond, in a sentence."""
        now = time.monotonic()
        if began is not None and time_limit is not None and now - began > time_limit:
            return f"It took longer than the limit of {time_limit:g} s."
        if memory_limit is None or now - self.looked < LOOK:
            return None
        self.looked, size = now, memory(self.process.pid)
        if size is not None and size > memory_limit:
            return f"{TOO_LARGE} {gigabytes(size)} of memory, more than the limit of {gigabytes(memory_limit)}."
        return None

    def _exit_code(self) -> int | None:
        """How it ended; None if it lives on behind a connection that it closed, where `join` would wait for ever."""
        for _ in range(50):
            if self.process.exitcode is not None:
                break
            sleep(0.02)
        return self.process.exitcode

    def kill(self) -> None:
        """End it with all that it started, without waiting."""
        end_tree(self.process.pid, self.mark)
        self.process.kill()

    def close(self) -> None:
        """Kill it, wait for its end, and close the connection."""
        self.kill()
        self.process.join()  # a process that was killed ends
        self.end.close()


@contextmanager
def uninterrupted():
    """Hold Ctrl-C back: a new child must be on the list before we can be asked to end all that are.

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


def gigabytes(size: float) -> str:
    return f"{size / 1e9:.2f} GB"
