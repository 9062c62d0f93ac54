"""The first thing that a child process does, before anything is imported that takes time."""

import ctypes
import multiprocessing
import os
import signal
import socket
import sys
import threading
from importlib import import_module

_PR_SET_PDEATHSIG = 1

#: Set where the user has not. XLA's log says nothing that we do not, except for a fatal error; several workers on one
#: accelerator must not each reserve most of its memory at the start.
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def start(end: socket.socket, cores: set[int] | None, module: str) -> None:
    """Make this process one that ends with its parent, on its share of the cores; then let `module` work."""
    _lead()
    if cores is not None:
        os.sched_setaffinity(0, cores)  # before JAX is imported, which counts them
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends us

    from corollary.evidence._tree import MARK

    threading.Thread(target=_die_with_parent, args=(os.environ.get(MARK, ""),), daemon=True).start()
    os.dup2(2, 1)  # what others' code prints must not get between the lines that the command prints
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import_module(module).work(end)


def _lead() -> None:
    """Lead a group of our own, and on Linux be killed with our parent even while we are stopped.

    The latter first: who leads a group, and may be stopped as one of ours, must not be able to outlive our parent.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if hasattr(os, "setsid"):
        os.setsid()
    if not multiprocessing.parent_process().is_alive():  # it was killed before we asked for that
        os._exit(1)


def _die_with_parent(mark: str) -> None:
    """A parent that is killed cannot end its children; they notice, and end what they have started."""
    from multiprocessing.connection import wait

    from corollary.evidence._tree import end_tree

    wait([multiprocessing.parent_process().sentinel])
    end_tree(os.getpid(), mark)
    os._exit(1)
