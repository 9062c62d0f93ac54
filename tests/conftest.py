"""One compilation cache for all tests (what one process compiled, the next one reads), and no deadlines."""

import os
import sys
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
# thirds, and with XLA's older emitters, which jaxlib 0.10 still has, half of that again
_FLAGS = "--xla_backend_optimization_level=0"
if version("jaxlib").startswith("0.10."):
    _FLAGS += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", _FLAGS)

from hypothesis import HealthCheck, settings  # noqa: E402

# A deadline measures the machine's load, not the code.
settings.register_profile("corollary", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("corollary")


_ran = 0


def pytest_runtest_teardown():
    """Let go of compiled programs now and then: each holds pages of memory, of which a process may have 65,530."""
    global _ran
    _ran += 1
    if _ran % 50 == 0 and "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
