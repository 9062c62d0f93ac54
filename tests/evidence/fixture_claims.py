"""Tiny claims for the tests of the runner: each ends in its own way.

`COROLLARY_CLAIMS=fixture_claims` makes them known. Each run appends a line to the file that `FIXTURE_TRACE` names,
which is how the tests count what was really executed, and by which process.
"""

import os
import signal
import time

import numpy as np

from corollary.evidence import Check, Count, at_most, claim


def trace(name: str, detail: object = "") -> None:
    if path := os.environ.get("FIXTURE_TRACE"):
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{name} {os.getpid()} {detail}\n".encode())
        os.close(handle)


def passing(name: str = "one is at most two") -> Check:
    return at_most(name, 1.0, bound=2.0)


@claim(rows=("M02.01",))
def true(key, *, size: Count = 3):
    """A true statement.

    One is at most two."""
    trace("true", size)
    print("a claim that prints")
    yield passing()


@claim(rows=("M02.01",))
def placed(key):
    """A claim that tells where it runs.

    It traces the cores that it may use, and waits for another to do the same."""
    trace("placed", "-".join(map(str, sorted(os.sched_getaffinity(0)))))
    time.sleep(0.5)
    yield passing()


@claim(rows=("M02.01",))
def false(key):
    """A false statement.

    Three is at most two."""
    trace("false")
    yield at_most("three is at most two", 3.0, bound=2.0)


@claim(rows=("M02.01",))
def raises(key):
    """A claim with a mistake.

    It divides by zero after its first check."""
    trace("raises")
    yield passing()
    yield at_most("never", 1 / (len("") * 1.0), bound=1.0)


@claim(rows=("M02.01",))
def unwritable(key):
    """A claim whose check cannot be written down.

    Its axes hold an object."""
    yield passing()
    yield Check("odd", "at_most", "passed", 1.0, "Fine.", axes={"x": object()})


@claim(rows=("M02.01",))
def dies(key):
    """A claim that is killed.

    It gets signal 9 after its first check."""
    trace("dies")
    yield passing()
    os.kill(os.getpid(), signal.SIGKILL)


@claim(rows=("M02.01",))
def leaves(key):
    """A claim that ends its process.

    It exits with status 3 before any check."""
    trace("leaves")
    os._exit(3)
    yield passing()


@claim(rows=("M02.01",))
def sleeps(key):
    """A claim that never ends.

    It sleeps after its first check."""
    trace("sleeps")
    yield passing()
    while True:
        time.sleep(60)


@claim(rows=("M02.01",))
def chatters(key):
    """A claim that never stops talking.

    It yields checks as fast as it can."""
    check = passing()
    while True:
        yield check


@claim(rows=("M02.01",))
def grows(key):
    """A claim that eats memory.

    It takes 1.2 GB, and keeps them."""
    trace("grows")
    yield passing()
    hoard = np.ones(150_000_000)
    while hoard.size:
        time.sleep(60)


@claim(rows=("M02.01",))
def ticketed(key):
    """A claim that ends when it is let.

    It takes one of the files in the directory FIXTURE_TICKETS, and waits while there is none."""
    trace("ticketed")
    while not took_ticket():
        time.sleep(0.02)
    yield passing()


def took_ticket() -> bool:
    for ticket in os.listdir(os.environ["FIXTURE_TICKETS"]):
        try:
            os.unlink(os.path.join(os.environ["FIXTURE_TICKETS"], ticket))
            return True
        except FileNotFoundError:  # another process was faster
            pass
    return False
