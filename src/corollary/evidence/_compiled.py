"""Compiled programs that are kept between runs, which spend most of their time on compiling."""

import hashlib
import os
import platform
import warnings
from pathlib import Path

from corollary.evidence._staleness._cache import directory


def cache_compilations() -> None:
    """Let JAX keep what it compiles in the user's cache directory, unless the user has chosen another place.

    Code for one CPU may not run on another, and JAX does not tell them apart; machines that share a home
    directory therefore get a directory each. A cache that cannot be used costs time, nothing else.
    """
    import jax

    if jax.config.jax_compilation_cache_dir is not None:
        return
    try:
        place = directory() / "xla" / _cpu_type()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(place, os.W_OK):
            return
    except OSError:
        return
    warnings.filterwarnings("ignore", message=".*persistent compilation cache entry")
    jax.config.update("jax_compilation_cache_dir", str(place))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _cpu_type() -> str:
    """A short name for what the CPU can do."""
    known = platform.machine() + platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        known += "".join(sorted({x for x in lines if x.startswith(("model name", "flags", "Features"))}))
    except OSError:
        pass
    return hashlib.sha256(known.encode()).hexdigest()[:12]
