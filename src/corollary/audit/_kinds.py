"""What is audited by sections of its own, in place of those of a network with a loss and labels."""

from abc import ABC, abstractmethod
from typing import Any


class Special(ABC):
    """A subject of another kind: `sections` names what is asked of it, files of `audit/sections`.

    Its `summary()` holds what stands at the top of a report: `facts`, pairs of a number and the words that go with it,
    both text, beside what else a reader of the JSON may want.
    """

    sections: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """What stands at the top of a report."""
