"""Which public object covers which row of the texts."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: row id -> dotted names of the objects that cover it, as far as their modules have been imported
IMPLEMENTED: dict[str, list[str]] = {}


def implements(*rows: str) -> Callable[[T], T]:
    """Record that the decorated function or class covers these rows of the catalog; return it unchanged."""

    def record(thing: T) -> T:
        for row in rows:
            IMPLEMENTED.setdefault(row, []).append(f"{thing.__module__}.{thing.__qualname__}")
        return thing

    return record
