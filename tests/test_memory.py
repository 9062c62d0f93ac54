"""What a process has freed goes back to the machine."""

import ctypes
import sys
from types import SimpleNamespace

import psutil
import pytest

from corollary import _memory
from corollary._memory import give_back, give_back_beyond, let_go_of_programs, physical_memory


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


def test_memory_is_handed_back_for_growth_alone(monkeypatch):
    """A process that holds gigabytes for good is not trimmed again and again."""
    trims, held = [], SimpleNamespace(rss=5 * 2**30)
    monkeypatch.setattr(_memory, "give_back", lambda: trims.append(held.rss))
    monkeypatch.setattr(_memory.psutil, "Process", lambda: SimpleNamespace(memory_info=lambda: held))
    monkeypatch.setattr(_memory, "_left", 0)
    for gigabytes in (5, 6, 5, 7.5, 8, 9, 10):
        held.rss = gigabytes * 2**30
        give_back_beyond(2 * 2**30)
    assert [size / 2**30 for size in trims] == [5, 7.5, 10]


def test_compiled_programs_are_let_go_of_where_they_are_too_many(monkeypatch):
    forgotten = []
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(clear_caches=lambda: forgotten.append(True)))
    assert not let_go_of_programs(10**9)
    assert not forgotten
    monkeypatch.setattr(_memory, "_stay", 0)
    if _memory._maps():
        assert let_go_of_programs(1)
        assert forgotten == [True]
        # what stayed is none of these programs
        monkeypatch.setattr(_memory, "_maps", lambda: 50_000)
        monkeypatch.setattr(_memory, "_stay", 48_000)
        assert not let_go_of_programs(45_000)
        monkeypatch.setattr(_memory, "_stay", 1_000)
        assert let_go_of_programs(45_000)
    monkeypatch.delitem(sys.modules, "jax")
    assert not let_go_of_programs(1)
