"""One compilation cache for all tests (what one process compiled, the next one reads), and no deadlines."""

import contextlib
import ctypes
import gc
import os
import sys
import threading
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("COROLLARY_CACHE", str(ROOT / ".cache" / "corollary"))
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "xla"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
# most programs here run for milliseconds after seconds of compilation: without LLVM's passes the whole takes two
# thirds, and with XLA's older emitters, which jaxlib 0.10 still has, half of that again; a program that is not split
# into parts for threads takes a fifth less
_FLAGS = "--xla_backend_optimization_level=0"
if version("jaxlib").startswith("0.10."):
    _FLAGS += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
os.environ.setdefault("XLA_FLAGS", _FLAGS)
# the arrays are tiny: a second thread of PyTorch or scikit-learn would only wait for the first one, and turn meanwhile
os.environ.setdefault("OMP_NUM_THREADS", "1")
# nothing is let go of while tests are collected: looking for it would take a sixth of that time
gc.disable()

import psutil  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# A deadline measures the machine's load, not the code.
settings.register_profile("corollary", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("corollary")


def pytest_collection_finish():
    """Look for garbage less often, and never among what was imported: nearly all of it lives as long as the process."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 50)
    gc.enable()


def pytest_sessionstart(session):
    """Share contexts in the processes that run tests: of several, the first one only hands them out."""
    if not session.config.getoption("numprocesses", None):
        _share_contexts()


def _share_contexts(programs: int = 200):
    """Lower that many programs in one MLIR context.

    JAX makes a context for each program and loads all dialects into it: a fifth of the time that a tiny program takes,
    and three quarters of the memory that it holds as long as it is kept. Contexts are renewed because they keep
    constants. A thread has its own, and a program that is lowered while another one is gets a new one: contexts are
    not made for either. Where JAX makes them in another way, it goes on doing so.
    """
    from jax.interpreters import mlir

    make = getattr(mlir, "make_ir_context", None)
    scope = getattr(make, "__globals__", {})
    if make is None or scope.get("make_ir_context") is not make or "ir" not in scope:
        return
    held = threading.local()

    def shared():
        with contextlib.suppress(ValueError):  # there is none
            if scope["ir"].Context.current is not None:
                return make()
        held.programs = getattr(held, "programs", 0)
        if held.programs % programs == 0:
            held.context = make()
        held.programs += 1
        return held.context

    scope["make_ir_context"] = shared


@pytest.fixture
def four_devices():
    """The environment of a process that sees four CPUs, and compiles as quickly as this one."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=4"
    return os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}


# Compiled programs that a process may keep: each holds half a megabyte, and some of the 65,530 maps of memory that
# Linux allows. The workers share half of the machine's memory: 2 to 4 GiB each.
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
MAPS, BYTES = 45_000, min(max(psutil.virtual_memory().total // 2 // WORKERS, 2**31), 2**32)
_ran, _most = 0, BYTES


def pytest_runtest_teardown():
    """Let go of compiled programs when they have become many, not earlier: tests that follow would make them again."""
    global _ran, _most
    _ran += 1
    if _ran % 20 == 0 and "jax" in sys.modules and _full():
        sys.modules["jax"].clear_caches()
        gc.collect()
        _give_back()
        # where others hold the memory, letting go of ours after every few tests would only make the tests slow
        _most = max(BYTES, psutil.Process().memory_info().rss + 2**30)


def _full() -> bool:
    try:
        with open("/proc/self/maps", "rb") as maps:
            many = sum(1 for _ in maps) > MAPS
    except OSError:  # another system than Linux
        many = _ran % 60 == 0
    return many or psutil.Process().memory_info().rss > _most


def _give_back():
    """Hand freed memory back to the system: the C library keeps it, and the process would look as large as before."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)
