"""What a process has freed goes back to the machine."""

import ctypes

import psutil
import pytest

from corollary._memory import give_back, physical_memory


def test_this_machine_has_memory():
    assert physical_memory() is None or physical_memory() > 2**28


def test_freed_memory_is_handed_back():
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("another C library keeps nothing to hand back")
    process = psutil.Process()
    # blocks below the size that is mapped on its own; every sixteenth stays, so that the heap cannot just shrink
    blocks = [bytearray(b"x" * 2**16) for _ in range(2**11)]
    kept = blocks[15::16]
    full = process.memory_info().rss
    del blocks
    give_back()
    assert process.memory_info().rss < full - 2**26
    assert len(kept) == 2**7
