"""Claims that misbehave, each in its own way, and innocent ones that must not notice.

The innocent ones compute what the leaks below would change. `COROLLARY_CLAIMS=hostile_claims` makes them all known.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Check, at_most, claim, equal

HOSTILE = {}


def hostile(ends: str, says: str = ""):
    """A hostile claim, the verdict that it must end with, and words of its reason."""

    def make(function):
        function.__doc__ = f"{function.__name__.replace('_', ' ')}.\n\nIt misbehaves."
        made = claim(rows=("M02.01",))(function)
        HOSTILE[function.__name__] = (ends, says)
        return made

    return make


def passing() -> Check:
    return at_most("one is at most two", 1.0, bound=2.0)


def _sums(key):
    x = jax.random.normal(key, (100,))
    yield equal("sum", jnp.sum(x), jnp.dot(x, jnp.ones(100)))
    yield at_most("sum of squares", float(jnp.sum(x**2)), bound=1e6)


@claim(rows=("M02.01",))
def innocent(key):
    """A sum over a random vector is the product with ones.

    In float64, to rounding."""
    yield from _sums(key)


@claim(rows=("M02.01",))
def child_innocent(key):
    """A sum over a random vector is the product with ones.

    In float64, to rounding."""
    yield from _sums(key)


@claim(rows=("M02.01",))
def forks_innocent(key):
    """A sum over a random vector is the product with ones.

    In float64, to rounding."""
    yield from _sums(key)


@claim(rows=("M02.01",))
def leaks_innocent(key):
    """A sum over a random vector is the product with ones.

    In float64, to rounding."""
    yield from _sums(key)


@claim(rows=("M02.01",))
def leaks_the_innocent(key):
    """A sum over a random vector is the product with ones.

    In float64, to rounding."""
    yield from _sums(key)


@claim(rows=("M02.01",))
def patches_innocent(key):
    """A sum over a random vector is the product with ones.

    In float64, to rounding."""
    yield from _sums(key)


@claim(rows=("M02.01",))
def raises_innocent(key):
    """A sum over a random vector is the product with ones.

    In float64, to rounding."""
    yield from _sums(key)


@claim(rows=("M02.01",))
def sends_innocent(key):
    """A sum over a random vector is the product with ones.

    In float64, to rounding."""
    yield from _sums(key)


@claim(rows=("M02.01",))
def stops_innocent(key):
    """A sum over a random vector is the product with ones.

    In float64, to rounding."""
    yield from _sums(key)


# --- ends ---


@hostile("error", "signal 9")
def killed(key):
    yield passing()
    os.kill(os.getpid(), signal.SIGKILL)


@hostile("error", "exit status 3")
def exits_hard(key):
    os._exit(3)
    yield passing()


@hostile("error", "SystemExit")
def exits(key):
    yield passing()
    sys.exit(5)


@hostile("error", "KeyboardInterrupt")
def interrupts(key):
    yield passing()
    raise KeyboardInterrupt


class Silent(Exception):
    def __str__(self):
        raise ValueError("no")


class Base(BaseException):
    pass


@hostile("error", "Silent: (it cannot say what)")
def raises_what_cannot_be_said(key):
    yield passing()
    raise Silent


@hostile("error", "Base")
def raises_a_base_exception(key):
    yield passing()
    raise Base("base")


@hostile("error", "GeneratorExit")
def raises_generator_exit(key):
    yield passing()
    raise GeneratorExit


@hostile("error", "RecursionError")
def recurses(key):
    def again(n):
        return again(n + 1)

    yield passing()
    again(0)


@hostile("error", "signal 11")
def crashes(key):
    yield passing()
    os.kill(os.getpid(), signal.SIGSEGV)


@hostile("error", "signal 15")
def terminates(key):
    yield passing()
    os.kill(os.getpid(), signal.SIGTERM)


@hostile("error", "yields checks and figures")
def yields_nonsense(key):
    yield "nonsense"


@hostile("error", "no check")
def yields_nothing(key):
    yield from ()


@hostile("error", "at most 10,000 checks")
def yields_without_end(key):
    while True:
        yield passing()


@hostile("error", "MemoryError")
def says_memory_error(key):
    yield passing()
    raise MemoryError


# --- hangs ---


@hostile("error", "longer than the limit")
def sleeps(key):
    yield passing()
    time.sleep(3600)


@hostile("error", "its connection is closed")
def closes_its_files_and_sleeps(key):
    yield passing()
    os.closerange(0, 256)
    time.sleep(3600)


@hostile("error", "longer than the limit")
def stops(key):
    yield passing()
    os.kill(os.getpid(), signal.SIGSTOP)


@hostile("error", "longer than the limit")
def ignores_everything(key):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    yield passing()
    while True:
        time.sleep(3600)


def _connections():
    """The sockets of this process: one of them leads to the run."""
    for number in range(3, 256):
        try:
            yield socket.socket(fileno=os.dup(number))
        except OSError:
            continue


@hostile("error", "longer than the limit")
def sends_half_a_message(key):
    yield passing()
    for end in _connections():
        end.send(b'["half')
    time.sleep(3600)


@hostile("error", "no result of its own")
def answers_for_others(key):
    yield passing()
    for end in _connections():
        end.send(b'["another","end","{}"]\n')
    time.sleep(3600)


@hostile("error", "no result of its own")
def sends_garbage(key):
    yield passing()
    for end in _connections():
        end.send(b"\x00\xff garbage\n")
    time.sleep(3600)


# --- grows ---


@hostile("error", "more than the limit")
def grows(key):
    yield passing()
    hoard = np.ones(150_000_000)
    time.sleep(3600)
    yield at_most("kept", hoard[0], bound=2.0)


@hostile("error", "more than the limit")
def child_grows(key):
    yield passing()
    code = "x = b'x' * 1_200_000_000; import time; time.sleep(3600)"
    subprocess.Popen([sys.executable, "-c", code]).wait()


# --- multiplies ---


@hostile("holds")
def forks_and_both_go_on(key):
    yield passing()
    os.fork()
    yield passing()


@hostile("holds")
def leaves_a_child(key):
    subprocess.Popen(["sleep", "3600"])
    yield passing()


@hostile("holds")
def leaves_an_orphan(key):
    subprocess.run(["sh", "-c", "setsid sleep 3600 >/dev/null 2>&1 &"], check=True)
    yield passing()


@hostile("holds")
def leaves_a_thread(key):
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    yield passing()


# --- leaks ---


@hostile("holds", "jax_debug_nans")
def leaks_debug_nans(key):
    jax.config.update("jax_debug_nans", True)
    yield passing()


@hostile("holds", "jax_disable_jit")
def leaks_disable_jit(key):
    jax.config.update("jax_disable_jit", True)
    yield passing()


@hostile("holds", "jax_default_matmul_precision")
def leaks_precision(key):
    jax.config.update("jax_default_matmul_precision", "bfloat16")
    yield passing()


@hostile("holds", "NumPy's error state")
def leaks_error_state(key):
    np.seterr(all="raise")
    yield passing()


@hostile("holds", "the working directory")
def leaks_the_directory(key):
    os.chdir("/")
    yield passing()


@hostile("holds", "the environment variable HOSTILE")
def leaks_the_environment(key):
    os.environ["HOSTILE"] = "1"
    yield passing()


@hostile("holds", "the recursion limit")
def leaks_the_recursion_limit(key):
    sys.setrecursionlimit(sys.getrecursionlimit() + 17)
    yield passing()


@hostile("holds", "corollary.evidence._exact.equal")
def patches_the_engine(key):
    import corollary.evidence._exact as engine

    engine.equal = lambda *args, **kwargs: passing()
    yield passing()


@hostile("holds", "corollary.evidence._check.Check.__init__")
def patches_a_method(key):
    from corollary.evidence._check import Check

    before = Check.__init__
    Check.__init__ = lambda self, *args, **kwargs: before(self, *args, **kwargs)
    yield passing()


@hostile("holds", "jax.numpy.sum")
def patches_jax(key):
    before = jnp.sum
    jnp.sum = lambda x, **kwargs: before(x, **kwargs) + 1.0
    yield passing()


# --- talks ---


@hostile("holds")
def prints_escapes(key):
    print("\x1b[31mred\x1b]0;title\x07")
    yield passing()


@hostile("error", "owned")
def raises_escapes(key):
    yield passing()
    raise ValueError("\x1b]0;owned\x07")
