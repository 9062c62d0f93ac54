"""Claims that take a moment each, so that a run of them can be disturbed: `COROLLARY_CLAIMS=slow_claims`."""

import time

import jax

from corollary.evidence import at_most, claim


def _moment(key, seconds):
    x = float(jax.random.uniform(key))
    time.sleep(seconds)
    yield at_most("a number below one", x, bound=1.0)


@claim(rows=("M02.01",))
def short(key):
    """A uniform number is below one.

    It takes a tenth of a second."""
    yield from _moment(key, 0.1)


@claim(rows=("M02.01",))
def longer(key):
    """A uniform number is below one, too.

    It takes a quarter of a second."""
    yield from _moment(key, 0.25)


@claim(rows=("M02.01",))
def two_checks(key):
    """Two uniform numbers are below one.

    They take a fifth of a second."""
    for part in jax.random.split(key):
        yield from _moment(part, 0.1)
