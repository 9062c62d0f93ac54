"""A worker and everything that it started, which ends with it.

Descendants are found as children of children, and, where a claim has cut that tie, by a mark in their environment.
"""

import os
import signal
from contextlib import suppress

import psutil

MARK = "COROLLARY_WORKER"  # the name of the variable that a worker and its descendants have in their environment


def descendants(pid: int) -> list[psutil.Process]:
    """The children of a process, and theirs."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def marked(mark: str) -> list[psutil.Process]:
    """All other processes with this mark in their environment."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # gone, or somebody else's
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found.append(process)
    return found


def memory(pid: int) -> int | None:
    """Bytes that a process and its descendants hold now; pages that they share count once."""
    try:
        below = descendants(pid)
        if not below:
            return psutil.Process(pid).memory_info().rss
        return sum(_own(process) for process in [psutil.Process(pid), *below])
    except psutil.Error:
        return None


def _own(process: psutil.Process) -> int:
    try:
        full = process.memory_full_info()
    except psutil.Error:
        return 0
    return getattr(full, "pss", full.uss)


def end_tree(pid: int, mark: str) -> None:
    """Kill whatever came of a worker, and its group with itself."""
    # while it lives: orphans are nobody's children
    for process in [*descendants(pid), *marked(mark)]:
        with suppress(psutil.Error):
            process.kill()
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # a group of this number exists only once the worker leads it
