"""The first thing that a worker does, before anything is imported that takes time."""

import ctypes
import multiprocessing
import os
import signal
import socket
import sys

_PR_SET_PDEATHSIG = 1


def start(end: socket.socket, cores: set[int] | None) -> None:
    """Make this process one that ends with its parent, on its share of the cores; then let it work."""
    _lead()
    if cores is not None:
        os.sched_setaffinity(0, cores)  # before JAX is imported, which counts them
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends us

    from corollary.evidence._worker import work

    work(end)


def _lead() -> None:
    """Lead a group of our own, and on Linux be killed with our parent even while we are stopped."""
    if hasattr(os, "setsid"):
        os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if not multiprocessing.parent_process().is_alive():  # it was killed before we asked for that
        os._exit(1)
