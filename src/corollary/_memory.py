"""How much memory there is, and giving back what is not needed."""

import ctypes
import gc
import os
import sys
from pathlib import Path

import psutil

#: maps of memory with which a process still has room for all that one audit compiles, some 8,000
MAPS = 45_000

_left = 0  # bytes that this process held when it had last given back what it could
_stay = 0  # maps of memory that were left when it had last forgotten its programs


def physical_memory() -> int | None:
    """Bytes of memory that this machine, or the container we are in, has."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        return min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no such file, or "max"
        return total


def give_back() -> None:
    """Hand memory that was freed back to the machine, where the allocator of C keeps it for later.

    What compiled programs needed on their way is freed, but stays with the process: gigabytes for large networks.
    """
    trim = getattr(_libc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def give_back_beyond(room: int) -> None:
    """Hand freed memory back if the process holds `room` bytes more than it did after the last time.

    It is the growth that counts: of what a process needs for good nothing can be given back, and to try takes
    milliseconds for each of its gigabytes, and as long again when freed pages are asked for anew.
    """
    global _left
    process = psutil.Process()
    if process.memory_info().rss > _left + room:
        give_back()
        _left = process.memory_info().rss


def let_go_of_programs(most: int = MAPS) -> bool:
    """Forget all that JAX has compiled if the process has more than `most` maps of memory; whether that was so.

    Compiled programs hold some each, and Linux allows a process 65,530: LLVM ends one that asks for more. What is
    needed again is compiled again, or found in the compilation cache.
    """
    global _stay
    # what stays belongs to others, and to forget programs again and again would not help
    if _maps() <= max(most, _stay + most // 10) or "jax" not in sys.modules:
        return False
    sys.modules["jax"].clear_caches()
    gc.collect()
    give_back()
    _stay = _maps()
    return True


def _maps() -> int:
    try:
        with open("/proc/self/maps", "rb") as maps:
            return sum(1 for _ in maps)
    except OSError:  # another system than Linux
        return 0


def _libc():
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):  # not everywhere is there one library of the process
        return None
