"""Which functions of ours a claim really calls, so that its closure can be held against them.

What runs while a module is imported is not a call of the claim's: values that a module computes count with their names.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

from corollary.evidence._staleness._closure import Unit
from corollary.evidence._staleness._sources import Sources

TOOL = 4  # of sys.monitoring, one that neither debuggers nor profilers take by default


class Tracer:
    """Collects the code of ours that is called inside `watch`, in all threads that are started there."""

    def __init__(self, sources: Sources):
        self._modules: dict[str, str | None] = {
            str(file.path.resolve()): module for module, file in sources.files.items()
        }
        self._modules[__file__] = None  # our own steps are no part of the claim
        self._tables = sources.tables
        self._seen: set[CodeType] = set()
        self._importing: dict[int, int] = {}  # thread -> modules that are being imported in it

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Trace what runs inside the block."""
        if hasattr(sys, "monitoring"):
            yield from self._monitor()
        else:
            yield from self._profile()

    def items(self, iterator: Iterator) -> Iterator:
        """The items of `iterator`, whose own steps are traced, and nothing that happens between them."""
        while True:
            with self.watch():
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    @property
    def called(self) -> set[Unit]:
        """The units whose functions were called."""
        return {unit for code in self._seen if (unit := self._unit(code)) is not None}

    def _unit(self, code: CodeType) -> Unit | None:
        module = self._module(code)
        if module is None or code.co_name == "<module>":
            return None
        line = code.co_firstlineno
        for name, record in self._tables[module]["names"].items():
            if any(first <= line <= last for first, last in record["lines"]):
                return module, name
        return module, ""

    def _module(self, code: CodeType) -> str | None:
        name = code.co_filename
        if name not in self._modules:  # the same file may be reached through a link
            self._modules[name] = self._modules.get(str(Path(name).resolve())) if name.endswith(".py") else None
        return self._modules[name]

    def _profile(self) -> Iterator[None]:
        seen, importing = self._seen, self._importing

        def event(frame: FrameType, kind: str, _) -> None:
            if kind not in ("call", "return"):
                return
            code = frame.f_code
            if code in seen or self._module(code) is None:
                return
            thread = threading.get_ident()
            if code.co_name == "<module>":
                importing[thread] = importing.get(thread, 0) + (1 if kind == "call" else -1)
            elif kind == "call" and not importing.get(thread):
                seen.add(code)

        before = sys.getprofile()
        sys.setprofile(event)
        threading.setprofile(event)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(None)

    def _monitor(self) -> Iterator[None]:
        events = sys.monitoring

        def start(code: CodeType, _offset: int):
            if self._module(code) is None or code.co_name == "<module>":
                return events.DISABLE
            frame = sys._getframe(1)
            while frame is not None:
                if frame.f_code.co_name == "<module>" and self._module(frame.f_code) is not None:
                    return None  # it may be called again when nothing is imported
                frame = frame.f_back
            self._seen.add(code)
            return events.DISABLE

        events.use_tool_id(TOOL, "corollary")
        events.register_callback(TOOL, events.events.PY_START, start)
        events.restart_events()
        events.set_events(TOOL, events.events.PY_START)
        try:
            yield
        finally:
            events.set_events(TOOL, 0)
            events.register_callback(TOOL, events.events.PY_START, None)
            events.free_tool_id(TOOL)
